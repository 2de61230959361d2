"""Which ideas are confirmed, and how far that has come. See `campaign.confirmation`."""

from __future__ import annotations

from collections.abc import Iterator

from hpcscientist.conduct import actions
from hpcscientist.conduct.actions import Judge, Spend
from hpcscientist.conduct.agenda import Agenda
from hpcscientist.history.entities import IdeaState, TrialState
from hpcscientist.records.idea import BASELINE_ATTEMPT, BASELINE_ID
from hpcscientist.records.outcome import MachineFailed
from hpcscientist.records.trial import Stage, trial_name

_SHARE = 20  # ideas are judged anew once a twentieth more have ended: a sweep stays linear


def want(wanted: Agenda, *, is_over: bool) -> None:
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
        _want(wanted, idea.idea_id, idea.spent.attempt, len(idea.spent.seeds))


def damaged(wanted: Agenda) -> Iterator[str]:
    """Why ideas cannot be confirmed by this driver."""
    for idea_id in wanted.state.progress.confirming:
        idea = wanted.state.ideas[idea_id]
        if idea.unconfirmed is not None and _is_set_aside(wanted, idea):
            yield idea.unconfirmed.reason


def waiting(wanted: Agenda) -> Iterator[str]:
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
        if trial is not None and trial.spoilt and not wanted.is_lost(trial):
            report = trial.report
            assert report is not None
            assert isinstance(report.outcome, MachineFailed)
            yield f"{whose}: {report.outcome.failure.value}: {report.outcome.detail}"
            return


def _trials(wanted: Agenda, idea_id: str, attempt: int, seeds: int) -> Iterator[TrialState | None]:
    for index in range(seeds):
        yield wanted.state.trials.get(trial_name(idea_id, attempt, Stage.CONFIRM, index))


def _want(wanted: Agenda, idea_id: str, attempt: int, seeds: int) -> None:
    for index in range(seeds):
        wanted.run(idea_id, attempt, Stage.CONFIRM, index, actions.CONFIRMATION)


def _want_judgement(wanted: Agenda, *, is_over: bool) -> None:
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
