"""Which ideas are asked for, and which is judged next."""

from __future__ import annotations

from collections.abc import Collection

from hpcscientist.conduct.actions import Admit, Propose
from hpcscientist.conduct.agenda import Agenda
from hpcscientist.conduct.rules import Rules
from hpcscientist.history.state import CampaignState
from hpcscientist.records.idea import Arm


def want(wanted: Agenda, *, reference_has_run: bool) -> None:
    """Want ideas to be proposed, as many side by side as may be, round by round."""
    state, rules = wanted.state, wanted.rules
    extent, progress = rules.extent, state.progress
    if rules.settings.loop.noisy == "stop" and not reference_has_run:
        return
    used, most = len(progress.open), _last(state, rules)

    def is_asked(number: int) -> bool:
        if number in progress.proposed:
            return True
        is_control = extent.arm(number) == "control" and not rules.proposing.in_order
        return is_control and _is_halted(wanted, number)

    number = wanted.memory.reach("asked", progress.proposed.low, most, is_asked)
    while used < extent.in_flight and number < most:
        number += 1
        if number in progress.proposed:
            continue
        round_number = extent.round_of(number)
        if progress.over.low < extent.first_of(round_number) - 1:
            return  # the round before is not over
        ordered = rules.proposing.in_order or extent.arm(number) == "control"
        if ordered and _is_halted(wanted, number):
            if rules.proposing.in_order:
                return  # nor is anything after it
            continue
        used += 1  # it has its place, even while it waits for others
        if _may_be_asked(wanted, number, round_number, ordered, reference_has_run):
            wanted.add(Propose(number, round_number))


def want_judgement(wanted: Agenda, busy: Collection[str]) -> None:
    """Want the first idea of each arm that is not judged yet to be, if it is there: look-alikes
    are found in order of proposal, so that it does not depend on timing which of two is let in.
    Settings are compared with settings alone, and words with words.
    """
    for arm in ("model", "control"):
        number = _next_judged(wanted, arm, busy)
        if number:
            wanted.add(Admit(number))


def _next_judged(wanted: Agenda, arm: Arm, busy: Collection[str]) -> int:
    """Return whose turn it is, 0 while that is not there."""
    progress, most = wanted.state.progress, _last(wanted.state, wanted.rules)

    def is_judged(number: int) -> bool:
        return number in progress.judged or wanted.rules.extent.arm(number) != arm

    high = progress.proposed.high
    number = wanted.memory.reach(f"judged/{arm}", progress.judged.low, high, is_judged)
    while number < high:
        number += 1
        if is_judged(number):
            continue
        if number in progress.proposed:
            return number
        # Nothing was left to propose for it; what was asked before that was known may still come.
        if number <= most or f"propose/{number}" in busy:
            return 0
    return 0


def _is_halted(wanted: Agenda, number: int) -> bool:
    """Whether the machine failed what an idea's proposer is to learn from."""
    ideas = wanted.state.ideas
    return any(
        before < number and (wanted.rules.proposing.in_order or ideas[idea].arm == "control")
        for idea, before in wanted.state.progress.aside.items()
    )


def _are_asked(wanted: Agenda, number: int) -> bool:
    """Whether all of the model's ideas before one of the control arm were proposed: that arm ends
    with the model's, or it would have more than its share.
    """
    proposed, extent = wanted.state.progress.proposed, wanted.rules.extent

    def is_asked(other: int) -> bool:
        return other in proposed or extent.arm(other) == "control"

    if wanted.rules.proposing.in_order:
        return True
    return wanted.memory.reach("asked/model", proposed.low, number - 1, is_asked) >= number - 1


def _may_be_asked(
    wanted: Agenda, number: int, round_number: int, ordered: bool, reference_has_run: bool
) -> bool:
    extent, rules = wanted.rules.extent, wanted.rules.proposing
    if ordered:
        # Those of its own arm behind the lag, and of earlier rounds, whatever runs at once.
        before = max(number - extent.lag + 1, extent.first_of(round_number))
        over = wanted.state.progress.over
        if not _are_asked(wanted, number):
            return False
        if rules.in_order:
            return over.low >= before - 1

        def is_over(other: int) -> bool:
            return other in over or extent.arm(other) != "control"

        last = before - 1
        return wanted.memory.reach("over/control", over.low, last, is_over) >= last
    if not rules.follows:
        return True
    # The batch before is still under way when a batch begins.
    settled = max(1, extent.batch(number, round_number, rules.batch)[0] - rules.batch)
    return reference_has_run and wanted.state.progress.over.low >= settled - 1


def _last(state: CampaignState, rules: Rules) -> int:
    """Return the last idea that there may be."""
    ideas = rules.extent.ideas
    return ideas if state.exhausted is None else min(ideas, state.exhausted - 1)
