"""Prepares a recipe's data once, and keeps labels in a tree apart from the inputs.

prepare.py writes public/ and private/ into a staging folder below the private root. The inputs are
then linked into one view per split (KEY/validation and KEY/test below the data root, each with
train/ and the split's own folder). The labels move to KEY below the private root, which only the
user may enter. KEY contains the recipe's name and hashes of its prepare.py and of the user's files.
Existing data are hashed before they are reused, and refused if they changed on disk.

Without a sandbox, a candidate runs as the same user and can still search for the labels. This
module only ensures that they are below no path that a candidate is given.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hpcscientist.errors import ConfigError, DiskFull, RecipeError, UsageError
from hpcscientist.files.atomic import NO_SPACE, write_json
from hpcscientist.files.handed import resolved
from hpcscientist.files.hashing import hash_file, hash_tree, tree_files
from hpcscientist.files.text import one_line
from hpcscientist.recipe import folder_copy as staging_folders
from hpcscientist.recipe import given as given_files
from hpcscientist.recipe.load import Recipe
from hpcscientist.records.trial import Split
from hpcscientist.system.inherited import tied_to_parent

_MANIFEST = "manifest.json"  # written last, below the private root: then the data are complete
_HASH_DIGITS = 16


@dataclass(frozen=True, slots=True)
class PreparedData:
    """The folders of a recipe's data by split. A candidate is only given its split's view."""

    views: dict[Split, Path]
    labels: dict[Split, Path]
    data_hash: str


def prepare(
    recipe: Recipe, data_root: Path, private_root: Path, given: Path | None = None
) -> PreparedData:
    """Run the recipe's prepare.py unless its data exist already, and return the data.

    `given` is the user's folder of files that it reads. Raises UsageError if these are not the
    files that the recipe lists, RecipeError if prepare.py fails or its output is incomplete,
    ConfigError if the roots contain one another, cannot be written, or hold data that changed, and
    DiskFull.
    """
    data_root, private_root = resolved(data_root), resolved(private_root)
    if data_root.is_relative_to(private_root) or private_root.is_relative_to(data_root):
        raise ConfigError(
            f"the folder of labels {private_root} and the folder of data {data_root} must not "
            "contain one another; set paths.data and paths.private apart"
        )
    staging_folders.clear_staging(data_root, private_root)
    key = f"{recipe.spec.name}-{hash_file(recipe.prepare)[:16]}{_key_of(recipe, given)}"
    public, private = data_root / key, private_root / key
    try:
        recorded = _recorded_hash(public, private)
        if recorded is None:
            data_root.mkdir(parents=True, exist_ok=True)
            private_root.mkdir(parents=True, exist_ok=True, mode=0o700)
            recorded = _build(recipe, public, private, given)
    except OSError as error:
        if error.errno in NO_SPACE:
            raise DiskFull(f"no space left for the data below {data_root}; free some") from error
        raise ConfigError(
            f"the data cannot be kept: {error}; set paths.data and paths.private to folders "
            "that can be written"
        ) from error
    return PreparedData(
        views={split: public / split.value for split in Split},
        labels={split: private / split.value for split in Split},
        data_hash=recorded,
    )


def _key_of(recipe: Recipe, given: Path | None) -> str:
    """Return the key's suffix for the user's files. Raises UsageError."""
    name, data = recipe.spec.name, recipe.spec.data
    if given is None:
        if data is not None and data.required:
            files = given_files.read_list(recipe.folder / data.files)
            raise UsageError(
                f"recipe {name} needs {', '.join(each.name for each in files)}: get them from "
                f"{data.source}, and give their folder by --data FOLDER"
            )
        return ""
    if data is None:
        raise UsageError(f"--data {given}: recipe {name} reads no files of yours; leave --data out")
    return (
        "-" + given_files.content_of(given, given_files.read_list(recipe.folder / data.files))[:8]
    )


def is_intact(view: Path, labels: Path, data_hash: str) -> bool:
    """Return whether prepared data are unchanged; `view` and `labels` are those of any one split.

    It reads all data. Data that cannot be read are not intact.
    """
    try:
        return _hash(view.parent, labels.parent) == data_hash
    except OSError:
        return False


def are_labels_intact(labels: Mapping[Split, Path], data_hash: str) -> bool:
    """Return whether labels are those of prepared data with this hash. Reads all of them."""
    known = dict(zip(Split, data_hash.split("-")[1:], strict=False))
    try:
        return all(
            hash_tree(folder)[:_HASH_DIGITS] == known.get(split, "")
            for split, folder in labels.items()
        )
    except OSError:
        return False


def _recorded_hash(public: Path, private: Path) -> str | None:
    """Return the hash of complete data; None if there are none. Raises ConfigError if changed."""
    try:
        recorded = str(json.loads((private / _MANIFEST).read_bytes())["data_hash"])
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None
    if not public.is_dir():
        return None
    if _hash(public, private) != recorded:
        raise ConfigError(
            f"the prepared data changed on disk; delete {public} and {private} to prepare them anew"
        )
    return recorded


def _hash(public: Path, private: Path) -> str:
    parts = [hash_tree(public), *(hash_tree(private / split.value) for split in Split)]
    return "-".join(part[:_HASH_DIGITS] for part in parts)


def _build(recipe: Recipe, public: Path, private: Path, given: Path | None) -> str:
    """Run prepare.py and move its output into place; return the data's hash."""
    staging, view = staging_folders.make_staging(private), staging_folders.make_staging(public)
    try:
        made = staging / "made"
        made.mkdir()
        _run(recipe, made, given)
        _verify(recipe, made)
        for split in Split:
            for part in ("train", split.value):
                _link_tree(made / "public" / part, view / split.value / part)
        labels = made / "private"
        manifest = {"recipe": recipe.spec.name, "data_hash": _hash(view, labels)}
        write_json(labels / _MANIFEST, manifest)
        view.chmod(0o755)
        labels.chmod(0o700)
        settled = _recorded_hash(public, private)  # another process may have made them meanwhile
        if settled is None:
            # The manifest moves last, with the labels: until then, the data count as missing.
            _place(view, public)
            _place(labels, private)
            settled = _recorded_hash(public, private)
        if settled is None:
            raise ConfigError(f"{public} and {private} vanished while they were made; try again")
        return settled
    finally:
        shutil.rmtree(staging, ignore_errors=True)
        shutil.rmtree(view, ignore_errors=True)


