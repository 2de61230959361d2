"""Judges a campaign: computes findings from its ideas' values. The only place that does so.

The summary, proposals, cost reports and confirmation all call this module, so that they cannot
disagree about the rule, the ideas that count, and their order.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from hpcscientist.config.settings import Settings
from hpcscientist.feedback import duplicates
from hpcscientist.feedback.decision import (
    KnownOfIdeas,
    Limited,
    Rule,
    exceeded,
    findings,
)
from hpcscientist.feedback.effort import correction, schedule_of
from hpcscientist.history.entities import IdeaState
from hpcscientist.history.state import CampaignState
from hpcscientist.records.findings import Finding
from hpcscientist.records.idea import BASELINE_ATTEMPT, BASELINE_ID
from hpcscientist.records.objective import Objective, better_by, undominated
from hpcscientist.records.trial import MetricSpec

_SHOWN = 8  # ideas of a front that a line names


def rule_of(settings: Settings) -> Rule:
    """Return the rule that judges a campaign's ideas."""
    return Rule.of(settings.loop, settings.rounds)


def campaign_findings(
    state: CampaignState,
    objective: Objective,
    settings: Settings,
    *,
    seeds: int,
    before: int | None = None,
) -> dict[str, Finding]:
    """Return the findings of the ideas that ended scored, in order of their numbers.

    `seeds` is the recipe's number of seeds: it determines the corrections of ideas that were tested
    repeatedly, and which of them stopped early. `before` leaves out ideas from that number on.

    Under online control, an idea that has not ended delays the verdicts on later ideas. An idea
    that ended without a score is no evidence and delays nothing; nor does an idea that repeats an
    earlier idea's predictions, which has no finding of its own. An idea that stopped below the full
    budget has no finding either, but counts among the tests.

    An idea that is worse on average by more than the tolerance of another metric is no
    improvement.
    """
    metric = objective.primary
    read = partial(state.scores, metric=metric.name)
    copies = duplicates.repeated(state)
    ideas = {
        idea.idea_id: {} if idea.idea_id in copies else _values(idea, read)
        for idea in state.in_order()
        if before is None or idea.number < before
    }
    baseline = read(BASELINE_ID, BASELINE_ATTEMPT)
    schedule = schedule_of(settings.loop, seeds)
    corrections = {
        idea: correction(len(scored), schedule)
        for idea, scored in ideas.items()
        if schedule is not None and scored
    }
    planned = schedule.at_most if schedule is not None else 0
    left = {idea for idea in ideas if state.ideas[idea].left is not None}
    over = {
        idea: why
        for idea, scored in ideas.items()
        if scored and (why := exceeded(_limits(state, state.ideas[idea], objective.tolerances)))
    }
    known = KnownOfIdeas(corrections, planned, left, over)
    return findings(baseline, ideas, metric, rule_of(settings), known)


def front(state: CampaignState, objective: Objective) -> dict[str, tuple[float, ...]]:
    """Return the Pareto front: the means of what no other idea, nor the baseline, dominates.

    Means are over the seeds of the search, one for each metric of `objective.pareto`; {} if that
    is empty. Ideas that exceed a tolerance or repeat another idea's predictions are left out. A
    front is an order, not a finding: no error is controlled.
    """
    if not objective.pareto:
        return {}
    copies = duplicates.repeated(state)
    ended = [
        (idea.idea_id, idea.ended.attempt)
        for idea in state.in_order()
        if idea.idea_id not in copies
        if idea.ended and idea.ended.status == "scored" and idea.ended.attempt is not None
        if not exceeded(_limits(state, idea, objective.tolerances))
    ]
    means: dict[str, tuple[float, ...]] = {}
    for idea_id, attempt in [(BASELINE_ID, BASELINE_ATTEMPT), *ended]:
        values = [state.scores(idea_id, attempt, metric.name) for metric in objective.pareto]
        if all(values):
            means[idea_id] = tuple(statistics.fmean(found.values()) for found in values)
    return {idea: means[idea] for idea in undominated(means, objective.pareto)}


def front_line(found: Mapping[str, tuple[float, ...]], objective: Objective) -> str:
    """Return a front as text, its best `_SHOWN` ideas in the primary metric; "" if it is empty."""
    if not found:
        return ""
    best = sorted(found, key=lambda idea: better_by(0.0, found[idea][0], objective.primary))
    ideas = [
        f"{idea} ({', '.join(f'{value:.4g}' for value in found[idea])})" for idea in best[:_SHOWN]
    ]
    more = [f"{len(best) - _SHOWN} more"] if len(best) > _SHOWN else []
    names = " and ".join(f"{metric.name} ({metric.direction})" for metric in objective.pareto)
    return f"nothing is better in {names} together than {', '.join([*ideas, *more])}"


def _limits(
    state: CampaignState, idea: IdeaState, tolerances: Sequence[MetricSpec]
) -> Iterator[Limited]:
    assert idea.ended is not None and idea.ended.attempt is not None
    for metric in tolerances:
        yield Limited(
            metric,
            state.scores(BASELINE_ID, BASELINE_ATTEMPT, metric.name),
            state.scores(idea.idea_id, idea.ended.attempt, metric.name),
        )


def _values(
    idea: IdeaState, read: Callable[[str, int], Mapping[int, float]]
) -> Mapping[int, float] | None:
    """Return seed -> value of an idea that ended scored, {} if it ended otherwise, None if open."""
    if idea.ended is None:
        return None
    if idea.ended.status != "scored" or idea.ended.attempt is None:
        return {}
    return read(idea.idea_id, idea.ended.attempt)
