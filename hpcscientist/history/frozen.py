"""campaign.toml: everything a campaign was launched with, frozen, so that it can be resumed."""

from __future__ import annotations

import errno
import tomllib
from pathlib import Path

import tomli_w
from pydantic import Field, ValidationError

from hpcscientist.config.settings import Settings
from hpcscientist.config.steps import Step
from hpcscientist.errors import NoRunDirectory, RunDirectoryError
from hpcscientist.files import vault
from hpcscientist.files.atomic import write_atomic
from hpcscientist.files.handed import toml
from hpcscientist.files.hashing import hash_image
from hpcscientist.files.rundir import RunPaths
from hpcscientist.history import remains
from hpcscientist.models.embedding.keywords import KeywordEmbedder
from hpcscientist.recipe.data import is_intact
from hpcscientist.records.asked.model import Role
from hpcscientist.records.base import Record
from hpcscientist.records.site import BackendKind, Site
from hpcscientist.records.trial import Isolation, Split

_NO_AUTHORING = {
    "plan": False,
    "analysis": False,
    "advice_rounds": 0,
    "further_runs": 0,
    "hopeless": 0.0,
}


class CampaignConfig(Record):
    """The frozen configuration. Paths are absolute; `created` is UTC, ISO 8601.

    `labels` are keys of `files.vault`, and `settings.paths` is left out: the file lies
    where a candidate without a sandbox can read it. `role_specs` are those of the roles that
    ask a language model; left out, all have `model_spec`. `site` is the merged profile; its
    file is not read again. `library` is the folder of the library that ideas are grounded in, ""
    for none, and `library_hash` its fingerprint; `steps` are those of `config.steps`.
    `embedder_hash` is the fingerprint of the embedder named `embedder`. `lag` is how far behind an
    idea the outcomes lie that the control arm proposes it from.
    """

    campaign_id: str
    created: str
    package_version: str
    package_hash: str = ""
    python: str
    recipe_name: str
    recipe_origin: str
    recipe_hash: str
    data_hash: str
    views: dict[Split, str]
    labels: dict[Split, str]
    model_spec: str
    model_name: str
    role_specs: dict[Role, str] = Field(default={})
    embedder: str = KeywordEmbedder.name
    embedder_hash: str = KeywordEmbedder.fingerprint
    library: str = ""
    library_hash: str = ""
    steps: tuple[Step, ...] = ()
    isolation: Isolation
    image: str | None = None
    image_hash: str | None = None
    backend: BackendKind = "local"
    site: Site = Site()
    slots: int
    in_flight: int
    lag: int = Field(ge=1)
    settings: Settings

    def has_intact_data(self) -> bool:
        """Whether the prepared data are those of the launch. Reads all of them."""
        view = Path(self.views[Split.VALIDATION])
        labels = vault.path_of(self.labels[Split.VALIDATION])
        return is_intact(view, labels, self.data_hash)

    def has_intact_image(self) -> bool:
        """Whether an unpacked image is the one of the launch. Reads all of it.

        One that is a file is looked at by the workers, once a node: see `execution.image`.
        """
        if self.image is None or self.image_hash is None or not Path(self.image).is_dir():
            return True
        return hash_image(Path(self.image)) == self.image_hash


def write(paths: RunPaths, config: CampaignConfig) -> None:
    """Write campaign.toml, readable by its owner alone since it may name endpoints."""
    data = config.model_dump(mode="json", exclude_none=True)
    write_atomic(paths.campaign, tomli_w.dumps(data).encode(), mode=0o600)


def read(paths: RunPaths) -> CampaignConfig:
    """Read campaign.toml. Raises NoRunDirectory when it is missing, RunDirectoryError."""
    path: Path = paths.campaign
    try:
        data = toml.parse(path.read_text(encoding="utf-8"))
        if isinstance(data.get("settings"), dict):
            # Launched by a version that knew none of this: it ends by the rules it began with.
            data["settings"].setdefault("authoring", _NO_AUTHORING)
            loop = data["settings"].setdefault("loop", {})
            loop.setdefault("error_control", "batch")
            loop.setdefault("confirm", False)
            loop.setdefault("drift_every", 0)
            # Requests went out as tasks of Ray then, where this asked for it.
            data["settings"].get("serving", {}).pop("fan_out", None)
        data.setdefault("lag", data.get("in_flight"))
        return CampaignConfig.model_validate(data, strict=False)
    except (FileNotFoundError, NotADirectoryError) as error:
        remains.check(paths)
        raise NoRunDirectory(paths.root, path.name) from error
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:  # as it was given: nothing is to be restored
            raise
        raise RunDirectoryError(f"{path}: cannot be read: {error.strerror}; restore it") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, ValidationError) as error:
        reason = str(error).splitlines()[0]
        raise RunDirectoryError(f"{path}: cannot be read: {reason}; restore it") from error
