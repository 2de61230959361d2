"""Making a run directory, whole or not at all.

`claim` and `furnish` remove what they made where they fail; campaign.toml is written last, for it
is what makes a folder a run directory.
"""

from __future__ import annotations

import contextlib
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from hpcscientist import __version__
from hpcscientist.campaign import stages
from hpcscientist.campaign.proposals import campaign_library, earlier
from hpcscientist.config.settings import PathSettings
from hpcscientist.errors import RunDirectoryError
from hpcscientist.files import vault
from hpcscientist.files.handed import resolved
from hpcscientist.files.hashing import hash_image, hash_tree, package_hash
from hpcscientist.files.lock import Lock
from hpcscientist.files.rundir import RunPaths
from hpcscientist.files.trusted import FILE, Contents, TrustedCopy
from hpcscientist.history import frozen, stale_launch
from hpcscientist.history.frozen import CampaignConfig
from hpcscientist.launching.launch import not_empty
from hpcscientist.launching.launch_plan import LaunchPlan
from hpcscientist.models import playbook
from hpcscientist.models.embedding.keywords import KeywordEmbedder
from hpcscientist.recipe import load
from hpcscientist.recipe.launched import LaunchedRecipe


@dataclass(frozen=True, slots=True)
class Claim:
    """A run directory that this launch alone made, or took over empty.

    `lock` is held until there is a campaign. `made` lists the folders that were made for it,
    outermost first; empty where the run directory existed.
    """

    paths: RunPaths
    made: tuple[Path, ...]
    lock: Lock

    def undo(self) -> None:
        """Remove a run directory in which nothing was learned, and what was made for it."""
        self.lock.release()
        with contextlib.suppress(RunDirectoryError):  # not furnished yet
            campaign_id = frozen.read(self.paths).campaign_id
            vault.forget_campaign_key(campaign_id)
            TrustedCopy.of(self.paths.root, campaign_id).remove()
        stale_launch.clear(self.paths)
        for folder in reversed(self.made):
            with contextlib.suppress(OSError):  # somebody else uses it by now
                folder.rmdir()


def claim(checked: LaunchPlan) -> Claim:
    """Make the run directory, empty as yet.

    It is held first: of two launches into one folder, one wins and the other touches nothing.
    What a launch left there that was killed is removed. Raises UsageError or RunDirectoryError.
    """
    paths = RunPaths(checked.run_dir)
    missing = [folder for folder in (paths.root, *paths.root.parents) if not folder.exists()]
    try:
        paths.root.mkdir(parents=True, exist_ok=True)
        lock = stale_launch.take(paths)
        if {child.name for child in paths.root.iterdir()} != {paths.launching.name}:
            stale_launch.give_back(paths, lock)
            raise not_empty(paths.root)
        claimed = Claim(paths, tuple(reversed(missing)), lock)
        paths.lock.mkdir()
        # A killed trial may leave a set-user-ID file: nobody else gets at it to run it.
        paths.trials.mkdir(mode=0o700)
        (paths.root / "ideas").mkdir()
    except OSError as error:
        raise _unwritable(paths, error) from error
    return claimed


def furnish(checked: LaunchPlan, claimed: Claim) -> None:
    """Prepare the data and fill the run directory; undo the claim on failure."""
    settings, recipe, placement = checked.settings, checked.recipe, checked.placement
    embedder = checked.embedder or KeywordEmbedder()
    paths = claimed.paths
    try:
        copied = _snapshot(checked, paths)
        # A setup's prepare.py is that of the copy; any other is named where its author has it.
        own = load.load(paths.recipe) if settings.setup else recipe
        prepared = placement.home.prepare(own)
        campaign_id = f"{recipe.spec.name}-{secrets.token_hex(4)}"
        vault.make_campaign_key(campaign_id)
        library = (
            campaign_library.furnish(settings, recipe, paths)
            if stages.reads_library(checked.steps)
            else ""
        )
        earlier.write(paths, checked.earlier)
        config = CampaignConfig(
            campaign_id=campaign_id,
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            package_version=__version__,
            package_hash=package_hash(),
            python=placement.home.python,
            recipe_name=recipe.spec.name,
            recipe_origin=str(recipe.folder),
            model_spec=copied.get(checked.model_spec, checked.model_spec),
            role_specs={role: copied.get(own, own) for role, own in checked.role_specs.items()},
            recipe_hash=hash_tree(paths.recipe),
            data_hash=prepared.data_hash,
            views={split: str(view) for split, view in prepared.views.items()},
            labels={split: vault.key_of(labels) for split, labels in prepared.labels.items()},
            image=placement.image,
            image_hash=hash_image(Path(placement.image)) if placement.image else None,
            model_name=checked.model_name,
            embedder=embedder.name,
            embedder_hash=embedder.fingerprint,
            library=library,
            library_hash=campaign_library.open_library(Path(library)).fingerprint
            if library
            else "",
            steps=checked.steps,
            plugins=checked.plugins,
            isolation=placement.isolation,
            backend=placement.backend,
            site=placement.site,
            slots=placement.slots,
            in_flight=placement.in_flight,
            lag=placement.lag,
            # Where labels lie is not told: the user's files have them, too.
            settings=settings.model_copy(update={"paths": PathSettings(), "data": ""}),
        )
        LaunchedRecipe(paths.recipe, config.recipe_hash).keep()
        copy = TrustedCopy.of(paths.root, campaign_id)
        copy.make(paths.root)
        contents = Contents(copy.contents)
        for file in filter(Path.is_file, paths.root.iterdir()):  # playbooks, earlier ideas
            contents.put(file.name, {FILE: file.read_text(encoding="utf-8")})
        copy.launched.touch()
        frozen.write(paths, config)
        stale_launch.give_back(paths, claimed.lock)
    except OSError as error:
        claimed.undo()
        raise _unwritable(paths, error) from error
    except BaseException:
        claimed.undo()
        raise


def _unwritable(paths: RunPaths, error: OSError) -> RunDirectoryError:
    if resolved(Path(error.filename or paths.root)).is_relative_to(resolved(vault.path_of(""))):
        fix = "set paths.private to a folder that can"
        return RunDirectoryError(f"{error.filename}: cannot be written: {error.strerror}; {fix}")
    return RunDirectoryError(
        f"{paths.root}: cannot be written: {error.strerror}; give another --run-dir"
    )


def _snapshot(checked: LaunchPlan, paths: RunPaths) -> dict[str, str]:
    """Copy the recipe, and playbooks given by file; return the specs to resume with by spec."""
    load.copy(checked.recipe.folder, paths.recipe, checked.settings.setup)
    copied: dict[str, str] = {}
    for role, spec in [("", checked.model_spec), *checked.role_specs.items()]:
        kind, _, file = spec.partition(":")
        if kind == "playbook" and file and spec not in copied:
            copy = paths.root / (f"playbook-{role}.jsonl" if role else "playbook.jsonl")
            playbook.copy(Path(file), copy)
            copied[spec] = f"playbook:{copy}"
    return copied
