"""The paths in the temporary folder that the doctor and a compute node share."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hpcscientist.files.rundir import TrialPaths


@dataclass(frozen=True, slots=True)
class DoctorFolder:
    """A temporary folder on the file system where run directories would be."""

    root: Path

    @property
    def request(self) -> Path:
        """The request to the node; the doctor writes it."""
        return self.root / "request.json"

    @property
    def report(self) -> Path:
        """The node's report; it exists once the node is done."""
        return self.root / "report.json"

    @property
    def taken(self) -> Path:
        """A file that the doctor creates, and that the node then tries to create exclusively."""
        return self.root / "taken"

    @property
    def script(self) -> Path:
        """The script for `sbatch`."""
        return self.root / "job.sh"

    @property
    def data(self) -> Path:
        """The rehearsal's public data."""
        return self.root / "data"

    @property
    def labels(self) -> Path:
        """The rehearsal's labels, which its candidate must not see."""
        return self.root / "labels"

    def rehearsal(self, network: str) -> TrialPaths:
        """Return the folder of one trial of the rehearsal."""
        return TrialPaths(self.root / f"rehearsal-{network}")

    def said(self) -> str:
        """Return the last line that the job printed; "" if there is none (yet)."""
        lines: list[str] = []
        for log in sorted(self.root.glob("*.out")):
            lines += log.read_text(encoding="utf-8", errors="replace").splitlines()
        return next((line.strip() for line in reversed(lines) if line.strip()), "")
