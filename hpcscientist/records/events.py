"""The journal's events. Every event has a `key`; an event whose key is known is not repeated.

They carry what is decided by, or the hash of the file that does: a driver that resumes, of a later
version perhaps, finds it. What an earlier version wrote is read by `history.upcasting`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from hpcscientist.records.base import Record
from hpcscientist.records.experiment import FurtherRun
from hpcscientist.records.idea import Arm, AttemptKind, KnobValue
from hpcscientist.records.trial import RunId, Stage, TrialReport


class _OnceAnIdea(Record):
    """An event that comes once an idea."""

    if TYPE_CHECKING:  # fields of each, in an order of their own
        type: str
        idea_id: str

    @property
    def key(self) -> str:
        """Once an idea."""
        return f"{self.type}/{self.idea_id}"


class CampaignStarted(Record):
    """The first event of every journal."""

    type: Literal["campaign_started"] = "campaign_started"
    campaign_id: str

    @property
    def key(self) -> str:
        """Once a campaign."""
        return self.type


class DriverStarted(Record):
    """A driver took the campaign up, at launch or on resume: which program, and where it runs."""

    type: Literal["driver_started"] = "driver_started"
    generation: int
    host: str
    pid: int
    package_version: str
    package_hash: str
    python: str

    @property
    def key(self) -> str:
        """Once a generation of the driver's lock."""
        return f"{self.type}/{self.generation}"


class ReplyRecorded(Record):
    """A model call was paid for; its text is in the idea's chat.jsonl.

    `asked` counts from 1: a call is asked anew where its question has changed since.
    """

    type: Literal["reply_recorded"] = "reply_recorded"
    idea_id: str
    call: str
    prompt_tokens: int
    completion_tokens: int
    tokens_estimated: bool
    latency_s: float
    role: str
    asked: int

    @property
    def key(self) -> str:
        """Once a time that a call was asked."""
        again = f"/asked{self.asked}" if self.asked > 1 else ""
        return f"{self.type}/{self.idea_id}/{self.call}{again}"


class IdeaProposed(_OnceAnIdea):
    """An idea has a proposal; idea.json, of which `idea_hash` is the hash, is written.

    Without a usable proposal there is no such file, and `idea_hash` is "". `shown` lists the ideas
    whose findings the proposer saw. `knobs` is set by the control arm alone. `changes` are the
    names of the reference's code that the proposal writes, () also in earlier versions.
    """

    type: Literal["idea_proposed"] = "idea_proposed"
    idea_id: str
    number: int
    round: int
    title: str
    parent_ids: tuple[str, ...]
    arm: Arm
    summary: str
    knobs: dict[str, KnobValue] | None
    shown: tuple[str, ...]
    idea_hash: str
    changes: tuple[str, ...] = ()


class IdeaRevised(_OnceAnIdea):
    """A look-alike went back to its proposer, and has another proposal; idea.json is that now.

    `like` is the idea that it had repeated, "" for one of another campaign.
    """

    type: Literal["idea_revised"] = "idea_revised"
    idea_id: str
    title: str
    parent_ids: tuple[str, ...]
    summary: str
    idea_hash: str
    changes: tuple[str, ...]
    like: str


class IdeaAdmitted(_OnceAnIdea):
    """An idea was let in: it repeats none before it."""

    type: Literal["idea_admitted"] = "idea_admitted"
    idea_id: str


class ProposalsExhausted(Record):
    """There is nothing to propose for idea `number`, nor for any after it."""

    type: Literal["proposals_exhausted"] = "proposals_exhausted"
    number: int
    reason: str

    @property
    def key(self) -> str:
        """Once a number: ideas are proposed side by side."""
        return f"{self.type}/{self.number}"


class IdeaPlanned(_OnceAnIdea):
    """An idea has a plan: plan.json. `remark` says what was cut of it, "" for nothing."""

    type: Literal["idea_planned"] = "idea_planned"
    idea_id: str
    plan_hash: str
    remark: str


class IdeaBriefed(_OnceAnIdea):
    """All is known that code for an idea is written from. `parts` of its method may be left out,
    in this order, to see what each of them gives.
    """

    type: Literal["idea_briefed"] = "idea_briefed"
    idea_id: str
    parts: tuple[str, ...]


class AttemptWritten(Record):
    """A version of an idea's code is snapshotted. `parent` is the attempt it was made from, 0 the
    reference; `kind` is why it was made. `note` is what was said of it; None where an earlier
    version recorded it: then note.md has it. `only_knobs` are the knobs by whose values alone it
    differs from the reference, {} where anything else does; None where an earlier version recorded
    it.
    """

    type: Literal["attempt_written"] = "attempt_written"
    idea_id: str
    attempt: int
    code_hash: str
    parent: int
    kind: AttemptKind
    note_hash: str
    note: str | None = None
    only_knobs: dict[str, KnobValue] | None = None

    @property
    def key(self) -> str:
        """Once an attempt."""
        return f"{self.type}/{self.idea_id}/{self.attempt}"


