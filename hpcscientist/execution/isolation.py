"""What keeps a candidate away from everything else, and saying so honestly."""

from __future__ import annotations

import shutil
from pathlib import Path

from hpcscientist.errors import UsageError
from hpcscientist.records.trial import Isolation

_STATEMENTS = {
    Isolation.APPTAINER: (
        "Candidates run in Apptainer containers without network: each sees its code and the "
        "public data read-only, and writes to its own folder."
    ),
    Isolation.NONE: (
        "NO SANDBOX: candidates run as this user with a scrubbed environment and folders of "
        "their own, under limits kept from outside. Nothing in the run directory tells them "
        "where the labels are, but they can look for them, or load them from a library that "
        "bundles the data; they can use the network, leave processes behind if they kill their "
        "worker, and read and write whatever this user can, other trials, the driver's memory "
        "and environment included. Scores are only as trustworthy as the code that earned them."
    ),
}


def choose(image: str | None) -> Isolation:
    """Return the strongest isolation this machine offers for a recipe's image."""
    if image is not None and Path(image).exists() and shutil.which("apptainer"):
        return Isolation.APPTAINER
    return Isolation.NONE


def statement(isolation: Isolation) -> str:
    """Return what is and what is not protected, for the campaign's header and results."""
    return _STATEMENTS[isolation]


def require_permission(isolation: Isolation, trusted_code: bool, allowed: bool) -> None:
    """Refuse to run generated code without a sandbox unless the user said so.

    `trusted_code`: all code of the campaign ships with a recipe or is made by the control
    arm. Raises UsageError.
    """
    if isolation is Isolation.NONE and not trusted_code and not allowed:
        raise UsageError(
            "generated code would run without a sandbox (no Apptainer, or the recipe names no "
            "image): install both, or accept the risk with --allow-unsandboxed"
        )
