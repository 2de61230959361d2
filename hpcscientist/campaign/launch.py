"""Launching a campaign: check everything, then make the run directory, or make nothing.

`plan` touches nothing. `claim` and `furnish` make the run directory whole or remove what
they made; campaign.toml is written last, for it is what makes a folder a run directory.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import shutil
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from hpcscientist import __version__
from hpcscientist.campaign import frozen
from hpcscientist.campaign.frozen import CampaignConfig
from hpcscientist.config.layers import default_data_root, default_private_root
from hpcscientist.config.settings import PathSettings, Settings
from hpcscientist.errors import RecipeError, RunDirectoryError, UsageError
from hpcscientist.execution import isolation
from hpcscientist.files import sealed
from hpcscientist.files.hashing import hash_image, hash_tree
from hpcscientist.files.rundir import RunPaths
from hpcscientist.models.open import open_model, parse_spec
from hpcscientist.recipe import data
from hpcscientist.recipe.load import Recipe, find, is_shipped, load
from hpcscientist.records.trial import Isolation

QUICKSTART = "digits"
# The library of a recipe can be large and no trial reads it.
NOT_COPIED = ("library", "__pycache__")


@dataclass(frozen=True, slots=True)
class LaunchPlan:
    """A launch that was checked. `model_assumed` is true where no --model was given."""

    settings: Settings
    recipe: Recipe
    model_spec: str
    model_name: str
    model_assumed: bool
    isolation: Isolation
    image: str | None
    run_dir: Path
    slots: int
    in_flight: int

    @property
    def is_paid(self) -> bool:
        """Whether the model's replies cost something: all but recorded ones."""
        return parse_spec(self.model_spec).kind not in ("playbook", "search")

    @property
    def trials_at_most(self) -> int:
        """Upper bound of the trials: baseline, then pilot and all seeds for each attempt."""
        seeds = self.recipe.spec.seeds
        attempts = 1 if self.model_spec == "search" else self.settings.loop.debug_rounds + 1
        return seeds + self.settings.ideas * attempts * (1 + seeds)