def _run(recipe: Recipe, out: Path, given: Path | None) -> None:
    options = ["--out", str(out), *(["--data", str(given)] if given else [])]
    command = tied_to_parent([sys.executable, str(recipe.prepare), *options])
    done = subprocess.run(
        command,
        cwd=out,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    if done.returncode != 0:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        last = one_line(said[-1]) if said else "it printed nothing"
        raise RecipeError(f"failed with exit status {done.returncode}: {last}", recipe.prepare)


def _verify(recipe: Recipe, made: Path) -> None:
    """Raise RecipeError for output that lacks a part, has links, or shows labels to candidates."""
    wanted = ["public/train"]
    wanted += [f"{side}/{split.value}" for side in ("public", "private") for split in Split]
    for part in wanted:
        folder = made / part
        if folder.is_symlink() or not folder.is_dir() or not tree_files(folder):
            raise RecipeError(f"wrote nothing to OUT/{part}; see recipes/README.md", recipe.prepare)
    for path in made.rglob("*"):
        if path.is_symlink():
            name = path.relative_to(made)
            raise RecipeError(f"wrote a link, OUT/{name}; copy the file instead", recipe.prepare)
    hidden = {hash_file(path): path for path in tree_files(made / "private")}
    for path in tree_files(made / "public"):
        if twin := hidden.get(hash_file(path)):
            raise RecipeError(
                f"OUT/{path.relative_to(made)} equals OUT/{twin.relative_to(made)}; "
                "candidates would see the labels",
                recipe.prepare,
            )


def _link_tree(source: Path, target: Path) -> None:
    """Hard-link the files of one folder into another; copy them if links fail."""
    for path in tree_files(source):
        shown = target / path.relative_to(source)
        shown.parent.mkdir(parents=True, exist_ok=True)
        path.chmod(0o444)  # a candidate that writes there by mistake gets an error
        try:
            shown.hardlink_to(path)
        except OSError as error:
            if error.errno not in (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP):
                raise
            shutil.copyfile(path, shown)
            shown.chmod(0o444)


def _place(made: Path, target: Path) -> None:
    """Rename a folder into place, and replace what an interrupted preparation left there."""
    try:
        made.rename(target)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        if hash_tree(target) != hash_tree(made):
            stale = staging_folders.make_staging(target)
            target.rename(stale)
            made.rename(target)
            shutil.rmtree(stale, ignore_errors=True)
