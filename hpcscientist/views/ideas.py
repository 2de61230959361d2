"""Ideas and the versions of their code, at whatever point they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from hpcscientist.files.text import printable
from hpcscientist.history.entities import IdeaState
from hpcscientist.history.state import CampaignState
from hpcscientist.records.findings import ResultRow
from hpcscientist.records.idea import Arm
from hpcscientist.views.timeline import AttemptMade, Timeline, TrialSpan


@dataclass(frozen=True, slots=True)
class AttemptView:
    """A version of an idea's code, and how its trials ended: `outcome` is the worst of them."""

    number: int
    parent: int
    kind: str
    outcome: Literal["written", "running", "scored", "failed"]
    cause: str


@dataclass(frozen=True, slots=True)
class IdeaView:
    """An idea at whatever point it is. `row` is its line of `hpcsci results`, None until it ended.

    `proposed` and `ended`: seconds since the epoch, None where the journal does not say.
    """

    idea_id: str
    number: int
    title: str
    arm: Arm
    parent_ids: tuple[str, ...]
    status: Literal["open", "scored", "failed", "rejected"]
    reason: str | None
    like: str | None
    proposed: float | None
    ended: float | None
    attempts: tuple[AttemptView, ...]
    tokens: int
    cpu_s: float
    gpu_s: float
    row: ResultRow | None


def ideas_of(
    state: CampaignState,
    timeline: Timeline,
    trials: Sequence[TrialSpan],
    rows: Mapping[str, ResultRow],
) -> tuple[IdeaView, ...]:
    """Return the ideas in order of their numbers; `rows` are those of `hpcsci results`, by idea."""
    of_attempts: dict[tuple[str, int], list[TrialSpan]] = {}
    for span in trials:
        of_attempts.setdefault((span.idea_id, span.attempt), []).append(span)
    return tuple(
        _idea(idea, timeline, of_attempts, state, rows.get(idea.idea_id))
        for idea in state.in_order()
    )


def _idea(
    idea: IdeaState,
    timeline: Timeline,
    trials: Mapping[tuple[str, int], list[TrialSpan]],
    state: CampaignState,
    row: ResultRow | None,
) -> IdeaView:
    idea_id = idea.idea_id
    cpu_s, gpu_s = state.used.get(idea_id, (0.0, 0.0))
    made = timeline.attempts.get(idea_id, ())
    return IdeaView(
        idea_id=idea_id,
        number=idea.number,
        title=printable(idea.title),
        arm=idea.arm,
        parent_ids=idea.parent_ids,
        status=idea.ended.status if idea.ended else "open",
        reason=row.reason if row else None,
        like=idea.ended.like if idea.ended else None,
        proposed=timeline.proposed.get(idea_id),
        ended=timeline.ended.get(idea_id),
        attempts=tuple(_attempt(a, trials.get((idea_id, a.number), ())) for a in made),
        tokens=state.tokens.get(idea_id, 0),
        cpu_s=cpu_s,
        gpu_s=gpu_s,
        row=row,
    )


def _attempt(made: AttemptMade, trials: Sequence[TrialSpan]) -> AttemptView:
    failed = next((t for t in trials if t.phase == "idea_failed"), None)
    outcome: Literal["written", "running", "scored", "failed"] = "written"
    if failed is not None:
        outcome = "failed"
    elif any(t.phase in ("queued", "running") for t in trials):
        outcome = "running"
    elif any(t.phase == "scored" for t in trials):
        outcome = "scored"
    cause = failed.cause if failed else ""
    return AttemptView(made.number, made.parent, made.kind, outcome, cause)
