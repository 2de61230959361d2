"""The objects that one driver holds while it runs a campaign."""

from __future__ import annotations

from dataclasses import dataclass

from hpcscientist.files.rundir import RunPaths
from hpcscientist.history.journal import Journal
from hpcscientist.history.state import CampaignState
from hpcscientist.ports import Embedder, Tell
from hpcscientist.records.events import NoteTaken


@dataclass(frozen=True, slots=True)
class Session:
    """One driver's run directory, open journal, state and lock generation.

    `job_id`: the job whose allocation the driver runs in, "" for none. `embedder`: the one that the
    launch has already opened in this process.
    """

    paths: RunPaths
    journal: Journal
    state: CampaignState
    generation: int
    job_id: str = ""
    embedder: Embedder | None = None

    def teller(self, name: str) -> Tell:
        """Return a function that records notes under a name; only the first one is kept."""

        def tell(text: str) -> None:
            self.note(name, text)

        return tell

    def note(self, name: str, text: str) -> None:
        """Record a note for people, once for each name."""
        self.journal.record(NoteTaken(name=name, text=text))
