"""What passes between the parts: a case, a try of it, and what came of both."""

from __future__ import annotations

from dataclasses import dataclass, field

PASSED = "passed"
FAILED = "failed"
HUNG = "hung"
SKIPPED = "could not run"
NO_GPU = "no GPU"
NOT_RUN = "not run"
GOOD = (PASSED, NO_GPU)

# A test that only a GPU lets run is skipped with a reason that begins so. It alone is no fault.
NO_GPU_REASON = "no GPU"


def outcome_of_skip(reason: str) -> str:
    """Tell a test that lacks a GPU from one that lacks what the suite should have brought."""
    return NO_GPU if reason.startswith(NO_GPU_REASON) else SKIPPED


@dataclass(frozen=True, slots=True)
class Case:
    """A test: pytest's name for it, its file, the markers of ours that it has."""

    name: str
    file: str
    markers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Try:
    """One try of a case. `reason`: one line, empty where it passed; `log`: a folder."""

    outcome: str
    seconds: float = 0.0
    reason: str = ""
    log: str = ""

    @property
    def good(self) -> bool:
        """Whether nothing needs to be tried again."""
        return self.outcome in GOOD


@dataclass(frozen=True, slots=True)
class Result:
    """A case with its one or two tries."""

    suite: str
    case: str
    tries: tuple[Try, ...] = field(default_factory=tuple)

    @property
    def good(self) -> bool:
        """Whether the last try was good."""
        return bool(self.tries) and self.tries[-1].good

    @property
    def seconds(self) -> float:
        """How long its tries took together."""
        return sum(each.seconds for each in self.tries)
