"""What the literature says to a campaign: surveyed once, before its first idea."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pydantic import ValidationError

from hpcscientist.campaign.integrity import Integrity
from hpcscientist.errors import RunDirectoryError
from hpcscientist.files.atomic import write_text
from hpcscientist.files.handed.regular import read_regular
from hpcscientist.files.rundir import RunPaths
from hpcscientist.history.journal import Journal
from hpcscientist.recipe.schema import Topic
from hpcscientist.records.asked.proposing import Reference
from hpcscientist.records.events import NoteTaken
from hpcscientist.records.known.survey import Survey

if TYPE_CHECKING:
    from hpcscientist.literature.survey import Surveyor


@dataclass(slots=True)
class Grounding:
    """Has the survey made; `references` are the best `shown` papers that it kept."""

    paths: RunPaths
    journal: Journal
    surveyor: Surveyor
    topic: Topic
    shown: int
    integrity: Integrity
    references: tuple[Reference, ...] = field(default=())

    async def prepare(self) -> None:
        """Make the survey, or read it where it was made. Raises EndpointError."""
        survey = self._known()
        if survey is None:
            survey = await self.surveyor.survey(self.topic)
            self.paths.survey.parent.mkdir(parents=True, exist_ok=True)
            text = survey.model_dump_json(indent=2) + "\n"
            write_text(self.paths.survey, text)
            self.integrity.keep(self.paths.survey, text)
        self.journal.record(NoteTaken(name="survey", text=_statement(survey)))
        self.references = tuple(
            Reference(
                paper_id=paper.paper_id,
                title=paper.title,
                abstract=paper.abstract,
                year=paper.year,
            )
            for paper in survey.kept[: self.shown]
        )

    def _known(self) -> Survey | None:
        self.integrity.check(self.paths.survey, recorded=False)
        try:
            return Survey.model_validate_json(read_regular(self.paths.survey))
        except FileNotFoundError:
            return None
        except (OSError, ValidationError) as error:
            raise RunDirectoryError(
                f"{self.paths.survey}: is damaged; delete it, and the survey is made again from "
                "the recorded replies"
            ) from error


def _statement(survey: Survey) -> str:
    kept, found = len(survey.kept), len(survey.papers)
    text = f"survey: {len(survey.queries)} queries, {found} papers retrieved, {kept} kept"
    return "; ".join([text, *survey.notes])
