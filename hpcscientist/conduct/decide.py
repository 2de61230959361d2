"""What a campaign does next: pure, and it reads as the loop does.

    journal --fold--> state --decide--> actions --perform--> events --> journal

Nothing is kept between two decisions but the state, which is the fold of the journal; so whoever
drives next decides the same. What is wanted stays wanted until its event is recorded: `busy` are
the keys of what is under way in this driver.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import islice

from hpcscientist.conduct import actions, reference
from hpcscientist.conduct.actions import (
    Action,
    Admit,
    Brief,
    Compact,
    Decide,
    Finish,
    Judge,
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

# Which ideas are asked for, and which is judged next.


def want_proposals(wanted: Agenda, *, reference_has_run: bool) -> None:
    """Want ideas to be proposed, as many side by side as may be, round by round."""
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


def _last_number(state: CampaignState, rules: Rules) -> int:
    """Return the last idea that there may be."""
    ideas = rules.extent.ideas
    return ideas if state.exhausted is None else min(ideas, state.exhausted - 1)


# Which ideas are confirmed, and how far that has come. See `campaign.confirmation`.

_SHARE = 20  # ideas are judged anew once a twentieth more have ended: a sweep stays linear


def want_confirmations(wanted: Agenda, *, is_over: bool) -> None:
    """Want findings to be looked at when it is time, and what was chosen to be confirmed.

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
    """Why ideas cannot be confirmed by this driver."""
    for idea_id in wanted.state.progress.confirming:
        idea = wanted.state.ideas[idea_id]
        if idea.unconfirmed is not None and _is_set_aside(wanted, idea):
            yield idea.unconfirmed.reason


def waiting_confirmations(wanted: Agenda) -> Iterator[str]:
    """What the machine failed, and the next driver takes up: of whom, and why."""
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
    """The first trial that the machine failed, unless it was given up."""
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
            wanted.add(Judge(ended, last=True))
    elif rule.early and ended - progress.judged_at >= max(1, progress.judged_at // _SHARE):
        wanted.add(Judge(ended, last=False))


def _is_set_aside(wanted: Agenda, idea: IdeaState) -> bool:
    left = idea.unconfirmed
    return left is not None and left.generation == wanted.state.generation


@dataclass(frozen=True, slots=True)
class Decision:
    """What is begun now, the most urgent first; and when to decide again though nothing happens,
    in seconds since the epoch. None: nothing is waited for but what is under way.
    """

    actions: tuple[Action, ...]
    wake_at: float | None


def decide(
    state: CampaignState,
    rules: Rules,
    busy: Collection[str],
    now: float,
    memory: AgendaCache | None = None,
) -> Decision:
    """Decide what is begun now. With nothing busy it returns an action or a time to wait for,
    unless the campaign has ended.

    `memory` is that of earlier decisions of the same campaign: it saves time, and changes nothing.
    """
    if state.ended:
        return Decision((), None)
    pattern = state.losses.pattern()
    if pattern:
        return Decision((Stop("machine", f"{pattern}; fix that and run `hpcsci resume`"),), None)
    wanted = Agenda(state, rules, now, AgendaCache() if memory is None else memory)
    has_run = reference.want(wanted)
    stops = [action for action in wanted.found if isinstance(action, Stop)]
    if stops:
        return Decision((stops[0],), None)
    want = _want_seeded if has_run else _want_unseeded
    # Those that were set aside come back beside the others: no more are pursued at once for that.
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
        return Decision((_last(wanted),), None)
    # Sorted stably: of equal urgency, what was proposed first goes first.
    return Decision(tuple(sorted(due.values(), key=_urgency)), wanted.wake_at)


def _urgency(action: Action) -> int:
    return -action.priority


def _want_seeded(wanted: Agenda, idea: IdeaState) -> None:
    _want_idea(wanted, idea, reference_has_run=True)


def _want_unseeded(wanted: Agenda, idea: IdeaState) -> None:
    _want_idea(wanted, idea, reference_has_run=False)


def _want_idea(wanted: Agenda, idea: IdeaState, *, reference_has_run: bool) -> None:
    """Want an idea that was let in to be taken further."""
    if not idea.admitted:
        return
    if idea.briefed is None:
        wanted.add(Brief(idea.idea_id))
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
            # Wanted first, so that no idea is seen to run its seeds without it.
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
    """Whether no idea is under way, and none will come under this driver."""
    if wanted.state.progress.open or any(_is_of_proposals(key) for key in busy):
        return False
    return not any(isinstance(action, Propose | Admit) for action in wanted.found)


def _is_of_proposals(key: str) -> bool:
    return key.startswith(("propose/", "admit/"))


def _want_compaction(wanted: Agenda, every: int) -> None:
    if wanted.state.progress.settled - wanted.state.compacted >= every:
        wanted.add(Compact())


def _last(wanted: Agenda) -> Action:
    """What is left to do when nothing is wanted, and nothing under way."""
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
