"""Every event that a campaign records is what an action comes to that `decide` wanted just then."""

from __future__ import annotations

from collections.abc import Iterator

from hpcscientist.campaign.conduct.actions import (
    Action,
    Admit,
    Brief,
    Compact,
    Decide,
    Finish,
    Judge,
    Propose,
    RunTrial,
    Spend,
    Take,
)
from hpcscientist.campaign.conduct.decide import decide
from hpcscientist.campaign.conduct.rules import Rules
from hpcscientist.campaign.state import CampaignState
from hpcscientist.campaign.strategy.steps import (
    Abandon,
    Climb,
    Conclude,
    Read,
    Review,
    Seeds,
    SetAside,
    Write,
)
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
from hpcscientist.records.trial import Stage

LONG_AFTER = 1e12


def is_wanted(event: Event, state: CampaignState, rules: Rules) -> bool:
    """Whether an event may come in this state: no pause is waited for, nothing is under way."""
    wanted = decide(state, rules, (), LONG_AFTER).actions
    return any(comes_to(action, event, state) for action in wanted) or _was_begun(event, state)


def _was_begun(event: Event, state: CampaignState) -> bool:
    """Whether an event comes of what is under way, though nobody would begin it now."""
    match event:
        case IdeaProposed(number=number):
            return state.exhausted is not None and number >= state.exhausted
        case TrialQueued(idea_id="baseline", stage=Stage.BASELINE, attempt=attempt):
            return attempt > 1  # coroutines queue it after the seeds that it goes with
        case _:
            return False


def comes_to(action: Action, event: Event, state: CampaignState) -> bool:  # noqa: PLR0911
    """Whether an event may be what an action came to."""
    match action:
        case RunTrial():
            return _of_run(action, event)
        case Take(idea_id, step):
            return _of_step(idea_id, step, event)
        case Brief(idea_id):
            return _of_brief(idea_id, event)
        case Propose(number):
            return isinstance(event, IdeaProposed | ProposalsExhausted) and event.number == number
        case Admit(number):
            return (
                isinstance(event, IdeaAdmitted | IdeaEnded)
                and state.ideas[event.idea_id].number == number
            )
        case Decide(idea_id, after):
            return _of_decision(idea_id, after, event)
        case Judge(ended, last):
            # Coroutines may not know yet that no further idea comes.
            return isinstance(event, IdeasJudged) and event.ended == ended and event.last <= last
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
        case Write(task=task) | Abandon(task=task), AuthorGaveUp():
            return event.task == task
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
    "reply_recorded",
    "batch_queued",
    "plane_started",
    "plane_stopped",
    "confirmation_set_aside",
}


def keys(actions: tuple[Action, ...]) -> Iterator[str]:
    """For messages."""
    return (action.key for action in actions)
