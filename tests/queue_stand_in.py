"""A stand-in for Slurm's queue: three commands over one file, for tests of submissions.

It starts nothing. A submitted job waits forever for the job that it depends on.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

_PROGRAM = """\
#!{python}
import fcntl, pathlib, re, sys
name, arguments = pathlib.Path(sys.argv[0]).name, sys.argv[1:]
with open({file!r}, "a+") as file:
    fcntl.flock(file, fcntl.LOCK_EX)
    file.seek(0)
    rows = file.read().splitlines()
    if name == "sbatch":
        text = sys.stdin.read()
        named = re.search("--job-name=(.*)", text)[1]
        comment = re.search("--comment=(.*)", text)[1]
        number = str(100 + len(rows))
        fields = [number, "N/A", "PENDING", "Dependency", "", named, comment, number, "p"]
        rows.append("\\x1f".join(fields))
        print(number)
    elif name == "scancel":
        for i, row in enumerate(rows):
            if row.split("\\x1f")[0] in arguments:
                rows[i] = row.replace("PENDING", "CANCELLED")
    else:
        print("\\n".join(rows))
    file.seek(0)
    file.truncate()
    file.write("".join(row + "\\n" for row in rows))
"""


@dataclass(frozen=True, slots=True)
class QueueStandIn:
    """The queue as the commands see it."""

    file: Path

    def submitted(self) -> int:
        """Return how many jobs have been submitted."""
        return len(self._rows())

    def waiting(self) -> list[str]:
        """Return the ids of waiting jobs."""
        return [row[0] for row in self._rows() if row[2] == "PENDING"]

    def _rows(self) -> list[list[str]]:
        text = self.file.read_text() if self.file.exists() else ""
        return [line.split("\x1f") for line in text.splitlines()]


def install(folder: Path, monkeypatch: pytest.MonkeyPatch) -> QueueStandIn:
    """Put the commands first on PATH; their queue is below `folder`."""
    commands, file = folder / "commands", folder / "queue"
    commands.mkdir()
    for name in ("sbatch", "squeue", "scancel"):
        path = commands / name
        path.write_text(_PROGRAM.format(python=sys.executable, file=str(file)))
        path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{commands}:/usr/bin:/bin")
    return QueueStandIn(file)
