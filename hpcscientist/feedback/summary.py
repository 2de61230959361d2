"""What the campaign has learned so far, as text for the next prompt.

Improved ideas come first, with their effect; then what failed, and why; then what made
things worse or changed nothing. Crashes are shown: an idea that failed for its code is
worth another try, and the next proposer should not make the same mistake.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from hpcscientist.feedback.decision import gain
from hpcscientist.files.text import one_line
from hpcscientist.records.base import Record
from hpcscientist.records.finding import Comparison, Finding, Verdict
from hpcscientist.records.outcome import IdeaFailure
from hpcscientist.records.trial import MetricSpec

CHARACTERS_A_TOKEN: Final = 4  # a rough average for English text and code


class IdeaNote(Record):
    """What the summary needs of an idea that has ended.

    `reason` says why it failed or was rejected; one that begins with a kind of failure
    (`timeout: …`) is grouped under it.
    """

    idea_id: str
    title: str
    summary: str
    status: Literal["scored", "failed", "rejected"]
    reason: str | None = None
    finding: Finding | None = None


class Feedback(Record):
    """Text for the next prompt, the ideas it tells of, and how many did not fit."""

    text: str
    shown: tuple[str, ...]
    improved: tuple[str, ...]
    left_out: int


_LIKELY_CAUSE = {
    IdeaFailure.ERROR: "a mistake in the code; the idea itself was not tested",
    IdeaFailure.TIMEOUT: "more work than the time budget allows; make each step cheaper",
    IdeaFailure.OUT_OF_MEMORY: "too much held in memory at once; use smaller batches or models",
    IdeaFailure.BAD_PREDICTIONS: "the predictions file lacks rows, or has the wrong columns",
    IdeaFailure.TAMPERING: "the code reached for files that are not its own",
}
_NO_KIND = "failed"

_IMPROVED = "Improved on the baseline (build on these)"
_DECLINED = "Worse than the baseline (avoid)"
_UNCHANGED = "No clear change from the baseline"
_UNDECIDED = "Scored on too few seeds to tell"
_REJECTED = "Rejected before any experiment"


@dataclass(frozen=True, slots=True)
class _Entry:
    section: str
    idea_id: str
    line: str


def summarise(notes: Sequence[IdeaNote], metric: MetricSpec, max_tokens: int) -> Feedback:
    """Return the summary of ended ideas, of at most `max_tokens` (about 4 characters each).

    Entries go in whole, the most informative first; one that does not fit is left out and
    shorter ones after it may still go in. The same notes in any order give the same text.
    """
    room = max_tokens * CHARACTERS_A_TOKEN
    lines: list[str] = []
    shown: list[str] = []
    section = ""
    for entry in _entries(notes, metric):
        more = [entry.line] if entry.section == section else [f"{entry.section}:", entry.line]
        size = sum(len(line) + 1 for line in more)
        if size > room:
            continue
        room -= size
        section = entry.section
        lines += more
        shown.append(entry.idea_id)
    improved = {note.idea_id for note in notes if _verdict(note) is Verdict.IMPROVEMENT}
    return Feedback(
        text="\n".join(lines),
        shown=tuple(shown),
        improved=tuple(idea for idea in shown if idea in improved),
        left_out=len(notes) - len(shown),
    )


def _entries(notes: Sequence[IdeaNote], metric: MetricSpec) -> list[_Entry]:
    """Return one entry a note, the most informative first."""
    failures = Counter(_kind(note) for note in notes if note.status == "failed")

    def rank(note: IdeaNote) -> tuple[int, float, str, float, str]:
        effect = gain(note.finding.comparison, metric) if note.finding else 0.0
        place = _PLACES[_group(note)]
        if note.status == "failed":  # the commonest kind of failure first
            return place, -failures[_kind(note)], _kind(note), 0.0, note.idea_id
        return place, 0.0, "", -abs(effect), note.idea_id

    return [
        _Entry(_heading(note), note.idea_id, _line(note, metric))
        for note in sorted(notes, key=rank)
    ]


_PLACES = {_IMPROVED: 0, _NO_KIND: 1, _DECLINED: 2, _UNCHANGED: 3, _UNDECIDED: 4, _REJECTED: 5}


def _group(note: IdeaNote) -> str:
    if note.status == "failed":
        return _NO_KIND
    if note.status == "rejected":
        return _REJECTED
    verdicts = {
        Verdict.IMPROVEMENT: _IMPROVED,
        Verdict.DECLINE: _DECLINED,
        Verdict.MAINTENANCE: _UNCHANGED,
    }
    verdict = _verdict(note)
    return verdicts[verdict] if verdict else _UNDECIDED


def _heading(note: IdeaNote) -> str:
    if note.status != "failed":
        return _group(note)
    kind = _kind(note)
    if kind not in set(IdeaFailure):
        return "Failed"
    return f"Failed: {kind.replace('_', ' ')} (likely cause: {_LIKELY_CAUSE[IdeaFailure(kind)]})"


def _line(note: IdeaNote, metric: MetricSpec) -> str:
    text = f"- {note.idea_id} {one_line(note.title, None)}: {one_line(note.summary, None)}"
    if note.finding:
        text += f" Effect: {_effect(note.finding.comparison, metric)}"
        if note.finding.p_adjusted is not None:
            text += f", adjusted p {note.finding.p_adjusted:.2g}"
        text += "."
    if note.reason:
        text += f" Reason: {one_line(note.reason, None)}"
    return text


def _effect(comparison: Comparison, metric: MetricSpec) -> str:
    text = f"{metric.name} {comparison.delta:+.4g} ({metric.direction.value}, n={comparison.n}"
    if comparison.ci_low is not None and comparison.ci_high is not None:
        text += f", 95% interval {comparison.ci_low:+.4g} to {comparison.ci_high:+.4g}"
    return text + ")"


def _verdict(note: IdeaNote) -> Verdict | None:
    return note.finding.verdict if note.finding and note.status == "scored" else None


def _kind(note: IdeaNote) -> str:
    """Return the kind of failure that the reason begins with; "failed" if none."""
    word = (note.reason or "").partition(":")[0].strip().lower().replace(" ", "_")
    return word if word in set(IdeaFailure) else _NO_KIND
