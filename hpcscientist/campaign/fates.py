"""What became of an idea, in words that go on after "which"."""

from __future__ import annotations

from hpcscientist.files.text import one_line
from hpcscientist.records.events import IdeaEnded
from hpcscientist.records.finding import Verdict

_REASON = 120  # characters of why an idea failed
_SCORED = {
    Verdict.IMPROVEMENT: "improved",
    Verdict.MAINTENANCE: "changed nothing",
    Verdict.DECLINE: "declined",
    None: "came to no finding",
}


def fate(ended: IdeaEnded | None, verdict: Verdict | None) -> str:
    """Say what became of an idea that was let in."""
    if ended is None:
        return "has not come to its end"
    if ended.status == "failed":
        return f"failed: {one_line(ended.reason or 'no reason was recorded', _REASON)}"
    return _SCORED[verdict]
