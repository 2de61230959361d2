"""The file that says why array tasks wait in Slurm's queue.

The driver asks Slurm and writes it. All views of a campaign read it instead of asking Slurm.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping

from hpcscientist.files.atomic import write_text
from hpcscientist.files.rundir import RunPaths
from hpcscientist.records.base import Record

_NO_REASON = ("", "None", "(null)")


class Waiting(Record):
    """The number of waiting array tasks by Slurm's reason. `seen`: seconds since the epoch."""

    seen: float
    reasons: dict[str, int]


def write(paths: RunPaths, reasons: Mapping[str, int]) -> None:
    """Write what waits now, or remove the file if nothing waits. Ignores OSError."""
    with contextlib.suppress(OSError):
        if not reasons:
            paths.waiting.unlink(missing_ok=True)
            return
        found = Waiting(seen=time.time(), reasons=dict(reasons))
        write_text(paths.waiting, found.model_dump_json() + "\n", durable=False)


def read(paths: RunPaths) -> Waiting | None:
    """Return what waited when the driver last asked, None if nothing is known to wait."""
    try:
        return Waiting.model_validate_json(paths.waiting.read_bytes())
    except (OSError, ValueError):
        return None


def said(waiting: Waiting | None) -> str:
    """Return one line about what waits, "" if nothing is known to wait."""
    if waiting is None:
        return ""
    counts = sorted(waiting.reasons.items(), key=lambda item: (-item[1], item[0]))
    parts = [
        f"{count} {'without a reason yet' if reason in _NO_REASON else reason}"
        for reason, count in counts
    ]
    age = max(0.0, time.time() - waiting.seen)
    return f"array tasks that wait, by Slurm's reason: {', '.join(parts)} (seen {age:.0f} s ago)"