class AuthorGaveUp(Record):
    """An author came to nothing where an idea goes on without; `task` is what it was asked.

    Recorded, because a driver that resumes might get an answer, and attempts would be counted
    otherwise. `attempt` is the version that is none any more, for it is another's double; 0: there
    was none.
    """

    type: Literal["author_gave_up"] = "author_gave_up"
    idea_id: str
    task: str
    reason: str
    attempt: int = 0

    @property
    def key(self) -> str:
        """Once a task."""
        return f"{self.type}/{self.idea_id}/{self.task}"


class AttemptReviewed(Record):
    """An advisor held an attempt's code against its idea; `marks` are one a judgement, 1 to 5.

    `expected` are the marks' expectations, and `lacking` names in a line what was found lacking;
    () and "" also where an earlier version recorded it.
    """

    type: Literal["attempt_reviewed"] = "attempt_reviewed"
    idea_id: str
    attempt: int
    complete: bool
    same_as_reference: bool
    marks: tuple[int, ...]
    expected: tuple[float, ...] = ()
    lacking: str = ""

    @property
    def key(self) -> str:
        """Once an attempt."""
        return f"{self.type}/{self.idea_id}/{self.attempt}"


class RunsRead(Record):
    """An analyst read what an idea measured, for the time `number`; `run` is what it asked for."""

    type: Literal["runs_read"] = "runs_read"
    idea_id: str
    number: int
    run: FurtherRun | None

    @property
    def key(self) -> str:
        """Once a reading."""
        return f"{self.type}/{self.idea_id}/{self.number}"


class TrialQueued(Record):
    """The intent to run a trial, written before it is submitted, by the driver of a generation."""

    type: Literal["trial_queued"] = "trial_queued"
    trial_id: str
    idea_id: str
    attempt: int
    stage: Stage
    seed: int
    run: int
    generation: int

    @property
    def key(self) -> str:
        """Once a run of a trial."""
        return f"{self.type}/{self.trial_id}/{self.run}"


class BatchQueued(Record):
    """The intent to submit a batch that may outlive its driver, written before it is.

    `elements` are the trials' runs, as they are arranged.
    """

    type: Literal["batch_queued"] = "batch_queued"
    batch_id: str
    generation: int
    elements: tuple[tuple[RunId, ...], ...]

    @property
    def key(self) -> str:
        """Once a batch."""
        return f"{self.type}/{self.batch_id}"


class TrialStarted(Record):
    """The trial left the queue."""

    type: Literal["trial_started"] = "trial_started"
    trial_id: str
    run: int
    generation: int

    @property
    def key(self) -> str:
        """Once a run of a trial and a driver: a stopped run is started again on resume."""
        return f"{self.type}/{self.trial_id}/{self.run}/{self.generation}"


class TrialEnded(Record):
    """The trial's report was read from its result file; `at`: when, by the driver's clock, in
    seconds since the epoch (0: an earlier version recorded it).
    """

    type: Literal["trial_ended"] = "trial_ended"
    idea_id: str
    report: TrialReport
    at: float = 0.0

    @property
    def key(self) -> str:
        """Once a run of a trial."""
        return f"{self.type}/{self.report.trial_id}/{self.report.run}"


class SeedsDecided(Record):
    """After `seeds` seeds of an attempt it was decided whether more are run, and why.

    `given_up`: no more are run because others are likelier to pay, and not as enough is known.
    """

    type: Literal["seeds_decided"] = "seeds_decided"
    idea_id: str
    attempt: int
    seeds: int
    more: int
    reason: str
    given_up: bool

    @property
    def key(self) -> str:
        """Once a number of seeds of an attempt."""
        return f"{self.type}/{self.idea_id}/{self.attempt}/{self.seeds}"


class BudgetDecided(Record):
    """After its trial at a step, a budget below the full one, an attempt goes on or is left.

    `value` is the primary metric's there, by which it was ranked and nothing else is decided.
    """

    type: Literal["budget_decided"] = "budget_decided"
    idea_id: str
    attempt: int
    budget: str
    value: float
    goes_on: bool
    reason: str

    @property
    def key(self) -> str:
        """Once a step of an attempt."""
        return f"{self.type}/{self.idea_id}/{self.attempt}/{self.budget}"


class SplitSpent(_OnceAnIdea):
    """An idea's attempt is let to the test split, for the first and only time, with these seeds.

    The baseline, which confirmations are compared with, is let to it before any idea.
    """

    type: Literal["split_spent"] = "split_spent"
    idea_id: str
    attempt: int
    seeds: tuple[int, ...]


