"""What the campaign has learned so far, as text for the next prompt.

Improved ideas come first, with their effect; then failures, a line for each cause with one example;
then ideas that made things worse or changed nothing, with likely causes. Crashes are shown: an idea
that failed for its code is worth another try, and the next proposer should not make the same
mistake. Results on the test split are never shown: nothing may be chosen by them.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from hpcscientist.feedback.causes import NOTHING, IdeaEvidence, likely_causes
from hpcscientist.feedback.decision import gain
from hpcscientist.files.text import one_line
from hpcscientist.records.base import Record
from hpcscientist.records.findings import Comparison, Finding, Verdict
from hpcscientist.records.trial import IdeaFailure, MetricSpec

CHARACTERS_A_TOKEN: Final = 4  # a rough average for English text and code


class IdeaNote(Record):
    """What the summary needs to know about an idea that has ended.

    `reason` says why it failed or was rejected; a reason that begins with a kind of failure
    (`timeout: …`) is grouped under it. `copy_of` says whose predictions a scored idea repeats; such
    an idea never has a finding. `evidence` is what else was measured of a scored idea.
    """

    idea_id: str
    title: str
    summary: str
    status: Literal["scored", "failed", "rejected"]
    reason: str | None = None
    finding: Finding | None = None
    copy_of: str | None = None
    evidence: IdeaEvidence = NOTHING


class Feedback(Record):
    """Text for the next prompt, and the ideas it names."""

    text: str
    shown: tuple[str, ...]
    improved: tuple[str, ...]


_LIKELY_CAUSE = {
    IdeaFailure.ERROR: "a mistake in the code; the idea itself was not tested",
    IdeaFailure.TIMEOUT: "more work than the time budget allows; make each step cheaper",
    IdeaFailure.OUT_OF_MEMORY: "too much held in memory at once; use smaller batches or models",
    IdeaFailure.BAD_PREDICTIONS: "the predictions file lacks rows, or has the wrong columns",
    IdeaFailure.TAMPERING: "the code reached for files that are not its own",
    IdeaFailure.WORKER_LOST: "the code ended or stopped its own process, or the one that ran it",
}
_NO_KIND = "failed"
_WAITS = re.compile(r"^waits for \S+$")
_CAUSE = re.compile(r"[A-Za-z_][\w.]*")  # an exception's name, such as ValueError

_IMPROVED = "Improved on the baseline (build on these)"
_DECLINED = "Worse than the baseline (avoid)"
_UNCHANGED = "No clear change from the baseline"
_UNDECIDED = "Not decided yet"
_COPIES = "Nothing of its own was measured (its predictions are another's; do something else)"
_REJECTED = "Rejected before any experiment"
_NAMED = 5  # ideas named after the example that failed in the same way


@dataclass(frozen=True, slots=True)
class _Entry:
    section: str
    ideas: tuple[str, ...]
    line: str


def summarise(
    notes: Sequence[IdeaNote],
    metric: MetricSpec,
    max_tokens: int,
    level: float = 0.05,
    first: str = "",
) -> Feedback:
    """Return the summary of ended ideas, of at most `max_tokens` (about 4 characters each).

    Entries go in whole, the most informative first. An entry that does not fit is left out, and
    shorter ones after it may still go in. The same notes in any order give the same text. `level`
    is the campaign's q, `first` a line to begin with.
    """
    lines = [f"{first}."] if first else []
    room = max_tokens * CHARACTERS_A_TOKEN - sum(len(line) + 1 for line in lines)
    shown: list[str] = []
    section = ""
    for entry in _entries(notes, metric, level):
        more = [entry.line] if entry.section == section else [f"{entry.section}:", entry.line]
        size = sum(len(line) + 1 for line in more)
        if size > room:
            continue
        room -= size
        section = entry.section
        lines += more
        shown += entry.ideas
    improved = {note.idea_id for note in notes if _verdict(note) is Verdict.IMPROVEMENT}
    return Feedback(
        text="\n".join(lines),
        shown=tuple(shown),
        improved=tuple(idea for idea in shown if idea in improved),
    )


def _entries(notes: Sequence[IdeaNote], metric: MetricSpec, level: float) -> list[_Entry]:
    """Return one entry an idea, and one for each cause of failure; the most informative first."""

    def rank(note: IdeaNote) -> tuple[int, float, str]:
        effect = gain(note.finding.comparison, metric) if note.finding else 0.0
        return _PLACES[_group(note)], -abs(effect), note.idea_id

    scored = sorted((note for note in notes if note.status != "failed"), key=rank)
    told = [_Entry(_group(note), (note.idea_id,), _line(note, metric, level)) for note in scored]
    # Failures come right after improvements: they are worth another try.
    after = sum(entry.section == _IMPROVED for entry in told)
    return [*told[:after], *_failures(notes), *told[after:]]


_PLACES = {_IMPROVED: 0, _DECLINED: 1, _UNCHANGED: 2, _COPIES: 3, _UNDECIDED: 4, _REJECTED: 5}


def _failures(notes: Sequence[IdeaNote]) -> list[_Entry]:
    """Return an entry for each cause; the commonest kind first, then the commonest cause."""
    failed = [note for note in notes if note.status == "failed"]
    kinds = Counter(map(_kind, failed))
    alike: defaultdict[tuple[str, str], list[IdeaNote]] = defaultdict(list)
    for note in sorted(failed, key=lambda note: note.idea_id):
        alike[_kind(note), _cause(note)].append(note)

    def rank(cause: tuple[str, str]) -> tuple[int, str, int, str]:
        kind, _ = cause
        # By the example's id, not by the cause, which may be any text.
        return -kinds[kind], kind, -len(alike[cause]), alike[cause][0].idea_id

    return [_failure(kind, alike[kind, cause]) for kind, cause in sorted(alike, key=rank)]


def _failure(kind: str, alike: Sequence[IdeaNote]) -> _Entry:
    example, others = alike[0], tuple(note.idea_id for note in alike[1 : 1 + _NAMED])
    line = f"- {_text(example)} Reason: {one_line(example.reason or 'none was recorded', None)}"
    if others:
        more = len(alike) - 1 - len(others)
        line += f" So too: {', '.join(others)}" + (f" and {more} more" * (more > 0))
    return _Entry(_failed(kind), (example.idea_id, *others), line)


def _failed(kind: str) -> str:
    if kind not in set(IdeaFailure):
        return "Failed"
    return f"Failed: {kind.replace('_', ' ')} (likely cause: {_LIKELY_CAUSE[IdeaFailure(kind)]})"


def _group(note: IdeaNote) -> str:
    if note.status == "rejected":
        return _REJECTED
    if note.copy_of is not None:
        return _COPIES
    verdicts = {
        Verdict.IMPROVEMENT: _IMPROVED,
        Verdict.DECLINE: _DECLINED,
        Verdict.MAINTENANCE: _UNCHANGED,
    }
    verdict = _verdict(note)
    return verdicts[verdict] if verdict else _UNDECIDED


def _line(note: IdeaNote, metric: MetricSpec, level: float) -> str:
    text = f"- {_text(note)}"
    causes: tuple[str, ...] = ()
    if note.finding:
        text += f" Effect: {effect_of(note.finding.comparison, metric)}"
        if note.finding.p_adjusted is not None:
            text += f", adjusted p {note.finding.p_adjusted:.2g}"
        if note.finding.reason:
            # The idea that it waits for may not be shown to the reader.
            text += f"; {_WAITS.sub('waits for an earlier idea', note.finding.reason)}"
        text += "."
        # One that exceeds a tolerance has its cause in `reason`.
        if note.finding.verdict is None or not note.finding.reason:
            causes = likely_causes(note.finding, note.evidence, metric, level)
    if causes:
        text += f" Likely: {'; '.join(causes)}."
    if note.copy_of is not None:
        text += f" Reason: {one_line(note.copy_of, None)}."
    # The causes already include what was lacking.
    if note.reason and not (causes and note.evidence.lacking):
        text += f" Reason: {one_line(note.reason, None)}"
    return text


def _text(note: IdeaNote) -> str:
    return f"{note.idea_id} {one_line(note.title, None)}: {one_line(note.summary, None)}"


def effect_of(comparison: Comparison, metric: MetricSpec) -> str:
    """Return an effect in words, with the metric's direction, seeds and interval."""
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


def _cause(note: IdeaNote) -> str:
    """Return what distinguishes failures of one kind: an exception's name, or a first clause."""
    kind, reason = _kind(note), one_line(note.reason or "", None)
    if kind == IdeaFailure.ERROR:
        detail = reason.partition(":")[2].partition(";")[0].strip()
        name = _CAUSE.match(detail)
        told = name is not None and detail[name.end() :].lstrip().startswith(":")
        return name.group() if name is not None and told else detail
    return reason.partition(":")[0] if kind == _NO_KIND else kind
