"""Decides what a campaign does next, from its state. Pure. Start here to understand the loop.

    journal --fold--> state --decide--> actions --perform--> events --> journal

Only the state, which is computed from the journal, survives between two decisions. So the next
driver decides the same. An action stays wanted until its event is recorded; `busy` holds the keys
of the actions that are under way in this driver.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import islice

from hpcscientist.conduct import actions, reference
from hpcscientist.conduct.actions import (
    Action,
    Admit,
    BriefIdea,
    Compact,
    Decide,
    Finish,
    JudgeFindings,
    Propose,
    Spend,
    Stop,
    Take,
)
from hpcscientist.conduct.agenda import Agenda, AgendaCache
from hpcscientist.conduct.idea_outcomes import IdeaOutcomes
from hpcscientist.conduct.rules import Rules
from hpcscientist.conduct.strategy.steps import AnyStep, Climb, Pilot, Seeds
from hpcscientist.history.entities import IdeaState, TrialState
from hpcscientist.history.state import CampaignState
from hpcscientist.records.idea import BASELINE_ATTEMPT, BASELINE_ID, Arm
from hpcscientist.records.trial import MachineFailed, Stage, trial_name

# Which ideas to ask for, and which one to judge next.


def want_proposals(wanted: Agenda, *, reference_has_run: bool) -> None:
    """Add proposals, round by round, up to `extent.in_flight` ideas at a time."""
    state, rules = wanted.state, wanted.rules
    extent, progress = rules.extent, state.progress
    if rules.settings.loop.noisy == "stop" and not reference_has_run:
        return
    used, most = len(progress.open), _last_number(state, rules)

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
            return  # the previous round is not over
        ordered = rules.proposing.in_order or extent.arm(number) == "control"
        if ordered and _is_halted(wanted, number):
            if rules.proposing.in_order:
                return  # later ideas have to wait too
            continue
        used += 1  # it holds its slot even while it waits for others
        if _may_be_asked(wanted, number, round_number, ordered, reference_has_run):
            wanted.add(Propose(number, round_number))


def want_judgement(wanted: Agenda, busy: Collection[str]) -> None:
    """Add the admission of each arm's first unjudged idea, if it has been proposed.

    Ideas are judged in order of number, so which of two look-alikes is admitted does not depend on
    timing. Knob settings are compared only with knob settings, and text only with text.
    """
    for arm in ("model", "control"):
        number = _next_judged(wanted, arm, busy)
        if number:
            wanted.add(Admit(number))


def _next_judged(wanted: Agenda, arm: Arm, busy: Collection[str]) -> int:
    """Return the number of the next idea to judge, 0 while it has not been proposed."""
    progress, most = wanted.state.progress, _last_number(wanted.state, wanted.rules)

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
        # Past `most` there is nothing left to propose, but a proposal asked for earlier may come.
        if number <= most or f"propose/{number}" in busy:
            return 0
    return 0


def _is_halted(wanted: Agenda, number: int) -> bool:
    """Return whether a machine failure holds up an idea that this idea's proposer learns from."""
    ideas = wanted.state.ideas
    return any(
        before < number and (wanted.rules.proposing.in_order or ideas[idea].arm == "control")
        for idea, before in wanted.state.progress.aside.items()
    )


