"""Reads and writes campaign.toml: a campaign's frozen launch configuration, for resuming it."""

from __future__ import annotations

import contextlib
import errno
import os
import tomllib
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import tomli_w
from pydantic import Field, ValidationError

from hpcscientist import __version__
from hpcscientist.config.layers import REMOVED
from hpcscientist.config.settings import Settings
from hpcscientist.errors import NoRunDirectory, RunDirectoryError
from hpcscientist.files import handed, vault
from hpcscientist.files.atomic import write_atomic
from hpcscientist.files.handed import Read, read_regular
from hpcscientist.files.hashing import hash_image, package_hash
from hpcscientist.files.rundir import RunPaths
from hpcscientist.files.text import one_line, printable
from hpcscientist.files.trusted import FILE, TrustedCopies, TrustedCopy
from hpcscientist.history import stale_launch
from hpcscientist.models.embedding import KEYWORDS, KEYWORDS_FINGERPRINT
from hpcscientist.recipe.data import are_labels_intact, is_intact
from hpcscientist.records.base import Record
from hpcscientist.records.model_calls import Role
from hpcscientist.records.site import BackendKind, Site
from hpcscientist.records.trial import Isolation, Split

_NO_AUTHORING = {
    "plan": False,
    "analysis": False,
    "advice_rounds": 0,
    "further_runs": 0,
    "hopeless": 0.0,
}
_NO_LOOP = {"error_control": "batch", "confirm": False, "drift_every": 0}