class IdeasJudged(Record):
    """Findings were looked at when `ended` ideas had ended, and `improved` are to be confirmed.

    `last`: no further idea comes under the driver of then.
    """

    type: Literal["ideas_judged"] = "ideas_judged"
    ended: int
    improved: tuple[str, ...]
    last: bool

    @property
    def key(self) -> str:
        """Once a number of ideas that have ended, and once more at the last."""
        return f"{self.type}/{self.ended}" + ("/last" if self.last else "")


class ConfirmationSetAside(Record):
    """An idea cannot be confirmed by this driver; the next one tries again."""

    type: Literal["confirmation_set_aside"] = "confirmation_set_aside"
    idea_id: str
    generation: int
    reason: str

    @property
    def key(self) -> str:
        """Once an idea and a driver."""
        return f"{self.type}/{self.idea_id}/{self.generation}"


class IdeaSetAside(Record):
    """An idea waits for the next driver: the machine failed a trial of it too often for this one,
    or (`trial_id` is "") what lies in its folder is not what was recorded.
    """

    type: Literal["idea_set_aside"] = "idea_set_aside"
    idea_id: str
    generation: int
    trial_id: str
    reason: str

    @property
    def key(self) -> str:
        """Once an idea and a driver."""
        return f"{self.type}/{self.idea_id}/{self.generation}"


class IdeaEnded(_OnceAnIdea):
    """An idea came to its end. `attempt` is the version whose trials stand, if any ran.

    `like` is the idea of this campaign that a rejected one looks like. `vetted`: it was let in,
    and set aside for what was found of it afterwards.
    """

    type: Literal["idea_ended"] = "idea_ended"
    idea_id: str
    status: Literal["scored", "failed", "rejected"]
    reason: str | None
    attempt: int | None
    like: str | None = None
    vetted: bool = False


class ResultsCompacted(Record):
    """The results of so many trials, in all, are in parts now, and their own files are gone."""

    type: Literal["results_compacted"] = "results_compacted"
    trials: int

    @property
    def key(self) -> str:
        """Once a number of trials."""
        return f"{self.type}/{self.trials}"


class NoteTaken(Record):
    """Something people should know, such as a playbook that is exhausted."""

    type: Literal["note_taken"] = "note_taken"
    name: str
    text: str

    @property
    def key(self) -> str:
        """Once a name."""
        return f"{self.type}/{self.name}"


class TamperingFound(Record):
    """Files of the run directory were not what was recorded, and were restored from their copies.

    `changed` names them within the run directory; `suspects` are the ideas whose trials ran
    without a sandbox since they were seen whole: one of them may have done it.
    """

    type: Literal["tampering_found"] = "tampering_found"
    number: int
    changed: tuple[str, ...]
    suspects: tuple[str, ...]

    @property
    def key(self) -> str:
        """Each is an event of its own."""
        return f"{self.type}/{self.number}"


class PlaneStarted(Record):
    """Models are served from now on. `gpus`: all that the engines hold, on all nodes together.

    `time`: seconds since the epoch when it began to hold them, which is before it is ready.
    """

    type: Literal["plane_started"] = "plane_started"
    generation: int
    nodes: int
    gpus: int
    models: tuple[str, ...]
    time: float

    @property
    def key(self) -> str:
        """Once a generation of the driver's lock."""
        return f"{self.type}/{self.generation}"


class PlaneStopped(Record):
    """Models are served no longer; a plane that was killed leaves none of these."""

    type: Literal["plane_stopped"] = "plane_stopped"
    generation: int
    time: float

    @property
    def key(self) -> str:
        """Once a generation of the driver's lock."""
        return f"{self.type}/{self.generation}"


class DriverStopped(Record):
    """The driver ended before the campaign did. `lets_go`: what the scheduler has goes on."""

    type: Literal["driver_stopped"] = "driver_stopped"
    generation: int
    reason: str
    failed: bool
    lets_go: bool

    @property
    def key(self) -> str:
        """Once a generation of the driver's lock."""
        return f"{self.type}/{self.generation}"


class CampaignEnded(Record):
    """The campaign is finished."""

    type: Literal["campaign_ended"] = "campaign_ended"

    @property
    def key(self) -> str:
        """Once a campaign."""
        return self.type


Event = Annotated[
    CampaignStarted
    | DriverStarted
    | ReplyRecorded
    | IdeaProposed
    | IdeaRevised
    | IdeaAdmitted
    | ProposalsExhausted
    | IdeaPlanned
    | IdeaBriefed
    | AttemptWritten
    | AuthorGaveUp
    | AttemptReviewed
    | RunsRead
    | TrialQueued
    | BatchQueued
    | TrialStarted
    | TrialEnded
    | BudgetDecided
    | SeedsDecided
    | IdeasJudged
    | SplitSpent
    | ConfirmationSetAside
    | IdeaSetAside
    | IdeaEnded
    | ResultsCompacted
    | NoteTaken
    | TamperingFound
    | PlaneStarted
    | PlaneStopped
    | DriverStopped
    | CampaignEnded,
    Field(discriminator="type"),
]
