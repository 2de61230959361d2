"""The journal's events. Every event has a `key`; an event whose key is known is not repeated."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from hpcscientist.records.base import Record
from hpcscientist.records.trial import Stage, TrialReport


class CampaignStarted(Record):
    """The first event of every journal."""

    type: Literal["campaign_started"] = "campaign_started"
    campaign_id: str

    @property
    def key(self) -> str:
        """Once a campaign."""
        return self.type


class DriverStarted(Record):
    """A driver took the campaign up, at launch or on resume."""

    type: Literal["driver_started"] = "driver_started"
    generation: int
    host: str
    pid: int

    @property
    def key(self) -> str:
        """Once a generation of the driver's lock."""
        return f"{self.type}/{self.generation}"


class ReplyRecorded(Record):
    """A model call was paid for; its text is in the idea's chat.jsonl."""

    type: Literal["reply_recorded"] = "reply_recorded"
    idea_id: str
    call: str
    prompt_tokens: int
    completion_tokens: int
    tokens_estimated: bool
    latency_s: float

    @property
    def key(self) -> str:
        """Once a call."""
        return f"{self.type}/{self.idea_id}/{self.call}"


class IdeaProposed(Record):
    """An idea has a proposal; idea.json is written."""

    type: Literal["idea_proposed"] = "idea_proposed"
    idea_id: str
    number: int
    round: int
    title: str
    parent_ids: tuple[str, ...]

    @property
    def key(self) -> str:
        """Once an idea."""
        return f"{self.type}/{self.idea_id}"


class AttemptWritten(Record):
    """A version of an idea's code is snapshotted."""

    type: Literal["attempt_written"] = "attempt_written"
    idea_id: str
    attempt: int
    code_hash: str

    @property
    def key(self) -> str:
        """Once an attempt."""
        return f"{self.type}/{self.idea_id}/{self.attempt}"


class TrialQueued(Record):
    """The intent to run a trial, written before it is submitted."""

    type: Literal["trial_queued"] = "trial_queued"
    trial_id: str
    idea_id: str
    attempt: int
    stage: Stage
    seed: int
    run: int

    @property
    def key(self) -> str:
        """Once a run of a trial."""
        return f"{self.type}/{self.trial_id}/{self.run}"


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
    """The trial's report was read from its result file."""

    type: Literal["trial_ended"] = "trial_ended"
    idea_id: str
    report: TrialReport

    @property
    def key(self) -> str:
        """Once a run of a trial."""
        return f"{self.type}/{self.report.trial_id}/{self.report.run}"


class IdeaEnded(Record):
    """An idea came to its end. `attempt` is the version whose trials stand, if any ran."""

    type: Literal["idea_ended"] = "idea_ended"
    idea_id: str
    status: Literal["scored", "failed", "rejected"]
    reason: str | None
    attempt: int | None

    @property
    def key(self) -> str:
        """Once an idea."""
        return f"{self.type}/{self.idea_id}"


class NoteTaken(Record):
    """Something people should know, such as a playbook that is exhausted."""

    type: Literal["note_taken"] = "note_taken"
    name: str
    text: str

    @property
    def key(self) -> str:
        """Once a name."""
        return f"{self.type}/{self.name}"


class DriverStopped(Record):
    """The driver ended before the campaign did."""

    type: Literal["driver_stopped"] = "driver_stopped"
    generation: int
    reason: str
    failed: bool

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
    | AttemptWritten
    | TrialQueued
    | TrialStarted
    | TrialEnded
    | IdeaEnded
    | NoteTaken
    | DriverStopped
    | CampaignEnded,
    Field(discriminator="type"),
]
