"""Lists the trials behind the numbers of each finding, according to the journal."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean

from hpcscientist.records.findings import ResultRow, Verdict
from hpcscientist.records.trial import Stage
from hpcscientist.views.campaign import CampaignView


@dataclass(frozen=True, slots=True)
class NumberSource:
    """A finding's numbers on one split, with the trials they are computed from and the code."""

    idea_id: str
    split: str
    mean: float | None
    delta: float | None
    trials: tuple[str, ...]
    code_hash: str


def sources(view: CampaignView, most: int = 100) -> tuple[NumberSource, ...]:
    """Return the sources of the findings on both splits, of the `most` best ideas.

    Confirmed ideas come first, then improvements by gain. The card of an idea has its own sources.
    """
    trials: dict[tuple[str, int, Stage], dict[str, float]] = {}
    for span in view.trials:
        if span.value is not None:
            key = span.idea_id, span.attempt, span.stage
            trials.setdefault(key, {})[span.trial_id] = span.value
    found = []
    for row in sorted(view.rows, key=_rank)[:most]:
        idea = view.state.ideas.get(row.idea_id)
        if idea is None or idea.ended is None or idea.ended.attempt is None or row.finding is None:
            continue
        attempt = idea.ended.attempt
        code = idea.code_hashes.get(attempt, "")
        search = tuple(sorted(trials.get((row.idea_id, attempt, Stage.SEEDS), ())))
        found.append(NumberSource(row.idea_id, "validation", row.mean, row.delta, search, code))
        test = trials.get((row.idea_id, attempt, Stage.CONFIRM), {})
        if row.test_delta is not None:
            mean = fmean(test.values()) if test else None
            names = tuple(sorted(test))
            found.append(NumberSource(row.idea_id, "test", mean, row.test_delta, names, code))
    return tuple(found)


def _rank(row: ResultRow) -> tuple[bool, bool, float]:
    improved = row.finding is Verdict.IMPROVEMENT
    return not row.confirmed, not improved, -abs(row.delta or 0.0) * improved
