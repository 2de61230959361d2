"""Judging a campaign: from what is known of its ideas to findings. Nobody else decides.

Summary, knowledge, spending and confirmation all ask here, so that they cannot disagree about
which rule holds, which ideas count, and in which order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from hpcscientist.config.settings import Settings
from hpcscientist.feedback.decision import Known, Rule, findings, gain
from hpcscientist.feedback.effort import correction, schedule_of
from hpcscientist.feedback.statistics import compare
from hpcscientist.history.entities import IdeaState
from hpcscientist.history.state import CampaignState
from hpcscientist.judgement import duplicates
from hpcscientist.records.findings import Finding
from hpcscientist.records.idea import BASELINE_ATTEMPT, BASELINE_ID
from hpcscientist.records.trial import MetricSpec, Objective


def rule_of(settings: Settings) -> Rule:
    """Return the rule by which a campaign's ideas are judged."""
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

    `seeds` is the recipe's number of seeds, from which follow the corrections of ideas that were
    looked at repeatedly, and which of them were left early. `before` leaves out ideas from that
    number on.

    An idea that has not ended holds up the verdicts behind it under online control; one that
    ended without a score is no evidence, and holds up nothing. Nor does one that repeats the
    predictions of an earlier idea: it has no finding of its own. One that was left below the full
    budget has none either, and counts among the others.

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
    exceeded = {
        idea: why
        for idea, scored in ideas.items()
        if scored and (why := _exceeded(state, state.ideas[idea], objective.tolerances))
    }
    known = Known(corrections, planned, left, exceeded)
    return findings(baseline, ideas, metric, rule_of(settings), known)


def _exceeded(state: CampaignState, idea: IdeaState, limits: Sequence[MetricSpec]) -> str:
    """Say which tolerance a scored idea exceeds on average, "" if none."""
    assert idea.ended is not None and idea.ended.attempt is not None
    for metric in limits:
        assert metric.tolerance is not None
        baseline = state.scores(BASELINE_ID, BASELINE_ATTEMPT, metric.name)
        own = state.scores(idea.idea_id, idea.ended.attempt, metric.name)
        if not baseline or not own:
            continue
        worse = -gain(compare(baseline, own), metric)
        if worse > metric.tolerance:
            return f"{metric.name} is worse by {worse:.3g}, tolerance {metric.tolerance:g}"
    return ""


def _values(
    idea: IdeaState, read: Callable[[str, int], Mapping[int, float]]
) -> Mapping[int, float] | None:
    """Seed -> value of an idea that ended scored, none of one that ended otherwise."""
    if idea.ended is None:
        return None
    if idea.ended.status != "scored" or idea.ended.attempt is None:
        return {}
    return read(idea.idea_id, idea.ended.attempt)
