"""Outcomes of confirmations, computed from the journal and the values on the test split.

Like findings they are computed on demand and never stored.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from hpcscientist.confirmation.decision import confirm, refuse
from hpcscientist.feedback import duplicates
from hpcscientist.feedback.decision import Limited
from hpcscientist.history.entities import IdeaState, TrialState
from hpcscientist.history.state import CampaignState
from hpcscientist.records.events import SplitSpent
from hpcscientist.records.findings import Confirmation, ResultRow, Verdict
from hpcscientist.records.idea import BASELINE_ATTEMPT, BASELINE_ID
from hpcscientist.records.objective import Objective
from hpcscientist.records.trial import (
    IdeaFailed,
    MachineFailed,
    Outcome,
)

Values = Callable[[str, int], Mapping[int, float]]
"""Returns values by seed on the test split, for an idea's id and an attempt."""


@dataclass(frozen=True, slots=True)
class Confirmed:
    """The outcome of an idea's look at the test split; `open` says why there is none yet."""

    confirmation: Confirmation | None
    open: str | None = None

    @property
    def reason(self) -> str | None:
        """Why the idea is not confirmed, None if it is."""
        if self.confirmation is None:
            return f"confirmation is open: {self.open}"
        reason = self.confirmation.reason
        return f"not confirmed: {reason}" if reason else None


def confirmed(
    state: CampaignState,
    objective: Objective,
    q: float,
    values: Values | None = None,
    improved: Collection[str] = (),
) -> dict[str, Confirmed]:
    """Return the outcome of each idea whose look at the test split is spent.

    `values`, of the metric that decides, default to the journal's. Ideas in `improved` without a
    look are included if the baseline failed on the test split, which is then their reason. An idea
    that fails there is not confirmed. If the machine or the baseline failed, or trials have not
    ended, the outcome is open.
    """

    def of(idea_id: str, attempt: int) -> Mapping[int, float]:
        return state.test_scores(idea_id, attempt, objective.primary.name)

    read = values or of
    repeats = duplicates.repeated_on_test(state)
    told = {
        idea.idea_id: _confirmed(state, idea, idea.spent, objective, q, read, repeats)
        for idea in state.in_order()
        if idea.spent is not None
    }
    failed = _failed(state.confirming.get((BASELINE_ID, BASELINE_ATTEMPT), {}))
    if failed is not None:
        told |= {idea: Confirmed(None, failed) for idea in improved if idea not in told}
    return told


def tally(rows: Sequence[ResultRow], told: Mapping[str, Confirmed]) -> str:
    """Return how many improvements were confirmed, and which were not and why, as text.

    "" if there is no improvement.
    """
    improved = [row for row in rows if row.finding is Verdict.IMPROVEMENT]
    if not improved:
        return ""
    held = sum(row.confirmed is True for row in improved)
    lacking = []
    for row in improved:
        outcome = told.get(row.idea_id)
        if not row.confirmed:
            why = outcome.reason if outcome else "confirmation has not begun"
            lacking.append(f"{row.idea_id} {why}")
    count = f"{held} of {len(improved)} improvements on the test split with fresh seeds"
    return "; ".join([count, *lacking])


def _confirmed(
    state: CampaignState,
    idea: IdeaState,
    spent: SplitSpent,
    objective: Objective,
    q: float,
    values: Values,
    repeats: Mapping[str, str],
) -> Confirmed:
    own = state.confirming.get((idea.idea_id, spent.attempt), {})
    for trial_id, outcome in _outcomes(own):
        if isinstance(outcome, IdeaFailed):
            detail = f"{outcome.failure.value}: {outcome.detail}"
            return Confirmed(refuse(f"{trial_id} failed on the test split ({detail})"))
    theirs = state.confirming.get((BASELINE_ID, BASELINE_ATTEMPT), {})
    lacking = _lacking(own, spent.seeds, "its") or _lacking(theirs, spent.seeds, "the reference's")
    if lacking is not None:
        return Confirmed(None, lacking)
    if idea.idea_id in repeats:
        return Confirmed(refuse(duplicates.said(state, idea.idea_id, repeats[idea.idea_id])))
    baseline, scored = values(BASELINE_ID, BASELINE_ATTEMPT), values(idea.idea_id, spent.attempt)
    if not set(spent.seeds) <= baseline.keys() & scored.keys():
        return Confirmed(None, "its results on the test split are gone or were changed")
    limits = [
        Limited(
            metric,
            state.test_scores(BASELINE_ID, BASELINE_ATTEMPT, metric.name),
            state.test_scores(idea.idea_id, spent.attempt, metric.name),
        )
        for metric in objective.tolerances
    ]
    return Confirmed(confirm(baseline, scored, objective.primary, q, limits))


def _lacking(trials: Mapping[str, TrialState], seeds: tuple[int, ...], whose: str) -> str | None:
    """Return why not every seed has a score, None if all have one."""
    failed = _failed(trials)
    if failed is not None:
        return failed
    if not set(seeds) <= {trial.seed for trial in trials.values() if trial.report is not None}:
        return f"{whose} trials on the test split have not ended"
    return None


def _failed(trials: Mapping[str, TrialState]) -> str | None:
    """Return a line on the first failed trial, None if none failed."""
    for trial_id, outcome in _outcomes(trials):
        if isinstance(outcome, MachineFailed | IdeaFailed):
            return f"{trial_id} failed ({outcome.failure.value}): {outcome.detail}"
    return None


def _outcomes(trials: Mapping[str, TrialState]) -> list[tuple[str, Outcome]]:
    ended = ((trial.trial_id, trial.report) for trial in trials.values())
    return [(trial_id, report.outcome) for trial_id, report in ended if report is not None]
