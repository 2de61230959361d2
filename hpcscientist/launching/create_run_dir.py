"""Creates a run directory, completely or not at all.

`claim` and `furnish` remove what they made if they fail. campaign.toml is written last: it makes
a folder a run directory.
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
from hpcscientist.files.trusted import FILE, TrustedCopies, TrustedCopy
from hpcscientist.history import frozen, stale_launch
from hpcscientist.history.frozen import CampaignConfig
from hpcscientist.launching.launch import not_empty
from hpcscientist.launching.launch_plan import LaunchPlan
from hpcscientist.models import playbook
from hpcscientist.models.embedding.keywords import KeywordEmbedder
from hpcscientist.recipe import load
from hpcscientist.recipe.folder_copy import LaunchedRecipe


@dataclass(frozen=True, slots=True)
class ClaimedFolder:
    """A run directory that this launch alone created, or took over empty.

    `lock` is held until the campaign exists. `made` lists the folders that were created for it,
    outermost first; empty if the run directory existed.
    """

    paths: RunPaths
    made: tuple[Path, ...]
    lock: Lock

    def undo(self) -> None:
        """Remove the run directory, its key, its trusted copy, and the folders made for it."""
        self.lock.release()
        with contextlib.suppress(RunDirectoryError):  # not furnished yet
            campaign_id = frozen.read(self.paths).campaign_id
            vault.forget_campaign_key(campaign_id)
            TrustedCopy.of(self.paths.root, campaign_id).remove()
        stale_launch.clear(self.paths)
        for folder in reversed(self.made):
            with contextlib.suppress(OSError):  # another process already uses the folder
                folder.rmdir()


def claim(checked: LaunchPlan) -> ClaimedFolder:
    """Create the run directory with its empty subfolders.

    Takes the lock first: of two launches into one folder, one wins and the other touches nothing.
    Removes what a killed launch left there. Raises UsageError or RunDirectoryError.
    """
    paths = RunPaths(checked.run_dir)
    missing = [folder for folder in (paths.root, *paths.root.parents) if not folder.exists()]
    try:
        paths.root.mkdir(parents=True, exist_ok=True)
        lock = stale_launch.take(paths)
        if {child.name for child in paths.root.iterdir()} != {paths.launching.name}:
            stale_launch.give_back(paths, lock)
            raise not_empty(paths.root)
        claimed = ClaimedFolder(paths, tuple(reversed(missing)), lock)
        paths.lock.mkdir()
        # A killed trial may leave a set-user-ID file, which other users must not be able to run.
        paths.trials.mkdir(mode=0o700)
        (paths.root / "ideas").mkdir()
    except OSError as error:
        raise _unwritable(paths, error) from error
    return claimed


def furnish(checked: LaunchPlan, claimed: ClaimedFolder) -> None:
    """Prepare the data and fill the run directory; undo the claim on failure."""
    settings, recipe, placement = checked.settings, checked.recipe, checked.placement
    embedder = checked.embedder or KeywordEmbedder()
    paths = claimed.paths
    try:
        copied = _snapshot(checked, paths)
        # With a setup, prepare.py is that of the copy; otherwise that of the recipe's own folder.
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
            # The paths of labels and of the user's files stay out of campaign.toml: those files
            # contain the labels, too.
            settings=settings.model_copy(update={"paths": PathSettings(), "data": ""}),
        )
        LaunchedRecipe(paths.recipe, config.recipe_hash).keep()
        copy = TrustedCopy.of(paths.root, campaign_id)
        copy.make(paths.root)
        contents = TrustedCopies(copy.contents)
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
    """Copy the recipe and playbook files; return each playbook's SPEC of its copy."""
    load.copy(checked.recipe.folder, paths.recipe, checked.settings.setup)
    copied: dict[str, str] = {}
    for role, spec in [("", checked.model_spec), *checked.role_specs.items()]:
        kind, _, file = spec.partition(":")
        if kind == "playbook" and file and spec not in copied:
            copy = paths.root / (f"playbook-{role}.jsonl" if role else "playbook.jsonl")
            playbook.copy(Path(file), copy)
            copied[spec] = f"playbook:{copy}"
    return copied