def _are_asked(wanted: Agenda, number: int) -> bool:
    """Return whether all of the model's ideas with smaller numbers were proposed.

    The control arm ends when the model's ideas end: otherwise it would exceed its share.
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
        # It waits for ideas of its arm that are `lag` or more behind, and for earlier rounds,
        # however many ideas run at once.
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
    # A batch starts while the previous one is still under way; it waits for the one before that.
    settled = max(1, extent.batch(number, round_number, rules.batch)[0] - rules.batch)
    return reference_has_run and wanted.state.progress.over.low >= settled - 1


def _last_number(state: CampaignState, rules: Rules) -> int:
    """Return the largest number that an idea can have."""
    ideas = rules.extent.ideas
    return ideas if state.exhausted is None else min(ideas, state.exhausted - 1)


# Which ideas to confirm, and the progress of confirmations. See `confirmation.looks`.

_SHARE = 20  # judge again after a twentieth more ideas have ended: a sweep's cost stays linear


def want_confirmations(wanted: Agenda, *, is_over: bool) -> None:
    """Add the judgement of findings when it is due, and the confirmations that were chosen.

    `is_over`: no idea is under way, and none will come under this driver.
    """
    _want_findings(wanted, is_over=is_over)
    progress, baseline = wanted.state.progress, wanted.state.baseline_spent
    if not progress.confirming:
        return
    if baseline is None:
        wanted.add(Spend(BASELINE_ID))
        return
    _want_trials(wanted, BASELINE_ID, BASELINE_ATTEMPT, len(baseline.seeds))
    stands = all(
        trial is not None and trial.phase == "scored"
        for trial in _trials(wanted, BASELINE_ID, BASELINE_ATTEMPT, len(baseline.seeds))
    )
    for idea_id in progress.confirming:
        wanted.of(
            wanted.state.ideas[idea_id],
            ("confirming", stands),
            _want_stood if stands else _want_spent,
        )


def _want_stood(wanted: Agenda, idea: IdeaState) -> None:
    if idea.spent is None and not _is_set_aside(wanted, idea):
        wanted.add(Spend(idea.idea_id))
    _want_spent(wanted, idea)


def _want_spent(wanted: Agenda, idea: IdeaState) -> None:
    if idea.spent is not None and not _is_set_aside(wanted, idea):
        _want_trials(wanted, idea.idea_id, idea.spent.attempt, len(idea.spent.seeds))


def damaged_confirmations(wanted: Agenda) -> Iterator[str]:
    """Yield the reasons why this driver cannot confirm ideas."""
    for idea_id in wanted.state.progress.confirming:
        idea = wanted.state.ideas[idea_id]
        if idea.unconfirmed is not None and _is_set_aside(wanted, idea):
            yield idea.unconfirmed.reason


def waiting_confirmations(wanted: Agenda) -> Iterator[str]:
    """Yield a line for each confirmation that machine failures hold up: whose, and why.

    The next driver takes them up.
    """
    state = wanted.state
    if not state.progress.confirming or state.baseline_spent is None:
        return
    seeds = len(state.baseline_spent.seeds)
    yield from _failed(wanted, "the baseline", BASELINE_ID, BASELINE_ATTEMPT, seeds)
    for idea_id in state.progress.confirming:
        spent = state.ideas[idea_id].spent
        if spent is not None:
            yield from _failed(wanted, idea_id, idea_id, spent.attempt, len(spent.seeds))


def _failed(wanted: Agenda, whose: str, idea_id: str, attempt: int, seeds: int) -> Iterator[str]:
    """Yield a line for the first trial lost to a machine failure, unless it was given up."""
    for trial in _trials(wanted, idea_id, attempt, seeds):
        if trial is not None and trial.infra_failed and not wanted.is_lost(trial):
            report = trial.report
            assert report is not None
            assert isinstance(report.outcome, MachineFailed)
            yield f"{whose}: {report.outcome.failure.value}: {report.outcome.detail}"
            return


def _trials(wanted: Agenda, idea_id: str, attempt: int, seeds: int) -> Iterator[TrialState | None]:
    for index in range(seeds):
        yield wanted.state.trials.get(trial_name(idea_id, attempt, Stage.CONFIRM, index))


def _want_trials(wanted: Agenda, idea_id: str, attempt: int, seeds: int) -> None:
    for index in range(seeds):
        wanted.run(idea_id, attempt, Stage.CONFIRM, index, actions.CONFIRMATION)


def _want_findings(wanted: Agenda, *, is_over: bool) -> None:
    progress, rule = wanted.state.progress, wanted.rules.confirmation
    if not rule.enabled:
        return
    ended = progress.ended
    if is_over and (rule.early or not progress.aside):
        if not (progress.judged_last and progress.judged_at == ended):
            wanted.add(JudgeFindings(ended, last=True))
    elif rule.early and ended - progress.judged_at >= max(1, progress.judged_at // _SHARE):
        wanted.add(JudgeFindings(ended, last=False))


def _is_set_aside(wanted: Agenda, idea: IdeaState) -> bool:
    left = idea.unconfirmed
    return left is not None and left.generation == wanted.state.generation


@dataclass(frozen=True, slots=True)
class NextActions:
    """The actions to start now, the most urgent first, and when to decide again if nothing happens
    (seconds since the epoch). None: wait only for the actions under way.
    """

    actions: tuple[Action, ...]
    wake_at: float | None


def decide(
    state: CampaignState,
    rules: Rules,
    busy: Collection[str],
    now: float,
    memory: AgendaCache | None = None,
) -> NextActions:
    """Return the actions to start now. If nothing is busy, the decision has an action or a time to
    wait for, unless the campaign has ended.

    `memory` comes from earlier decisions of the same campaign. It only saves time.
    """
    if state.ended:
        return NextActions((), None)
    pattern = state.losses.pattern()
    if pattern:
        # As long as it has never scored anything, the scorer is at fault, and not the machine.
        if state.losses.are_scorers() and not reference.has_run(state, rules):
            return NextActions((reference.scorer_fails(f"on {pattern}"),), None)
        return NextActions((Stop("machine", f"{pattern}; fix that and run `hpcsci resume`"),), None)
    wanted = Agenda(state, rules, now, AgendaCache() if memory is None else memory)
    has_run = reference.want(wanted)
    stops = [action for action in wanted.found if isinstance(action, Stop)]
    if stops:
        return NextActions((stops[0],), None)
    want = _want_seeded if has_run else _want_unseeded
    # Ideas that were set aside return to `open`: the limit on concurrent ideas still holds.
    for idea_id in islice(state.progress.open, rules.extent.in_flight):
        wanted.of(state.ideas[idea_id], ("steps", state.of_reference), want)
    want_judgement(wanted, busy)
    want_proposals(wanted, reference_has_run=has_run)
    if has_run:
        want_confirmations(wanted, is_over=_is_over(wanted, busy))
    _want_compaction(wanted, rules.compact_after)
    if len(wanted.memory) > 2 * (len(state.progress.open) + len(state.progress.confirming) + 1):
        wanted.memory.keep_only(state.progress.open.keys() | state.progress.confirming.keys())
    due = {action.key: action for action in wanted.found if action.key not in busy}
    if not due and not busy and wanted.wake_at is None:
        return NextActions((_last(wanted),), None)
    # The sort is stable: among equally urgent actions, the one proposed first goes first.
    return NextActions(tuple(sorted(due.values(), key=_urgency)), wanted.wake_at)


def _urgency(action: Action) -> int:
    return -action.priority


def _want_seeded(wanted: Agenda, idea: IdeaState) -> None:
    _want_idea(wanted, idea, reference_has_run=True)


def _want_unseeded(wanted: Agenda, idea: IdeaState) -> None:
    _want_idea(wanted, idea, reference_has_run=False)


def _want_idea(wanted: Agenda, idea: IdeaState, *, reference_has_run: bool) -> None:
    """Add the next actions of an admitted idea."""
    if not idea.admitted:
        return
    if idea.briefed is None:
        wanted.add(BriefIdea(idea.idea_id))
        return
    known = IdeaOutcomes(wanted.state, wanted.rules, idea)
    strategy = wanted.rules.strategies.of(idea.number, idea.arm, idea.briefed.parts)
    for step in strategy.next(known).steps:
        _want_step(wanted, idea, step, reference_has_run=reference_has_run)


def _want_step(wanted: Agenda, idea: IdeaState, step: AnyStep, *, reference_has_run: bool) -> None:
    priority = actions.STEP + step.priority
    match step:
        case Pilot(version):
            wanted.run(idea.idea_id, version.number, Stage.PILOT, 0, priority)
        case Climb(version, index):
            wanted.run(idea.idea_id, version.number, Stage.STEP, index, priority)
            if _have_scored(wanted, idea, version.number, Stage.STEP, [index]):
                wanted.add(Decide(idea.idea_id, step))
        case Seeds(version) if reference_has_run:
            # Added first, so that no idea is seen running its seeds without the baseline rerun.
            reference.want_again(wanted, idea.number)
            for index in step.which:
                wanted.run(idea.idea_id, version.number, Stage.SEEDS, index, priority)
            if _have_scored(wanted, idea, version.number, Stage.SEEDS, step.which):
                wanted.add(Decide(idea.idea_id, step))
        case Seeds():
            return
        case _:
            wanted.add(Take(idea.idea_id, step))


def _have_scored(
    wanted: Agenda, idea: IdeaState, number: int, stage: Stage, indices: Collection[int]
) -> bool:
    names = (trial_name(idea.idea_id, number, stage, index) for index in indices)
    found = (wanted.state.trials.get(name) for name in names)
    return all(trial is not None and trial.phase == "scored" for trial in found)


def _is_over(wanted: Agenda, busy: Collection[str]) -> bool:
    """Return whether no idea is under way, and none will come under this driver."""
    if wanted.state.progress.open or any(_is_of_proposals(key) for key in busy):
        return False
    return not any(isinstance(action, Propose | Admit) for action in wanted.found)


def _is_of_proposals(key: str) -> bool:
    return key.startswith(("propose/", "admit/"))


def _want_compaction(wanted: Agenda, every: int) -> None:
    if wanted.state.progress.settled - wanted.state.compacted >= every:
        wanted.add(Compact())


def _last(wanted: Agenda) -> Action:
    """Return the action that remains when nothing is wanted and nothing is under way."""
    state = wanted.state
    found = (state.ideas[idea_id].set_aside for idea_id in state.progress.aside)
    aside = [said for said in found if said is not None]
    broken = [said.reason for said in aside if not said.trial_id]
    if broken:
        return Stop("damaged", f"{broken[0]}; then run `hpcsci resume`")
    if aside:
        first = f"{aside[0].idea_id}: {aside[0].reason}"
        return _paused(f"{len(aside)} idea{'s are' if len(aside) > 1 else ' is'}", first)
    assert not state.progress.open, "an idea is open, and nothing is wanted for it"
    damaged = list(damaged_confirmations(wanted))
    if damaged:
        return Stop("damaged", f"{damaged[0]}; then run `hpcsci resume`")
    left = list(waiting_confirmations(wanted))
    if left:
        many = len(left) > 1
        return _paused(f"{len(left)} confirmation{'s are' if many else ' is'}", left[0])
    if state.compacted and state.progress.settled > state.compacted:
        return Compact()
    return Finish()


def _paused(what: str, first: str) -> Stop:
    return Stop(
        "machine",
        f"paused: {what} blocked by repeated machine failures ({first}); fix the cause, then run "
        "`hpcsci resume`",
    )
