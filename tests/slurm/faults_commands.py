"""Slurm's commands, found first and not quite themselves: killing their caller, or counted."""

from __future__ import annotations

import shutil
import signal
import tempfile
from pathlib import Path

AFTER_SBATCH = '$REAL "$@"\nkill -9 $PPID\nexit 1'
BEFORE_SBATCH = "kill -9 $PPID\nexit 1"
NO_ANSWER = '$REAL "$@" >/dev/null\nexec sleep 1000'
KILLED = (-signal.SIGKILL, 128 + signal.SIGKILL)  # the latter is runuser's report


def broken_sbatch(folder: Path, act: str) -> dict[str, str]:
    """Return the environment in which the first submission does something of its own.

    `act` is shell: $REAL is the real command, "$@" what it was given, $PPID the driver.
    """
    first = f'if mkdir "${{0%/*}}/first" 2>/dev/null; then\n{act}\nfi'
    return _wrapped(folder, "sbatch", f'case "$*" in *--test-only*) ;; *)\n{first}\n;;\nesac\n')


def counted(folder: Path, program: str) -> dict[str, str]:
    """Return the environment in which every call of a program is counted: see `calls`."""
    return _wrapped(folder, program, f"echo >> {folder}/calls\n")


def held(folder: Path, program: str, mark: str) -> tuple[dict[str, str], Path]:
    """Return the environment in which one call of a program does its work and does not come back.

    It is the first one whose words hold `mark`. The file, once there, names the node where it is.
    """
    told = folder / "held"
    act = f'$REAL "$@"\nuname -n >{told}.new\nmv {told}.new {told}\nexec sleep infinity'
    once = f"if mkdir {folder}/once 2>/dev/null; then\n{act}\nfi"
    return _wrapped(folder, program, f'case "$*" in *{mark}*)\n{once}\nesac\n'), told


def calls(folder: Path) -> int:
    """Return how often the counted program was called."""
    path = folder / "calls"
    return len(path.read_text()) if path.exists() else 0


def _wrapped(folder: Path, program: str, before: str) -> dict[str, str]:
    place = Path(tempfile.mkdtemp(prefix="bin-", dir=folder))
    place.chmod(0o777)
    real = Path(str(shutil.which(program)))
    path = place / program
    path.write_text(f'#!/bin/sh\nREAL={real}\n{before}exec $REAL "$@"\n')
    path.chmod(0o755)
    return {"PATH": f"{place}:{real.parent}:/usr/bin:/bin"}
