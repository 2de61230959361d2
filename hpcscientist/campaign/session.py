"""One driver's hold on a campaign."""

from __future__ import annotations

from dataclasses import dataclass

from hpcscientist.files.rundir import RunPaths
from hpcscientist.history.journal import Journal
from hpcscientist.history.state import CampaignState
from hpcscientist.ports import Embedder, Tell
from hpcscientist.records.events import NoteTaken


@dataclass(frozen=True, slots=True)
class Session:
    """One driver's hold on a run directory: its journal, the fold, the lock's generation.

    `job_id`: the job in whose allocation the driver runs, "" for none. `embedder`: what its launch
    opened already, in this very process.
    """

    paths: RunPaths
    journal: Journal
    state: CampaignState
    generation: int
    job_id: str = ""
    embedder: Embedder | None = None

    def teller(self, name: str) -> Tell:
        """Return what records notes under a name, the first of them alone."""

        def tell(text: str) -> None:
            self.note(name, text)

        return tell

    def note(self, name: str, text: str) -> None:
        """Record what people should know, once a name."""
        self.journal.record(NoteTaken(name=name, text=text))
