"""Judging a campaign: from what is known of its ideas to findings. Nobody else decides.

Summary, knowledge, spending and confirmation all ask here, so that they cannot disagree about
which rule holds, which ideas count, and in which order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from hpcscientist.config.settings import Settings
from hpcscientist.feedback.decision import Rule, findings
from hpcscientist.feedback.effort import correction, schedule_of
from hpcscientist.history.entities import IdeaState
from hpcscientist.history.state import CampaignState
from hpcscientist.judgement import duplicates
from hpcscientist.records.findings import Finding
from hpcscientist.records.idea import BASELINE_ATTEMPT, BASELINE_ID
from hpcscientist.records.trial import MetricSpec

Values = Callable[[str, int], Mapping[int, float]]
"""From an idea's id and an attempt to its values by seed on the validation split."""


def rule_of(settings: Settings) -> Rule:
    """Return the rule by which a campaign's ideas are judged."""
    return Rule.of(settings.loop, settings.rounds)


def judge(
    state: CampaignState,
    metric: MetricSpec,
    settings: Settings,
    *,
    values: Values | None = None,
    seeds: int,
    before: int | None = None,
) -> dict[str, Finding]:
    """Return the findings of the ideas that ended scored, in order of their numbers.

    `values` are the journal's unless given. `seeds` is the recipe's number of seeds, from which
    follow the corrections of ideas that were looked at repeatedly, and which of them were left
    early. `before` leaves out ideas from that number on.

    An idea that has not ended holds up the verdicts behind it under online control; one that
    ended without a score is no evidence, and holds up nothing. Nor does one that repeats the
    predictions of an earlier idea: it has no finding of its own. One that was left below the full
    budget has none either, and counts among the others.
    """

    read = values or partial(state.scores, metric=metric.name)
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
    return findings(baseline, ideas, metric, rule_of(settings), corrections, planned, left)


def _values(idea: IdeaState, read: Values) -> Mapping[int, float] | None:
    """Seed -> value of an idea that ended scored, none of one that ended otherwise."""
    if idea.ended is None:
        return None
    if idea.ended.status != "scored" or idea.ended.attempt is None:
        return {}
    return read(idea.idea_id, idea.ended.attempt)
