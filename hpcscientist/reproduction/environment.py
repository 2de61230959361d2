"""Finds where a claim is rerun: its data, image, interpreter, backend and site."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from hpcscientist.config.layers import load_site
from hpcscientist.config.partitions import overridden
from hpcscientist.config.settings import Settings, SlurmOverrides
from hpcscientist.errors import UsageError
from hpcscientist.files import vault
from hpcscientist.files.handed import expanded
from hpcscientist.files.hashing import hash_image
from hpcscientist.history.frozen import CampaignConfig
from hpcscientist.launching.sites import choosing
from hpcscientist.launching.sites.site import Home
from hpcscientist.recipe.load import Recipe
from hpcscientist.records.findings import Claim
from hpcscientist.records.trial import Isolation, Split

_SLOTS = 1000  # trials that may be queued with Slurm if no campaign sets a limit


@dataclass(frozen=True, slots=True)
class RerunOptions:
    """The caller's options; "" means as in the campaign. Paths are relative to `folder`.

    `words` override the site profile; `settings` say where data are kept, and how many trials may
    run at once. `consent`: code that came with an idea's folder may run as the caller, without a
    container.
    """

    backend: str
    site: str
    words: SlurmOverrides
    image: str
    folder: Path
    settings: Settings
    consent: bool = False


def config_of(claim: Claim, wanted: RerunOptions) -> CampaignConfig:
    """Return a configuration for a claim without its campaign; `config_here` completes it.

    Backend and site are chosen as for a launch from here. Raises UsageError (no Slurm) and
    ConfigError (site).
    """
    settings, words = wanted.settings, {}
    if wanted.backend:
        words["backend"] = wanted.backend
    if wanted.site:
        words["site"] = wanted.site
    settings = settings.model_copy(update=words)
    site = choosing.choose(settings, wanted.folder)
    return CampaignConfig(
        campaign_id=claim.campaign_id,
        created="",
        package_version=claim.package_version,
        package_hash=claim.package_hash,
        python=sys.executable,
        recipe_name=claim.recipe,
        recipe_origin="",
        recipe_hash=claim.recipe_hash,
        data_hash=claim.data_hash,
        views={},
        labels={},
        model_spec="",
        model_name="",
        isolation=claim.isolation,
        image=claim.image,
        image_hash=claim.image_hash,
        backend=site.kind,
        site=site.profile,
        slots=_SLOTS,
        in_flight=1,
        lag=1,
        settings=settings,
    )


def config_here(
    config: CampaignConfig, recipe: Recipe, wanted: RerunOptions
) -> CampaignConfig | str:
    """Return the campaign's configuration with the current places of data, image and interpreter.

    A string instead says what is not as recorded. Missing data are prepared again. Raises
    UsageError (image, backend, sandbox), ConfigError (site), RecipeError, DiskFull.
    """
    changed = _place(config, recipe, wanted)
    image = _image(config, wanted)
    if image is not None:
        if hash_image(Path(image)) != config.image_hash:
            return f"{image} is not the image that was recorded, its hash is another"
        changed["image"] = image
    found = _data(config, recipe, wanted.settings)
    if isinstance(found, str):
        return found
    if not Path(config.python).exists():
        changed["python"] = sys.executable
    return config.model_copy(update={**changed, **found})


def _image(config: CampaignConfig, wanted: RerunOptions) -> str | None:
    if config.isolation is Isolation.NONE:
        if wanted.image:
            raise UsageError(
                f"--image {wanted.image}: this was measured without a container; leave --image out"
            )
        return None
    given = wanted.image or str(config.image)
    path = (wanted.folder / expanded(given)).absolute()
    if not path.exists():
        raise UsageError(f"{path}: there is no such image; say with --image where it lies now")
    return str(path)


def _data(config: CampaignConfig, recipe: Recipe, settings: Settings) -> dict[str, object] | str:
    if config.views:
        view = Path(config.views[Split.VALIDATION])
        labels = vault.path_of(config.labels[Split.VALIDATION])
        if view.is_dir() and labels.is_dir():
            if config.has_intact_data():
                return {}
            return f"the prepared data below {view.parent} are not those that were recorded"
    prepared = Home.of(settings).prepare(recipe)
    if prepared.data_hash != config.data_hash:
        return "the data that the recipe's prepare.py makes now are not those that were recorded"
    return {
        "views": {split: str(view) for split, view in prepared.views.items()},
        "labels": {split: vault.key_of(labels) for split, labels in prepared.labels.items()},
    }


def _place(config: CampaignConfig, recipe: Recipe, wanted: RerunOptions) -> dict[str, object]:
    """Return the backend, site profile and number of trials at once."""
    profile = load_site(wanted.site, wanted.folder) if wanted.site else config.site
    profile = overridden(profile, wanted.words.model_dump())
    kind = wanted.backend or config.backend
    moved = {"backend": kind, "site": profile, "settings": wanted.settings}
    site = choosing.of(config.model_copy(update=moved))
    site.require(config.isolation)
    slots = site.slots(recipe.spec)
    if slots is None:
        slots = config.slots if config.backend == site.kind else _SLOTS
    return {"backend": site.kind, "site": profile, "slots": slots}
