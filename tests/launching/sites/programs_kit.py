"""Programs of a test's own on PATH."""

from __future__ import annotations

from pathlib import Path


def add(folder: Path, name: str, says: str = "") -> None:
    """Put a program there that prints something and ends well."""
    program = folder / name
    program.write_text(f'#!/bin/sh\necho "{says}"\n')
    program.chmod(0o755)
