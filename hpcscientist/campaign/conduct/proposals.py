"""Which ideas are asked for, and which is judged next."""

from __future__ import annotations

from collections.abc import Collection

from hpcscientist.campaign.conduct.actions import Admit, Propose
from hpcscientist.campaign.conduct.rules import Rules
from hpcscientist.campaign.conduct.trials import Wanted
from hpcscientist.campaign.state import CampaignState
from hpcscientist.records.idea import Arm


def want(wanted: Wanted, *, reference_has_run: bool) -> None:
    """Want ideas to be proposed, as many side by side as may be, round by round."""
    state, rules = wanted.state, wanted.rules
    plan, progress = rules.plan, state.progress
    if rules.settings.loop.noisy == "stop" and not reference_has_run:
        return
    used, number, most = len(progress.open), progress.proposed.low, _last(state, rules)
    while used < plan.in_flight and number < most:
        number += 1
        if number in progress.proposed:
            continue
        round_number = plan.round_of(number)
        if progress.over.low < plan.first_of(round_number) - 1:
            return  # the round before is not over
        ordered = rules.proposing.in_order or plan.arm(number) == "control"
        if ordered and _is_halted(wanted, number):
            if rules.proposing.in_order:
                return  # nor is anything after it
            continue
        used += 1  # it has its place, even while it waits for others
        if _may_be_asked(wanted, number, round_number, ordered, reference_has_run):
            wanted.add(Propose(number, round_number))


def want_judgement(wanted: Wanted, busy: Collection[str]) -> None:
    """Want the first idea of each arm that is not judged yet to be, if it is there: look-alikes
    are found in order of proposal, so that it does not depend on timing which of two is let in.
    Settings are compared with settings alone, and words with words.
    """
    for arm in ("model", "control"):
        number = _next_judged(wanted, arm, busy)
        if number:
            wanted.add(Admit(number))


def _next_judged(wanted: Wanted, arm: Arm, busy: Collection[str]) -> int:
    """Return whose turn it is, 0 while that is not there."""
    progress, most = wanted.state.progress, _last(wanted.state, wanted.rules)
    number = progress.judged.low
    while number < progress.proposed.high:
        number += 1
        if number in progress.judged or wanted.rules.plan.arm(number) != arm:
            continue
        if number in progress.proposed:
            return number
        # Nothing was left to propose for it; what was asked before that was known may still come.
        if number <= most or f"propose/{number}" in busy:
            return 0
    return 0


def _is_halted(wanted: Wanted, number: int) -> bool:
    """Whether the machine failed what an idea's proposer is to learn from."""
    ideas = wanted.state.ideas
    return any(
        before < number and (wanted.rules.proposing.in_order or ideas[idea].arm == "control")
        for idea, before in wanted.state.progress.aside.items()
    )


def _are_asked(wanted: Wanted, number: int) -> bool:
    """Whether all of the model's ideas before one of the control arm were proposed: that arm ends
    with the model's, or it would have more than its share.
    """
    proposed, plan = wanted.state.progress.proposed, wanted.rules.plan
    others = (n for n in range(proposed.low + 1, number) if n not in proposed)
    return wanted.rules.proposing.in_order or all(plan.arm(n) == "control" for n in others)


def _may_be_asked(
    wanted: Wanted, number: int, round_number: int, ordered: bool, reference_has_run: bool
) -> bool:
    plan, rules = wanted.rules.plan, wanted.rules.proposing
    if ordered:
        # Those of its own arm behind the lag, and of earlier rounds, whatever runs at once.
        before = max(number - plan.lag + 1, plan.first_of(round_number))
        if not _are_asked(wanted, number):
            return False
        return all(
            other in wanted.state.progress.over
            for other in range(wanted.state.progress.over.low + 1, before)
            if rules.in_order or plan.arm(other) == "control"
        )
    if not rules.follows:
        return True
    # The batch before is still under way when a batch begins.
    settled = max(1, plan.batch(number, round_number, rules.batch)[0] - rules.batch)
    return reference_has_run and wanted.state.progress.over.low >= settled - 1


def _last(state: CampaignState, rules: Rules) -> int:
    """Return the last idea that there may be."""
    ideas = rules.plan.ideas
    return ideas if state.exhausted is None else min(ideas, state.exhausted - 1)
