"""Content hashes of files and folders (SHA-256, hexadecimal)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

_SKIPPED = {"__pycache__"}


def hash_file(path: Path) -> str:
    """Return the hash of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def hash_image(path: Path) -> str:
    """Return the hash of a container image: a file, or a folder that was unpacked."""
    return hash_tree(path) if path.is_dir() else hash_file(path)


def hash_texts(files: Mapping[str, str]) -> str:
    """Return the hash of a set of named texts; the same as `hash_tree` of them on disk."""
    digest = hashlib.sha256()
    for name in sorted(files):
        content = hashlib.sha256(files[name].encode()).hexdigest()
        digest.update(f"{name}\0{content}\n".encode())
    return digest.hexdigest()


def hash_tree(folder: Path) -> str:
    """Return the hash of all regular files below a folder: names and contents, not times."""
    digest = hashlib.sha256()
    for path in tree_files(folder):
        digest.update(f"{path.relative_to(folder).as_posix()}\0{hash_file(path)}\n".encode())
    return digest.hexdigest()


def tree_files(folder: Path) -> list[Path]:
    """Return the regular files below a folder, sorted by name, byte-code caches left out."""
    files = (p for p in folder.rglob("*") if p.is_file() and not p.is_symlink())
    return sorted(
        (p for p in files if not _SKIPPED.intersection(p.relative_to(folder).parts)),
        key=lambda p: p.relative_to(folder).as_posix(),
    )
