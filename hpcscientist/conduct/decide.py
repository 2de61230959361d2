"""What a campaign does next: pure, and it reads as the loop does.

    journal --fold--> state --decide--> actions --perform--> events --> journal

Nothing is kept between two decisions but the state, which is the fold of the journal; so whoever
drives next decides the same. What is wanted stays wanted until its event is recorded: `busy` are
the keys of what is under way in this driver.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from itertools import islice

from hpcscientist.conduct import actions, confirming, proposals, reference
from hpcscientist.conduct.actions import (
    Action,
    Admit,
    Brief,
    Compact,
    Decide,
    Finish,
    Propose,
    Stop,
    Take,
)
from hpcscientist.conduct.agenda import Agenda, AgendaCache
from hpcscientist.conduct.idea_outcomes import IdeaOutcomes
from hpcscientist.conduct.rules import Rules
from hpcscientist.conduct.strategy.steps import AnyStep, Climb, Pilot, Seeds
from hpcscientist.history.entities import IdeaState
from hpcscientist.history.state import CampaignState
from hpcscientist.records.trial import Stage, trial_name


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
        return Decision((Stop("machine", f"{pattern}; mend that and run `hpcsci resume`"),), None)
    wanted = Agenda(state, rules, now, AgendaCache() if memory is None else memory)
    has_run = reference.want(wanted)
    stops = [action for action in wanted.found if isinstance(action, Stop)]
    if stops:
        return Decision((stops[0],), None)
    want = _want_seeded if has_run else _want_unseeded
    # Those that were set aside come back beside the others: no more are pursued at once for that.
    for idea_id in islice(state.progress.open, rules.extent.in_flight):
        wanted.of(state.ideas[idea_id], ("steps", state.of_reference), want)
    proposals.want_judgement(wanted, busy)
    proposals.want(wanted, reference_has_run=has_run)
    if has_run:
        confirming.want(wanted, is_over=_is_over(wanted, busy))
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
        return _waits(f"trials again and again, {len(aside)} ideas wait", first)
    assert not state.progress.open, "an idea is open, and nothing is wanted for it"
    damaged = list(confirming.damaged(wanted))
    if damaged:
        return Stop("damaged", f"{damaged[0]}; then run `hpcsci resume`")
    left = list(confirming.waiting(wanted))
    if left:
        what = f"trials of confirmations again and again, {len(left)} wait"
        return _waits(what, left[0])
    if state.compacted and state.progress.settled > state.compacted:
        return Compact()
    return Finish()


def _waits(what: str, first: str) -> Stop:
    return Stop(
        "machine",
        f"the machine failed {what} for it ({first}); mend that and run `hpcsci resume`",
    )
