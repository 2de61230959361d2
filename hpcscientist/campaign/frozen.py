"""campaign.toml: everything a campaign was launched with, frozen, so that it can be resumed."""

from __future__ import annotations

import tomllib
from pathlib import Path

import tomli_w
from pydantic import ValidationError

from hpcscientist.config.settings import Settings
from hpcscientist.errors import RunDirectoryError
from hpcscientist.files import sealed
from hpcscientist.files.atomic import write_atomic
from hpcscientist.files.rundir import RunPaths
from hpcscientist.recipe.data import is_intact
from hpcscientist.records.base import Record
from hpcscientist.records.trial import Isolation, Split


class CampaignConfig(Record):
    """The frozen configuration. Paths are absolute; `created` is UTC, ISO 8601.

    `labels` are keys of `files.sealed`, and `settings.paths` is left out: the file lies
    where a candidate without a sandbox can read it.
    """

    campaign_id: str
    created: str
    package_version: str
    python: str
    recipe_name: str
    recipe_origin: str
    recipe_hash: str
    data_hash: str
    views: dict[Split, str]
    labels: dict[Split, str]
    model_spec: str
    model_name: str
    isolation: Isolation
    image: str | None = None
    image_hash: str | None = None
    slots: int
    in_flight: int
    settings: Settings

    def has_intact_data(self) -> bool:
        """Whether the prepared data are those of the launch. Reads all of them."""
        view = Path(self.views[Split.VALIDATION])
        labels = sealed.path_of(self.labels[Split.VALIDATION])
        return is_intact(view, labels, self.data_hash)


def write(paths: RunPaths, config: CampaignConfig) -> None:
    """Write campaign.toml, readable by its owner alone since it may name endpoints."""
    data = config.model_dump(mode="json", exclude_none=True)
    write_atomic(paths.campaign, tomli_w.dumps(data).encode(), mode=0o600)


def read(paths: RunPaths) -> CampaignConfig:
    """Read campaign.toml. Raises RunDirectoryError when it is missing or damaged."""
    path: Path = paths.campaign
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
        return CampaignConfig.model_validate(data, strict=False)
    except FileNotFoundError as error:
        raise RunDirectoryError(
            f"{paths.root}: is no run directory (no {path.name}); "
            "give the folder that `hpcsci launch` named"
        ) from error
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, ValidationError) as error:
        reason = str(error).splitlines()[0]
        raise RunDirectoryError(f"{path}: cannot be read: {reason}; restore it") from error
