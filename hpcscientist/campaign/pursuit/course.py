"""How far an idea has come on its way from a proposal to a measured run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hpcscientist.campaign.pursuit.tryout import Tried
from hpcscientist.records.authoring import Brief, GaveUp
from hpcscientist.records.experiment import CodeReview
from hpcscientist.records.idea import AttemptKind, Idea
from hpcscientist.records.outcome import IdeaFailed, MachineFailed

if TYPE_CHECKING:
    from hpcscientist.campaign.pursuit.diary import Diary


@dataclass(slots=True)
class Course:
    """What was tried for an idea so far, all its runs. `latest` numbers its attempts, `files` are
    those of the ones that were written, `seen` the hashes of these.
    """

    brief: Brief
    diary: Diary
    files: dict[int, dict[str, str]] = field(default_factory=dict)
    latest: int = 0
    seen: list[str] = field(default_factory=list)

    @property
    def last(self) -> int | None:
        """The latest attempt that was written; None if none was."""
        return max(self.files, default=None)

    @property
    def idea(self) -> Idea:
        """The idea itself."""
        return self.brief.idea


@dataclass(slots=True)
class Leg:
    """One run of a course: `run` 0 is the idea itself, each further run counts from 1.

    `kind` and `parent` are those of the next version: why it is made, and from which attempt (0:
    the reference). `ready` is the last attempt whose pilot was scored though a reviewer found it
    lacking: better than none.
    """

    run: int
    kind: AttemptKind
    parent: int = 0
    debugged: int = 0
    advised: int = 0
    diagnoses: list[str] = field(default_factory=list)
    failed: IdeaFailed | None = None
    ready: Tried | None = None
    reviews: dict[int, CodeReview] = field(default_factory=dict)  # by attempt


@dataclass(frozen=True, slots=True)
class Arrived:
    """A leg whose attempt was scored with every seed, and the review of that attempt, if any."""

    tried: Tried
    review: CodeReview | None


@dataclass(frozen=True, slots=True)
class Failed:
    """A leg that came to nothing: the last failure of a trial, what else is to be said."""

    failed: IdeaFailed | None
    gave_up: GaveUp | None

    def reason(self, attempts_made: int) -> str:
        """Say why, in one line."""
        parts = []
        if self.failed is not None:
            parts.append(f"{self.failed.failure.value}: {self.failed.detail}")
        if self.gave_up is not None:
            parts.append(f"given up: {self.gave_up.reason}")
        elif attempts_made > 1:
            parts.append(f"after {attempts_made} attempts")
        return "; ".join(parts)


@dataclass(frozen=True, slots=True)
class Dropped:
    """A leg that is not worth its seeds: its last pilot is hopeless, or it does nothing."""

    number: int
    why: str


@dataclass(frozen=True, slots=True)
class Spoilt:
    """A leg that the machine spoilt again and again."""

    number: int
    outcome: MachineFailed
    trial_id: str


End = Arrived | Failed | Dropped | Spoilt