class CampaignConfig(Record):
    """The frozen configuration. Paths are absolute; `created` is UTC, ISO 8601.

    `labels` are keys of `files.vault`, and `settings.paths` is left out, because a candidate
    without a sandbox can read this file. `role_specs` are the model specs of the roles; a missing
    role has `model_spec`. `site` is the merged profile; its file is not read again. `library` is
    the folder of the library that ideas are grounded in, "" for none, and `library_hash` its
    fingerprint. `steps` names the optional stages, see `campaign.stages`; `plugins` the other
    packages that it uses, with their versions. `embedder_hash` is the fingerprint of the embedder
    named `embedder`. The control arm proposes idea n from outcomes of ideas up to n - `lag`.
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
    embedder: str = KEYWORDS
    embedder_hash: str = KEYWORDS_FINGERPRINT
    library: str = ""
    library_hash: str = ""
    steps: tuple[str, ...] = ()
    plugins: tuple[str, ...] = ()
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
        """Return whether the prepared data are unchanged since launch. Reads all of them."""
        view = Path(self.views[Split.VALIDATION])
        labels = vault.path_of(self.labels[Split.VALIDATION])
        return is_intact(view, labels, self.data_hash)

    def has_intact_labels(self) -> bool:
        """Return whether the labels are unchanged since launch. Reads all of them."""
        labels = {split: vault.path_of(key) for split, key in self.labels.items()}
        return are_labels_intact(labels, self.data_hash)

    def has_intact_image(self) -> bool:
        """Return whether an unpacked image is unchanged since launch. Reads all of it.

        Workers check an image file, once on each node: see `execution.sandbox.container`.
        """
        if self.image is None or self.image_hash is None or not Path(self.image).is_dir():
            return True
        return hash_image(Path(self.image)) == self.image_hash


def write(paths: RunPaths, config: CampaignConfig) -> None:
    """Write campaign.toml. Only its owner can read it, since it may name endpoints."""
    data = config.model_dump(mode="json", exclude_none=True)
    content = tomli_w.dumps(data).encode()
    copy = TrustedCopy.of(paths.root, config.campaign_id)
    if copy.is_there:
        write_atomic(copy.campaign, content, mode=0o600)
    write_atomic(paths.campaign, content, mode=0o600)


def trusted_copy(paths: RunPaths) -> TrustedCopy | None:
    """Return the trusted copies of the campaign in a run directory, None if it has none.

    None too if another campaign, whose key this machine has, was put in this place. Raises OSError.
    """
    copy = TrustedCopy.found(paths.root)
    if copy is None or paths.launching.exists():
        return None
    try:
        here = _id_in(read_regular(paths.campaign))
    except OSError:
        return copy if paths.trials.is_dir() else None  # else the campaign is gone
    return None if here != copy.campaign_id and vault.has_key(here) else copy


def reader(paths: RunPaths) -> Read:
    """Return a function that reads a file of a run directory as the driver wrote it.

    That is its trusted copy, or the file in the copy of its folder. A file without a copy is read
    where it lies. Both raise OSError.
    """
    copy = trusted_copy(paths)
    if copy is None:
        return partial(read_regular, follow=False)
    contents = TrustedCopies(copy.contents)

    def read(path: Path) -> bytes:
        name = path.relative_to(paths.root)
        for place in (name, *name.parents):
            if place.as_posix() in contents.names and (files := contents.get(place.as_posix())):
                inside = FILE if place == name else name.relative_to(place).as_posix()
                if inside not in files:
                    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
                return files[inside].encode()
        return read_regular(path, follow=False)

    return read


def make_copy(paths: RunPaths) -> None:
    """Begin the trusted copies of a campaign that has none, if the disk has room.

    A campaign has none if an earlier version launched it, or if it was moved.
    """
    with contextlib.suppress(OSError):
        content = read_regular(paths.campaign)
        if trusted_copy(paths) is None and vault.has_key(_id_in(content)):
            copy = TrustedCopy.of(paths.root, _id_in(content))
            copy.make(paths.root)
            write_atomic(copy.campaign, content, mode=0o600)


def content_of(paths: RunPaths) -> bytes:
    """Return the content of campaign.toml, of its trusted copy if there is one. Raises OSError."""
    copy = trusted_copy(paths)
    return read_regular(paths.campaign if copy is None else copy.campaign)


def campaign_id(paths: RunPaths) -> str:
    """Return the id in campaign.toml, also of an earlier version; "" if it has none.

    Raises OSError.
    """
    return _id_in(content_of(paths))


def _id_in(content: bytes) -> str:
    try:
        return str(handed.parse(content.decode()).get("campaign_id", ""))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError):
        return ""


def read(paths: RunPaths) -> CampaignConfig:
    """Read campaign.toml. Raises NoRunDirectory if it is missing, RunDirectoryError."""
    path: Path = paths.campaign
    data: dict[str, Any] = {}
    try:
        data = handed.parse(content_of(paths).decode())
        _upcast(data)
        return _in_place(CampaignConfig.model_validate(data, strict=False), paths)
    except (FileNotFoundError, NotADirectoryError) as error:
        stale_launch.check(paths)
        raise NoRunDirectory(paths.root, path.name) from error
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:  # the given path is wrong: nothing to restore
            raise
        raise RunDirectoryError(f"{path}: cannot be read: {error.strerror}; restore it") from error
    except ValidationError as error:
        first = error.errors()[0]
        reason = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
        fix = _release(data)
        raise RunDirectoryError(
            f"{path}: cannot be read: {printable(one_line(reason))}; {fix}"
        ) from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        reason = str(error).splitlines()[0]
        raise RunDirectoryError(f"{path}: cannot be read: {reason}; restore it") from error


def _in_place(config: CampaignConfig, paths: RunPaths) -> CampaignConfig:
    """Return a configuration with the playbooks of a run directory that was moved since launch."""

    def found(spec: str) -> str:
        kind, _, file = spec.partition(":")
        own = paths.root / Path(file).name
        is_moved = kind == "playbook" and file and not Path(file).exists() and own.is_file()
        return f"playbook:{own}" if is_moved else spec

    roles = {role: found(spec) for role, spec in config.role_specs.items()}
    return config.model_copy(update={"model_spec": found(config.model_spec), "role_specs": roles})


def _release(data: Mapping[str, Any]) -> str:
    """Return the fix for a configuration that this release cannot read."""
    version, created = data.get("package_version"), data.get("created")
    if not isinstance(version, str) or data.get("package_hash") == package_hash():
        return "restore it"
    return printable(
        f"hpcscientist {version} wrote it on {str(created)[:10]}, and this is {__version__}: "
        "install that release, or restore the file if it was changed since"
    )


def _upcast(data: dict[str, Any]) -> None:
    """Convert the configuration of an earlier release to this release's.

    Newer settings get values that keep the rules with which the campaign began.
    """
    data.setdefault("lag", data.get("in_flight"))
    settings = data.get("settings")
    if not isinstance(settings, dict):
        return
    settings.setdefault("authoring", _NO_AUTHORING)
    for key in REMOVED:
        section, _, name = key.partition(".")
        if isinstance(settings.get(section), dict):
            settings[section].pop(name, None)
    loop = settings.setdefault("loop", {})
    if "propose" in settings and isinstance(loop, dict):  # the first release
        settings.setdefault("ideation", settings.pop("propose"))
        loop.setdefault("error_control", "two-sided")
    if isinstance(loop, dict):
        for key, value in _NO_LOOP.items():
            loop.setdefault(key, value)
