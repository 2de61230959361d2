"""The journal's events. Every event has a `key`; an event whose key is known is not recorded again.

Events carry the data that decisions need, or the hash of the file with it, so that a driver that
resumes can use them, also one of a later version. `history.upcasting` reads earlier versions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from hpcscientist.records.base import Record
from hpcscientist.records.experiment import FurtherRun
from hpcscientist.records.idea import Arm, AttemptKind, KnobValue
from hpcscientist.records.trial import RunId, Stage, TrialReport


class _OnceAnIdea(Record):
    """An event that occurs once per idea."""

    if TYPE_CHECKING:  # each event declares these fields, in its own order
        type: str
        idea_id: str

    @property
    def key(self) -> str:
        """Unique per idea."""
        return f"{self.type}/{self.idea_id}"


class CampaignStarted(Record):
    """The first event of every journal."""

    type: Literal["campaign_started"] = "campaign_started"
    campaign_id: str

    @property
    def key(self) -> str:
        """Unique per campaign."""
        return self.type


class DriverStarted(Record):
    """A driver started, at launch or on resume: its program, and where it runs."""

    type: Literal["driver_started"] = "driver_started"
    generation: int
    host: str
    pid: int
    package_version: str
    package_hash: str
    python: str

    @property
    def key(self) -> str:
        """Unique per generation of the driver's lock."""
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
        """Unique per call and `asked`."""
        again = f"/asked{self.asked}" if self.asked > 1 else ""
        return f"{self.type}/{self.idea_id}/{self.call}{again}"


class IdeaProposed(_OnceAnIdea):
    """An idea has a proposal. idea.json is written, and `idea_hash` is its hash.

    Without a usable proposal there is no such file, and `idea_hash` is "". `shown` lists the ideas
    whose findings the proposer saw. Only the control arm sets `knobs`. `changes` are the names of
    the reference code that the proposal mentions; also () in events of earlier versions.
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
    """The proposer replaced a proposal that repeated another idea; idea.json holds the new one.

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
    """An idea was admitted: it does not repeat an earlier one."""

    type: Literal["idea_admitted"] = "idea_admitted"
    idea_id: str


class ProposalsExhausted(Record):
    """There is no proposal for idea `number`, nor for any later idea."""

    type: Literal["proposals_exhausted"] = "proposals_exhausted"
    number: int
    reason: str

    @property
    def key(self) -> str:
        """Unique per number: ideas are proposed concurrently."""
        return f"{self.type}/{self.number}"


class IdeaPlanned(_OnceAnIdea):
    """An idea has a plan, plan.json. `remark` says what was cut from it, "" if nothing was."""

    type: Literal["idea_planned"] = "idea_planned"
    idea_id: str
    plan_hash: str
    remark: str


class IdeaBriefed(_OnceAnIdea):
    """Everything that code for an idea is written from is known. `parts` are the parts of its
    method to ablate, in this order.
    """

    type: Literal["idea_briefed"] = "idea_briefed"
    idea_id: str
    parts: tuple[str, ...]


class AttemptWritten(Record):
    """A version of an idea's code was saved. `parent` is the attempt it was made from, 0 for the
    reference; `kind` says why it was made. `note` is the author's note; None in events of earlier
    versions, where note.md has it. `only_knobs` holds the values of knobs if nothing else differs
    from the reference, else {}; None in events of earlier versions.
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
        """Unique per attempt."""
        return f"{self.type}/{self.idea_id}/{self.attempt}"


class AuthorGaveUp(Record):
    """An author gave up `task`, and the idea continues without it.

    It is recorded because a driver that resumes could ask again, get an answer, and then count
    attempts differently. `attempt` is a version that no longer counts, since it duplicates
    another; 0 if there is none.
    """

    type: Literal["author_gave_up"] = "author_gave_up"
    idea_id: str
    task: str
    reason: str
    attempt: int = 0

    @property
    def key(self) -> str:
        """Unique per task of an idea."""
        return f"{self.type}/{self.idea_id}/{self.task}"


class AttemptReviewed(Record):
    """An advisor compared an attempt's code with its idea. `marks`: one per judgement, 1 to 5.

    `expected` are the marks' expected values. `lacking` names in one line what is lacking. They
    are also () and "" in events of earlier versions.
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
        """Unique per attempt."""
        return f"{self.type}/{self.idea_id}/{self.attempt}"


class RunsRead(Record):
    """An analyst read an idea's results. `number` counts readings; `run` is the requested run."""

    type: Literal["runs_read"] = "runs_read"
    idea_id: str
    number: int
    run: FurtherRun | None

    @property
    def key(self) -> str:
        """Unique per reading."""
        return f"{self.type}/{self.idea_id}/{self.number}"


class TrialQueued(Record):
    """The intent to run a trial, recorded before submission by the driver of `generation`."""

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
        """Unique per run of a trial."""
        return f"{self.type}/{self.trial_id}/{self.run}"


class BatchQueued(Record):
    """The intent to submit a batch that may outlive its driver, recorded before submission.

    `elements` are the runs of the batch's elements; the runs of one element are sequential.
    """

    type: Literal["batch_queued"] = "batch_queued"
    batch_id: str
    generation: int
    elements: tuple[tuple[RunId, ...], ...]

    @property
    def key(self) -> str:
        """Unique per batch."""
        return f"{self.type}/{self.batch_id}"


class TrialStarted(Record):
    """A run of a trial left the queue."""

    type: Literal["trial_started"] = "trial_started"
    trial_id: str
    run: int
    generation: int

    @property
    def key(self) -> str:
        """Unique per run of a trial and driver: a stopped run is started again on resume."""
        return f"{self.type}/{self.trial_id}/{self.run}/{self.generation}"


