"""Reads headers of safetensors files: checks that each file is whole, and counts what it holds.

The format (https://huggingface.co/docs/safetensors): eight bytes with the header's length, a JSON
header with each tensor's dtype, shape and place, and the tensors' bytes without a gap.
"""

from __future__ import annotations

import json
import math
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hpcscientist.errors import NoWeights
from hpcscientist.files.handed import expanded

_BITS = {
    **dict.fromkeys(("F64", "I64", "U64", "C64"), 64),
    **dict.fromkeys(("F32", "I32", "U32"), 32),
    **dict.fromkeys(("F16", "BF16", "I16", "U16"), 16),
    **dict.fromkeys(("F8_E4M3", "F8_E5M2", "F8_E8M0", "I8", "U8", "BOOL"), 8),
    **dict.fromkeys(("F4", "F4_E2M1"), 4),
}
_FLOATS = ("F64", "F32", "F16", "BF16")
_LONGEST_HEADER = 100_000_000  # as in the safetensors library
_POINTER = b"version https://git-lfs"
_LAYER = re.compile(r"(^|\.)(layers|h|blocks|block)\.\d+\.")


@dataclass(frozen=True, slots=True)
class TensorSums:
    """Sums over tensors: bytes as stored, and the number of floats of 16 bits or more.

    Those floats take the engine's dtype when loaded; everything else stays as stored. `outside_*`
    are the same sums for tensors outside the numbered layers: embeddings and head.
    """

    stored: int = 0
    floats: int = 0
    other_bytes: int = 0
    outside_floats: int = 0
    outside_bytes: int = 0

    def __add__(self, more: TensorSums) -> TensorSums:
        """Return the sum of both."""
        return TensorSums(
            self.stored + more.stored,
            self.floats + more.floats,
            self.other_bytes + more.other_bytes,
            self.outside_floats + more.outside_floats,
            self.outside_bytes + more.outside_bytes,
        )


@dataclass(frozen=True, slots=True)
class Shard:
    """One file: the names of its tensors and their sums."""

    names: frozenset[str] = frozenset()
    tally: TensorSums = field(default_factory=TensorSums)


class Broken(Exception):
    """A file is not whole; the message says why, without the file's name."""


def read_shard(path: Path) -> Shard:
    """Return what a safetensors file holds, after checking its header against its size.

    Raises Broken.
    """
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            start = file.read(8)
            if is_pointer(path):
                raise Broken("is a git-LFS pointer and no weights: run `git lfs pull`")
            if len(start) < 8:
                raise Broken(f"is cut off: it has {size} bytes")
            (length,) = struct.unpack("<Q", start)
            if length > _LONGEST_HEADER:
                raise Broken("is no safetensors file")
            if length > size - 8:
                raise Broken(f"is cut off within its header: it has {size} bytes")
            header = json.loads(file.read(length))
    except OSError as error:
        raise Broken(f"cannot be read: {error.strerror or error}") from None
    except (ValueError, RecursionError):
        raise Broken("has a header that is no JSON") from None
    if not isinstance(header, dict):
        raise Broken("has a header that is no table")
    return _shard(header, size - 8 - length)


def is_pointer(path: Path) -> bool:
    """Return whether a file is a git-LFS pointer instead of the file itself. Raises OSError."""
    with path.open("rb") as file:
        return file.read(len(_POINTER)) == _POINTER


def _shard(header: Mapping[str, Any], room: int) -> Shard:
    tensors = {name: said for name, said in header.items() if name != "__metadata__"}
    tally, end = TensorSums(), 0
    try:
        spans = sorted(
            (*map(int, said["data_offsets"]), name, str(said["dtype"]), math.prod(said["shape"]))
            for name, said in tensors.items()
        )
    except (TypeError, KeyError, ValueError):
        raise Broken("has a header that names no dtype, shape and place for each tensor") from None
    for begin, stop, name, dtype, count in spans:
        bits = _BITS.get(dtype)
        wrong = bits is not None and (stop - begin) * 8 != count * bits
        if begin != end or stop < begin or wrong:
            raise Broken(f"contradicts itself about the tensor {name}")
        end = stop
        tally += _tally(name, dtype, stop - begin, count)
    if end != room:
        how = "is cut off" if end > room else "is longer than its header says"
        raise Broken(f"{how}: {room} bytes of tensors, {end} expected; copy or download it again")
    return Shard(frozenset(tensors), tally)


def _tally(name: str, dtype: str, stored: int, count: int) -> TensorSums:
    floats, other = (count, 0) if dtype in _FLOATS else (0, stored)
    if _LAYER.search(name):
        return TensorSums(stored, floats, other)
    return TensorSums(stored, floats, other, floats, other)


# Resolves a model's name to a folder: a path, or a name of the model hub in the local cache.

_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")


def resolve(name: str, environ: Mapping[str, str], folder: Path) -> Path:
    """Return a model's absolute folder: NAME below `folder`, or a snapshot in the hub's cache.

    Nothing is downloaded. Raises NoWeights, which says how to bring a model here.
    """
    path = (folder / expanded(name)).absolute()
    if path.is_dir():
        return path
    if path.exists():
        raise NoWeights(f"{path} is a file: give the folder that holds config.json and weights")
    if not _NAME.fullmatch(name) or name.startswith("."):
        raise NoWeights(f"{path}: there is no such folder; give the folder of a model's weights")
    cache = hub_cache(environ)
    repository = cache / f"models--{name.replace('/', '--')}"
    found = _snapshot(repository)
    if found is not None:
        return found
    lack = "has no finished download of it" if repository.is_dir() else "does not hold it"
    raise NoWeights(
        f"{name}: no such folder below {folder}, and the hub's cache {cache} {lack}; on a machine "
        f"with internet run `hf download {name} --local-dir {name.rpartition('/')[2]}`, copy that "
        "folder to a file system that nodes see, and give vllm:/PATH/TO/IT"
    )


def hub_cache(environ: Mapping[str, str]) -> Path:
    """Return where the hub's client keeps downloads (huggingface_hub's constants.py)."""
    cache_home = environ.get("XDG_CACHE_HOME") or "~/.cache"
    home = environ.get("HF_HOME") or f"{cache_home}/huggingface"
    place = environ.get("HF_HUB_CACHE") or environ.get("HUGGINGFACE_HUB_CACHE") or f"{home}/hub"
    return expanded(place).absolute()


def _snapshot(repository: Path) -> Path | None:
    """Return the snapshot of the main branch, or else the most recent one."""
    snapshots = repository / "snapshots"
    try:
        main = snapshots / (repository / "refs" / "main").read_text(encoding="utf-8").strip()
        if main.is_dir() and main != snapshots:
            return main
    except (OSError, UnicodeDecodeError):
        pass
    try:
        made = [path for path in snapshots.iterdir() if path.is_dir()]
        return max(made, key=lambda path: (path.stat().st_mtime, path.name), default=None)
    except OSError:
        return None
