"""Where the numbers of findings come from: the trials behind each, by the journal."""

from __future__ import annotations

from dataclasses import dataclass

from hpcscientist.records.trial import Stage
from hpcscientist.views.campaign import CampaignView


@dataclass(frozen=True, slots=True)
class Source:
    """A finding's numbers on one split: the trials that they are computed from, and their code."""

    idea_id: str
    split: str
    mean: float | None
    delta: float | None
    trials: tuple[str, ...]
    code_hash: str


def sources(view: CampaignView) -> tuple[Source, ...]:
    """Return where the numbers of each idea with a finding come from, on both splits."""
    trials: dict[tuple[str, int, Stage], dict[str, None]] = {}
    for span in view.trials:
        if span.value is not None:
            key = span.idea_id, span.attempt, span.stage
            trials.setdefault(key, {})[span.trial_id] = None
    found = []
    for row in view.rows:
        idea = view.state.ideas.get(row.idea_id)
        if idea is None or idea.ended is None or idea.ended.attempt is None or row.finding is None:
            continue
        attempt = idea.ended.attempt
        code = idea.code_hashes.get(attempt, "")
        search = tuple(sorted(trials.get((row.idea_id, attempt, Stage.SEEDS), ())))
        found.append(Source(row.idea_id, "validation", row.mean, row.delta, search, code))
        test = tuple(sorted(trials.get((row.idea_id, attempt, Stage.CONFIRM), ())))
        if row.test_delta is not None:
            found.append(Source(row.idea_id, "test", None, row.test_delta, test, code))
    return tuple(found)
