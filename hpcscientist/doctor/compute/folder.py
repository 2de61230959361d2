"""The folder that the doctor and a compute node share; one class knows its paths."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hpcscientist.files.rundir import TrialPaths


@dataclass(frozen=True, slots=True)
class DoctorFolder:
    """A temporary folder on the file system where campaigns would lie."""

    root: Path

    @property
    def request(self) -> Path:
        """What the node is asked; written here."""
        return self.root / "request.json"

    @property
    def report(self) -> Path:
        """What the node found; its existence means that it is done."""
        return self.root / "report.json"

    @property
    def taken(self) -> Path:
        """A file made here, which the node tries to make exclusively."""
        return self.root / "taken"

    @property
    def script(self) -> Path:
        """What `sbatch` was given."""
        return self.root / "job.sh"

    @property
    def data(self) -> Path:
        """The rehearsal's public data."""
        return self.root / "data"

    @property
    def labels(self) -> Path:
        """What the rehearsal's candidate must not see."""
        return self.root / "labels"

    def rehearsal(self, network: str) -> TrialPaths:
        """The folder of one trial of the rehearsal."""
        return TrialPaths(self.root / f"rehearsal-{network}")

    def said(self) -> str:
        """Return the end of what the job printed; empty where there is nothing (yet)."""
        lines: list[str] = []
        for log in sorted(self.root.glob("*.out")):
            lines += log.read_text(encoding="utf-8", errors="replace").splitlines()
        return next((line.strip() for line in reversed(lines) if line.strip()), "")
