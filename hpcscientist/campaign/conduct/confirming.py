"""Which ideas are confirmed, and how far that has come. See `judgement.confirmation`."""

from __future__ import annotations

from dataclasses import dataclass

from hpcscientist.campaign.conduct import actions
from hpcscientist.campaign.conduct.actions import Judge, Spend
from hpcscientist.campaign.conduct.trials import Wanted
from hpcscientist.campaign.specs import BASELINE_ATTEMPT, trial_name
from hpcscientist.campaign.standing import IdeaState
from hpcscientist.records.idea import BASELINE_ID
from hpcscientist.records.trial import Stage

_SHARE = 20  # ideas are judged anew once a twentieth more have ended: a sweep stays linear


def want(wanted: Wanted, *, is_over: bool) -> None:
    """Want findings to be looked at when it is time, and what was chosen to be confirmed.

    `is_over`: no idea is under way, and none will come under this driver.
    """
    _want_judgement(wanted, is_over=is_over)
    progress, baseline = wanted.state.progress, wanted.state.baseline_spent
    if not progress.confirming:
        return
    if baseline is None:
        wanted.add(Spend(BASELINE_ID))
        return
    _want(wanted, BASELINE_ID, BASELINE_ATTEMPT, len(baseline.seeds))
    stands = _stand(wanted, BASELINE_ID, BASELINE_ATTEMPT, len(baseline.seeds))
    for idea_id in progress.confirming:
        idea = wanted.state.ideas[idea_id]
        if idea.spent is not None:
            _want(wanted, idea_id, idea.spent.attempt, len(idea.spent.seeds))
        elif stands.all_scored and not _is_set_aside(wanted, idea):
            wanted.add(Spend(idea_id))


def waits(wanted: Wanted) -> bool:
    """Whether something is left for the next driver to confirm."""
    state, progress = wanted.state, wanted.state.progress
    if not progress.confirming or state.baseline_spent is None:
        return bool(progress.confirming)
    stands = _stand(wanted, BASELINE_ID, BASELINE_ATTEMPT, len(state.baseline_spent.seeds))
    if stands.waits:
        return True
    for idea_id in progress.confirming:
        idea = state.ideas[idea_id]
        if idea.spent is None:
            if stands.all_scored:
                return True
        elif _stand(wanted, idea_id, idea.spent.attempt, len(idea.spent.seeds)).waits:
            return True
    return False


@dataclass(frozen=True, slots=True)
class _Standing:
    """How far confirming has come. `waits`: not all trials have run, nor were given up."""

    all_scored: bool
    waits: bool


def _stand(wanted: Wanted, idea_id: str, attempt: int, seeds: int) -> _Standing:
    trials = [
        wanted.state.trials.get(trial_name(idea_id, attempt, Stage.CONFIRM, index))
        for index in range(seeds)
    ]
    return _Standing(
        all_scored=all(trial is not None and trial.phase == "scored" for trial in trials),
        waits=not all(
            trial is not None and trial.has_ended and (not trial.spoilt or wanted.is_lost(trial))
            for trial in trials
        ),
    )


def _want(wanted: Wanted, idea_id: str, attempt: int, seeds: int) -> None:
    for index in range(seeds):
        wanted.run(idea_id, attempt, Stage.CONFIRM, index, actions.CONFIRMATION)


def _want_judgement(wanted: Wanted, *, is_over: bool) -> None:
    progress, rule = wanted.state.progress, wanted.rules.confirmation
    if not rule.enabled:
        return
    ended = progress.ended
    if is_over and (rule.early or not progress.aside):
        if not (progress.judged_last and progress.judged_at == ended):
            wanted.add(Judge(ended, last=True))
    elif rule.early and ended - progress.judged_at >= max(1, progress.judged_at // _SHARE):
        wanted.add(Judge(ended, last=False))


def _is_set_aside(wanted: Wanted, idea: IdeaState) -> bool:
    left = idea.unconfirmed
    return left is not None and left.generation == wanted.state.generation