def plan(settings: Settings, folder: Path) -> LaunchPlan:
    """Check a launch from a working directory, without touching anything.

    Raises UsageError (recipe, model, sandbox, run directory) or EndpointError.
    """
    path = find(settings.recipe)
    recipe = load(path)
    spec = settings.model or _assumed_model(recipe, path)
    parsed = parse_spec(spec)
    name = "search" if parsed.kind == "search" else asyncio.run(_probe(spec, recipe, settings))
    image = recipe.image
    chosen = isolation.choose(image)
    trusted = parsed.kind == "search" or (spec == "playbook" and is_shipped(path))
    isolation.require_permission(chosen, trusted, settings.allow_unsandboxed)
    if parsed.kind == "search" and not recipe.spec.knobs:
        raise UsageError(
            f"recipe {recipe.spec.name!r} has no knobs to search; add [[knobs]] to its "
            "recipe.toml or choose another --model"
        )
    cores = len(os.sched_getaffinity(0))
    slots = settings.local.slots or max(1, cores // recipe.spec.resources.cpus)
    return LaunchPlan(
        settings=settings,
        recipe=recipe,
        model_spec=spec,
        model_name=name,
        model_assumed=not settings.model,
        isolation=chosen,
        image=image if chosen is Isolation.APPTAINER else None,
        run_dir=_run_dir(settings, recipe, folder),
        slots=slots,
        in_flight=settings.loop.ideas_in_flight or max(4, 2 * slots),
    )


@dataclass(frozen=True, slots=True)
class Claim:
    """A run directory that this launch alone made, or took over empty.

    `made` lists the folders that were made for it, outermost first; empty where the run
    directory existed.
    """

    paths: RunPaths
    made: tuple[Path, ...]

    def undo(self) -> None:
        """Remove a run directory in which nothing was learned, and what was made for it."""
        root = self.paths.root
        with contextlib.suppress(RunDirectoryError):  # not furnished yet
            sealed.forget_campaign_key(frozen.read(self.paths).campaign_id)
        for child in root.iterdir():
            if child.is_dir() and not child.is_symlink():
                shutil.rmtree(child, ignore_errors=True)
            else:
                child.unlink(missing_ok=True)
        for folder in reversed(self.made):
            with contextlib.suppress(OSError):  # somebody else uses it by now
                folder.rmdir()


def claim(plan: LaunchPlan) -> Claim:
    """Make the run directory, empty as yet.

    The folder of the driver's lock is made first and exclusively: of two launches into one
    folder, one wins and the other touches nothing. Raises UsageError or RunDirectoryError.
    """
    paths = RunPaths(plan.run_dir)
    missing = [folder for folder in (paths.root, *paths.root.parents) if not folder.exists()]
    try:
        paths.root.mkdir(parents=True, exist_ok=True)
        paths.lock.mkdir()
        claimed = Claim(paths, tuple(reversed(missing)))
        if {child.name for child in paths.root.iterdir()} != {paths.lock.name}:
            paths.lock.rmdir()
            raise _taken(paths.root)
        paths.trials.mkdir()
        (paths.root / "ideas").mkdir()
    except FileExistsError as error:
        raise _taken(paths.root) from error
    except OSError as error:
        raise _unwritable(paths, error) from error
    return claimed


def _taken(root: Path) -> UsageError:
    return UsageError(
        f"{root}: is not empty; go on with `hpcsci resume`, or give another --run-dir"
    )


def furnish(plan: LaunchPlan, claimed: Claim) -> None:
    """Prepare the data and fill the run directory; undo the claim on failure."""
    settings, recipe, paths = plan.settings, plan.recipe, claimed.paths
    try:
        roots = default_data_root(settings), default_private_root(settings)
        prepared = data.prepare(recipe, *roots)
        campaign_id = f"{recipe.spec.name}-{secrets.token_hex(4)}"
        sealed.make_campaign_key(campaign_id)
        config = CampaignConfig(
            campaign_id=campaign_id,
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            package_version=__version__,
            python=sys.executable,
            recipe_name=recipe.spec.name,
            recipe_origin=str(recipe.folder),
            model_spec=_snapshot(plan, paths),
            recipe_hash=hash_tree(paths.recipe),
            data_hash=prepared.data_hash,
            views={split: str(view) for split, view in prepared.views.items()},
            labels={split: sealed.key_of(labels) for split, labels in prepared.labels.items()},
            image=plan.image,
            image_hash=hash_image(Path(plan.image)) if plan.image else None,
            model_name=plan.model_name,
            isolation=plan.isolation,
            slots=plan.slots,
            in_flight=plan.in_flight,
            settings=settings.model_copy(update={"paths": PathSettings()}),
        )
        frozen.write(paths, config)
    except OSError as error:
        claimed.undo()
        raise _unwritable(paths, error) from error
    except BaseException:
        claimed.undo()
        raise


def _unwritable(paths: RunPaths, error: OSError) -> RunDirectoryError:
    return RunDirectoryError(
        f"{paths.root}: cannot be written: {error.strerror}; give another --run-dir"
    )


def _assumed_model(recipe: Recipe, path: Path) -> str:
    if recipe.spec.name == QUICKSTART and is_shipped(path):
        return "playbook"
    raise UsageError(
        f"recipe {recipe.spec.name!r} needs a model: give --model http://HOST:PORT/v1#NAME, "
        "--model search, or --model playbook"
    )


async def _probe(spec: str, recipe: Recipe, settings: Settings) -> str:
    model = open_model(spec, recipe.playbook, settings.client)
    try:
        await model.probe()
        return model.name
    finally:
        await model.close()


def _run_dir(settings: Settings, recipe: Recipe, folder: Path) -> Path:
    if settings.run_dir:
        path = (folder / settings.run_dir).absolute()
        if not str(path).isprintable():  # it goes into TOML, JSON and people's terminals
            raise UsageError(f"{str(path)!r}: has unprintable characters; give another --run-dir")
        if path.exists() and not path.is_dir():
            raise UsageError(f"{path}: is no folder; give another --run-dir")
        if path.is_dir() and any(path.iterdir()):
            raise _taken(path)
        return path
    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    return (folder / "scratch" / f"{recipe.spec.name}-{stamp}-{secrets.token_hex(2)}").absolute()


def _snapshot(plan: LaunchPlan, paths: RunPaths) -> str:
    """Copy the recipe, and a playbook given by file; return the spec to resume with."""
    origin = plan.recipe.folder
    try:
        shutil.copytree(origin, paths.recipe, ignore=shutil.ignore_patterns(*NOT_COPIED))
    except shutil.Error as error:
        source, _, reason = error.args[0][0]
        raise RecipeError(
            f"cannot be copied: {reason}; a recipe holds regular files only", Path(source)
        ) from error
    kind, _, file = plan.model_spec.partition(":")
    if kind != "playbook" or not file:
        return plan.model_spec
    copy = paths.root / "playbook.jsonl"
    shutil.copyfile(file, copy)
    return f"playbook:{copy}"
