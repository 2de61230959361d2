"""Checks which events an action may lead to."""

from __future__ import annotations

from hpcscientist.conduct.actions import (
    Action,
    Admit,
    BriefIdea,
    Compact,
    Decide,
    Finish,
    JudgeFindings,
    Propose,
    RunTrial,
    Spend,
    Take,
)
from hpcscientist.conduct.strategy.steps import (
    Abandon,
    Climb,
    Conclude,
    Read,
    Review,
    Seeds,
    SetAside,
    Write,
)
from hpcscientist.history.state import CampaignState
from hpcscientist.records.events import (
    AttemptReviewed,
    AttemptWritten,
    AuthorGaveUp,
    BudgetDecided,
    CampaignEnded,
    Event,
    IdeaAdmitted,
    IdeaBriefed,
    IdeaEnded,
    IdeaPlanned,
    IdeaProposed,
    IdeaRevised,
    IdeaSetAside,
    IdeasJudged,
    ProposalsExhausted,
    ResultsCompacted,
    RunsRead,
    SeedsDecided,
    SplitSpent,
    TrialEnded,
    TrialQueued,
    TrialStarted,
)


def comes_to(action: Action, event: Event, state: CampaignState) -> bool:  # noqa: PLR0911
    """Return whether an event may be the result of an action."""
    if isinstance(event, IdeaSetAside) and not event.trial_id:  # its files are damaged
        return isinstance(action, RunTrial | Take | BriefIdea) and action.idea_id == event.idea_id
    match action:
        case RunTrial():
            return _of_run(action, event)
        case Take(idea_id, step):
            return _of_step(idea_id, step, event)
        case BriefIdea(idea_id):
            return _of_brief(idea_id, event)
        case Propose(number):
            return _of_proposal(number, event, state)
        case Admit(number):
            return (
                isinstance(event, IdeaRevised | IdeaAdmitted | IdeaEnded)
                and state.ideas[event.idea_id].number == number
            )
        case Decide(idea_id, after):
            return _of_decision(idea_id, after, event)
        case JudgeFindings(ended, last):
            return isinstance(event, IdeasJudged) and (event.ended, event.last) == (ended, last)
        case Spend(idea_id):
            return isinstance(event, SplitSpent) and event.idea_id == idea_id
        case Compact():
            return isinstance(event, ResultsCompacted)
        case Finish():
            return isinstance(event, CampaignEnded)
        case _:
            return False


def _of_run(action: RunTrial, event: Event) -> bool:
    match event:
        case TrialQueued() | TrialStarted():
            return (event.trial_id, event.run) == (action.trial_id, action.run)
        case TrialEnded(report=report):
            return (report.trial_id, report.run) == (action.trial_id, action.run)
        case _:
            return False


def _of_proposal(number: int, event: Event, state: CampaignState) -> bool:
    if isinstance(event, IdeaEnded):  # no proposal was usable
        return event.status == "failed" and state.ideas[event.idea_id].number == number
    return isinstance(event, IdeaProposed | ProposalsExhausted) and event.number == number


def _of_brief(idea_id: str, event: Event) -> bool:
    match event:
        case IdeaPlanned() | IdeaBriefed() | IdeaEnded(vetted=True):
            return event.idea_id == idea_id
        case AuthorGaveUp(task="plan"):
            return event.idea_id == idea_id
        case _:
            return False


def _of_step(idea_id: str, step: object, event: Event) -> bool:  # noqa: PLR0911
    if getattr(event, "idea_id", "") != idea_id:
        return False
    match step, event:
        case Write(version), AttemptWritten(attempt=attempt):
            return version.number == attempt
        case Write(task=task), AuthorGaveUp():
            return event.task == task
        case Abandon(task=task, number=number), AuthorGaveUp():
            return (event.task, event.attempt) == (task, number)
        case Review(number), AttemptReviewed(attempt=attempt):
            return number == attempt
        case Read(number), RunsRead(number=read):
            return number == read
        case Conclude(), IdeaEnded():
            return (step.status, step.reason, step.attempt) == (
                event.status,
                event.reason,
                event.attempt,
            )
        case SetAside(), IdeaSetAside():
            return (step.trial_id, step.reason) == (event.trial_id, event.reason)
        case _:
            return False


def _of_decision(idea_id: str, after: Climb | Seeds, event: Event) -> bool:
    match after, event:
        case Climb(version), BudgetDecided(attempt=attempt):
            return event.idea_id == idea_id and version.number == attempt
        case Seeds(version), SeedsDecided(attempt=attempt, seeds=seeds):
            decided = (version.number, after.which.stop) == (attempt, seeds)
            return decided and event.idea_id == idea_id
        case _:
            return False


FREE = {
    "campaign_started",
    "driver_started",
    "driver_stopped",
    "note_taken",
    "tampering_found",
    "reply_recorded",
    "batch_queued",
    "plane_started",
    "plane_stopped",
    "confirmation_set_aside",
}
