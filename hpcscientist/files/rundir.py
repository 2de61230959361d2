"""The run directory: the protocol between the driver, the workers and the reader.

One class knows its paths; nobody else joins a name to the run directory.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class TrialPaths:
    """The paths of one trial. `out` is written by the candidate, all else by us."""

    root: Path

    @property
    def spec(self) -> Path:
        """What to run; written by the driver before submission."""
        return self.root / "spec.json"

    @property
    def out(self) -> Path:
        """The candidate's own folder."""
        return self.root / "out"

    @property
    def worker(self) -> Path:
        """Host, process id and start time of the worker that runs the trial."""
        return self.root / "worker.json"

    @property
    def log(self) -> Path:
        """The candidate's stdout and stderr, bounded, as the worker saw them."""
        return self.root / "log"

    @property
    def result(self) -> Path:
        """The result; its existence means the trial has ended."""
        return self.root / "result.arrow"


@dataclass(frozen=True, slots=True)
class IdeaPaths:
    """The paths of one idea."""

    root: Path

    @property
    def idea(self) -> Path:
        """The idea's record with its lineage."""
        return self.root / "idea.json"

    @property
    def chat(self) -> Path:
        """Every model call made for this idea."""
        return self.root / "chat.jsonl"

    @property
    def notes(self) -> Path:
        """The experimental journal, for people."""
        return self.root / "notes.md"

    def attempt(self, number: int) -> Path:
        """The folder of one version of the idea's code."""
        return self.root / "attempts" / str(number)

    def code(self, number: int) -> Path:
        """The snapshot of the code of one attempt."""
        return self.attempt(number) / "code"


@dataclass(frozen=True, slots=True)
class RunPaths:
    """The paths of a campaign's run directory."""

    root: Path

    @property
    def campaign(self) -> Path:
        """The frozen configuration; a folder without it is no run directory."""
        return self.root / "campaign.toml"

    @property
    def journal(self) -> Path:
        """The append-only journal; the campaign's state is a fold over it."""
        return self.root / "journal.jsonl"

    @property
    def recipe(self) -> Path:
        """The recipe as it was at launch."""
        return self.root / "recipe"

    @property
    def results(self) -> Path:
        """Compacted results."""
        return self.root / "results"

    @property
    def trials(self) -> Path:
        """The folder of all trials."""
        return self.root / "trials"

    @property
    def lock(self) -> Path:
        """Who drives the campaign."""
        return self.root / ".driver"

    @property
    def cancel_request(self) -> Path:
        """Its existence asks a driver on another host to stop."""
        return self.root / ".driver" / "cancel"

    @property
    def submission(self) -> Path:
        """Where submitit keeps its pickles; emptied as trials end."""
        return self.root / ".submitit"

    def idea(self, idea_id: str) -> IdeaPaths:
        """The paths of one idea."""
        return IdeaPaths(self.root / "ideas" / idea_id)

    def trial(self, trial_id: str) -> TrialPaths:
        """The paths of one trial."""
        return TrialPaths(self.trials / trial_id)
