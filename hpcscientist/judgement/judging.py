"""Judges a campaign: computes findings from its ideas' values. The only place that does so.

The summary, proposals, cost reports and confirmation all call this module, so that they cannot
disagree about the rule, the ideas that count, and their order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from hpcscientist.config.settings import Settings
from hpcscientist.feedback import duplicates
from hpcscientist.feedback.decision import KnownOfIdeas, Limited, Rule, exceeded, findings
from hpcscientist.feedback.effort import correction, schedule_of
from hpcscientist.history.entities import IdeaState
from hpcscientist.history.state import CampaignState
from hpcscientist.records.findings import Finding
from hpcscientist.records.idea import BASELINE_ATTEMPT, BASELINE_ID
from hpcscientist.records.trial import MetricSpec, Objective


def rule_of(settings: Settings) -> Rule:
    """Return the rule that judges a campaign's ideas."""
    return Rule.of(settings.loop, settings.rounds)


def judge(
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