class TrialEnded(Record):
    """The driver read the trial's report from its result file. `at` is the time by the driver's
    clock, in seconds since the epoch; 0 in events of earlier versions.
    """

    type: Literal["trial_ended"] = "trial_ended"
    idea_id: str
    report: TrialReport
    at: float = 0.0

    @property
    def key(self) -> str:
        """Unique per run of a trial."""
        return f"{self.type}/{self.report.trial_id}/{self.report.run}"


class SeedsDecided(Record):
    """The decision, after `seeds` seeds of an attempt, how many more to run, and why.

    `given_up`: the attempt stops because other ideas are more promising, not because enough is
    known about it.
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
        """Unique per attempt and number of seeds."""
        return f"{self.type}/{self.idea_id}/{self.attempt}/{self.seeds}"


class BudgetDecided(Record):
    """The decision, after a trial with a step budget (below the full one), whether to continue.

    `value` is the primary metric of that trial. It only ranks attempts; nothing else uses it.
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
        """Unique per attempt and step."""
        return f"{self.type}/{self.idea_id}/{self.attempt}/{self.budget}"


class SplitSpent(_OnceAnIdea):
    """An idea's attempt gets access to the test split, once only, with these seeds.

    The baseline, which confirmations are compared with, gets access before any idea.
    """

    type: Literal["split_spent"] = "split_spent"
    idea_id: str
    attempt: int
    seeds: tuple[int, ...]


class IdeasJudged(Record):
    """Findings were computed when `ended` ideas had ended; the `improved` ones are to be confirmed.

    `last`: this driver starts no further idea.
    """

    type: Literal["ideas_judged"] = "ideas_judged"
    ended: int
    improved: tuple[str, ...]
    last: bool

    @property
    def key(self) -> str:
        """Unique per number of ended ideas and `last`."""
        return f"{self.type}/{self.ended}" + ("/last" if self.last else "")


class ConfirmationSetAside(Record):
    """This driver cannot confirm an idea; the next driver tries again."""

    type: Literal["confirmation_set_aside"] = "confirmation_set_aside"
    idea_id: str
    generation: int
    reason: str

    @property
    def key(self) -> str:
        """Unique per idea and driver."""
        return f"{self.type}/{self.idea_id}/{self.generation}"


class IdeaSetAside(Record):
    """An idea waits for the next driver, because machine failures used up a trial's retries, or
    (`trial_id` is "") because the files in its folder differ from what was recorded.
    """

    type: Literal["idea_set_aside"] = "idea_set_aside"
    idea_id: str
    generation: int
    trial_id: str
    reason: str

    @property
    def key(self) -> str:
        """Unique per idea and driver."""
        return f"{self.type}/{self.idea_id}/{self.generation}"


class IdeaEnded(_OnceAnIdea):
    """An idea ended. `attempt` is the version whose trials count, if any ran.

    `like` is the idea of this campaign that a rejected idea resembles. `vetted`: the idea was
    admitted, and rejected when it was vetted.
    """

    type: Literal["idea_ended"] = "idea_ended"
    idea_id: str
    status: Literal["scored", "failed", "rejected"]
    reason: str | None
    attempt: int | None
    like: str | None = None
    vetted: bool = False


class ResultsCompacted(Record):
    """The results of `trials` trials in total were compacted, and their own files removed."""

    type: Literal["results_compacted"] = "results_compacted"
    trials: int

    @property
    def key(self) -> str:
        """Unique per number of trials."""
        return f"{self.type}/{self.trials}"


class NoteTaken(Record):
    """A note for people, for example that a playbook is exhausted."""

    type: Literal["note_taken"] = "note_taken"
    name: str
    text: str

    @property
    def key(self) -> str:
        """Unique per name."""
        return f"{self.type}/{self.name}"


class TamperingFound(Record):
    """Files of the run directory differed from what was recorded, and were restored from copies.

    `changed` names them, relative to the run directory. `suspects` are the ideas whose trials ran
    without a sandbox since the files were last intact; any of them may have done it.
    """

    type: Literal["tampering_found"] = "tampering_found"
    number: int
    changed: tuple[str, ...]
    suspects: tuple[str, ...]

    @property
    def key(self) -> str:
        """Unique per finding."""
        return f"{self.type}/{self.number}"


class PlaneStarted(Record):
    """Models are served from now on. `gpus` counts the GPUs of all engines on all nodes.

    `time` is when the plane began to hold them, before it was ready, in seconds since the epoch.
    """

    type: Literal["plane_started"] = "plane_started"
    generation: int
    nodes: int
    gpus: int
    models: tuple[str, ...]
    time: float

    @property
    def key(self) -> str:
        """Unique per generation of the driver's lock."""
        return f"{self.type}/{self.generation}"


class PlaneStopped(Record):
    """Models are no longer served. If the plane was killed, this event is missing."""

    type: Literal["plane_stopped"] = "plane_stopped"
    generation: int
    time: float

    @property
    def key(self) -> str:
        """Unique per generation of the driver's lock."""
        return f"{self.type}/{self.generation}"


class DriverStopped(Record):
    """The driver ended before the campaign. `lets_go`: trials in the scheduler continue."""

    type: Literal["driver_stopped"] = "driver_stopped"
    generation: int
    reason: str
    failed: bool
    lets_go: bool

    @property
    def key(self) -> str:
        """Unique per generation of the driver's lock."""
        return f"{self.type}/{self.generation}"


class CampaignEnded(Record):
    """The campaign is finished."""

    type: Literal["campaign_ended"] = "campaign_ended"

    @property
    def key(self) -> str:
        """Unique per campaign."""
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
