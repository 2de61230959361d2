"""`hpcsci paper`: selects a campaign's papers, then draws, writes, checks and typesets each."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from hpcscientist.campaign.proposals.campaign_library import open_library
from hpcscientist.config.settings import Settings
from hpcscientist.errors import CampaignBusy, RunDirectoryError, UsageError
from hpcscientist.files.lock import FolderLocked, Lock
from hpcscientist.files.rundir import PaperPaths, RunPaths
from hpcscientist.files.text import one_line
from hpcscientist.history import frozen
from hpcscientist.history.frozen import CampaignConfig
from hpcscientist.history.status import read_state
from hpcscientist.judgement.summary import read_rows
from hpcscientist.models.role_client import UNANSWERED
from hpcscientist.papers import venue as venues
from hpcscientist.papers.check import check
from hpcscientist.papers.facts.collect import collect
from hpcscientist.papers.figures.data import FigureData as Drawable
from hpcscientist.papers.figures.data import tables
from hpcscientist.papers.figures.drawn import captions, draw_all
from hpcscientist.papers.typesetting.builder import Builder, Built
from hpcscientist.papers.typesetting.document import Drawn, Records
from hpcscientist.papers.typesetting.engine import EngineLimits, missing_for_papers
from hpcscientist.papers.venue import Venue
from hpcscientist.papers.writing.brief import brief_of, subjects
from hpcscientist.papers.writing.drafts import FigureOffer
from hpcscientist.papers.writing.paper import (
    PaperCampaign,
    PaperLayout,
    PaperWriters,
    WritingCosts,
    open_writers,
)
from hpcscientist.papers.writing.writer import WrittenManuscript
from hpcscientist.ports import Library, Tell
from hpcscientist.recipe.folder_copy import LaunchedRecipe
from hpcscientist.records.idea import CAMPAIGN_ID
from hpcscientist.records.literature import Paper
from hpcscientist.records.manuscript import Defect, Manuscript
from hpcscientist.results.aggregate import overview

# Opens the literature library of a campaign, which its papers cite.


class NoLibrary:
    """An empty library, for a campaign that had none."""

    def paper(self, paper_id: str) -> Paper | None:
        """Return None."""
        return None


def library_of(paths: RunPaths, config: CampaignConfig) -> Library | None:
    """Open a campaign's library, offline; return None if it had none.

    A library inside the run directory is preferred, since the run directory may have been moved.
    Raises LibraryError.
    """
    if not config.library:
        return None
    own = paths.library
    return open_library(own if own.is_dir() else Path(config.library))


@dataclass(frozen=True, slots=True)
class PaperOptions:
    """What the user asks for.

    `ideas` () means one paper for each confirmed improvement, and one on the campaign. `venue` is a
    name or a folder; `pages` None is the venue's limit; `model` "" is the campaign's own model;
    `out` None is `papers/` in the run directory.
    """

    folder: Path  # the working directory, which venues and models are relative to
    settings: Settings
    ideas: tuple[str, ...] = ()
    venue: str = venues.DEFAULT
    model: str = ""
    pages: int | None = None
    out: Path | None = None
    limits: EngineLimits = field(default_factory=EngineLimits)


@dataclass(frozen=True, slots=True)
class FinishedPaper:
    """One finished paper. `written` says what it took; `defects` are those that remain."""

    subject: str
    title: str
    built: Built
    written: WrittenManuscript
    tally: WritingCosts
    defects: tuple[Defect, ...]

    @property
    def is_sound(self) -> bool:
        """Return whether the PDF exists, has no defects, and all of its numbers are traced."""
        return self.built.is_sound and not self.defects


@dataclass(frozen=True, slots=True)
class Unwritten:
    """A paper that was not written, because the model gave no outline; `reason` is one line."""

    subject: str
    reason: str


@dataclass(frozen=True, slots=True)
class PlannedPaper:
    """A paper that would be written, as `--dry-run` shows it."""

    subject: str
    title: str
    folder: Path
    sections: tuple[str, ...]
    figures: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Studio:
    """A campaign opened for papers: its records, the data of its figures, and its recipe."""

    records: Records
    drawable: Drawable
    campaign: PaperCampaign
    venue: Venue
    out: PaperPaths

    @property
    def plot(self) -> Path | None:
        """The recipe's own plot.py, or None."""
        own = self.campaign.recipe.folder / "plot.py"
        return own if own.is_file() else None


def make(paths: RunPaths, wanted: PaperOptions, tell: Tell) -> Iterator[FinishedPaper | Unwritten]:
    """Write and build the requested papers, one after another.

    If the model gives no usable reply for one paper, the others are still written. After a kill,
    the same call resumes: recorded model replies are reused. The campaign itself is not changed.
    Raises UsageError, RunDirectoryError, CampaignBusy, ModelError, LibraryError, OSError.
    """
    studio = open_studio(paths, wanted)
    roles = open_writers(studio.campaign, wanted.settings, wanted.model)
    for subject in subjects(studio.records.sheet, wanted.ideas):
        folder = studio.out.root / subject
        folder.mkdir(parents=True, exist_ok=True)
        with _held(folder):
            tally = WritingCosts()
            desk = PaperWriters(
                studio.campaign, roles, studio.out, wanted.settings, tell=tell, tally=tally
            )
            try:
                found: FinishedPaper | Unwritten = _made(studio, desk, wanted, subject, tell)
            except UNANSWERED as error:
                found = Unwritten(subject, one_line(str(error)))
            yield found


def plan(paths: RunPaths, wanted: PaperOptions) -> tuple[list[PlannedPaper], tuple[str, ...]]:
    """Return the papers that `make` would write, and what this machine lacks. Writes nothing.

    Raises as `make` does.
    """
    studio = open_studio(paths, wanted)
    open_writers(studio.campaign, wanted.settings, wanted.model)
    found = []
    for subject in subjects(studio.records.sheet, wanted.ideas):
        brief = brief_of(paths, studio.campaign.recipe, studio.records.sheet, subject)
        there = tuple(table.id for table in tables(studio.drawable, _ideas(subject)))
        titles = tuple(section.title for section in studio.venue.sections)
        folder = studio.out.root / subject
        found.append(PlannedPaper(subject, brief.title, folder, titles, there))
    return found, missing_for_papers()


def open_studio(paths: RunPaths, wanted: PaperOptions) -> Studio:
    """Open a campaign for papers. Raises RunDirectoryError where its records disagree."""
    venue = venues.load(wanted.venue, wanted.folder)
    if wanted.pages is not None:
        venue = replace(venue, pages=wanted.pages)
    state = read_state(paths)
    config = frozen.read(paths)
    collected = collect(paths)
    if collected.problems:
        raise RunDirectoryError(
            f"{paths.root}: {len(collected.problems)} records disagree: {collected.problems[0]}; "
            "restore what was changed: papers are made of whole records only"
        )
    recipe = LaunchedRecipe(paths.recipe, config.recipe_hash).load()
    metric = recipe.spec.primary
    if metric.is_self_reported:
        raise UsageError(
            f"{paths.root}: its metrics are self-reported, so it has no claims to write up; import "
            "its task with a scorer of your own (hpcsci recipe import … --scorer FILE)"
        )
    library = library_of(paths, config)
    runs = {trial.trial_id: trial.run for trial in state.trials.values()}
    return Studio(
        records=Records(paths, config, state, collected.sheet, library),
        drawable=Drawable(
            paths=paths,
            state=state,
            rows=read_rows(paths).rows,
            values=overview(paths, metric.name, runs),
            metric=metric.name,
            minimum_effect=metric.minimum_effect,
        ),
        campaign=PaperCampaign(paths, config, recipe, collected.sheet, library),
        venue=venue,
        out=PaperPaths(wanted.out) if wanted.out else paths.papers,
    )


def _made(
    studio: Studio, desk: PaperWriters, wanted: PaperOptions, subject: str, tell: Tell
) -> FinishedPaper:
    records, folder = studio.records, studio.out.root / subject
    figures = draw_all(
        studio.drawable,
        _ideas(subject),
        folder / "figures",
        studio.venue.width_in,
        studio.plot,
        tell,
    )
    builder = Builder(records, studio.venue, figures, folder, wanted.limits)

    def wrong(manuscript: Manuscript) -> Sequence[Defect]:
        return check(manuscript, records.sheet, records.library or NoLibrary())

    kept: list[tuple[Manuscript, Built]] = []

    def built_of(manuscript: Manuscript) -> Built:
        if not kept or kept[-1][0] != manuscript:
            kept.append((manuscript, builder.build(manuscript)))
        return kept[-1][1]

    async def build(manuscript: Manuscript) -> Sequence[Defect]:
        return built_of(manuscript).defects

    layout = PaperLayout(studio.venue.sections, studio.venue.pages, _offers(figures))
    written = asyncio.run(desk.write(subject, layout, wrong, build))
    built = built_of(written.manuscript)
    left = (*written.defects, *built.defects)
    return FinishedPaper(subject, written.manuscript.title, built, written, desk.tally, left)


def _ideas(subject: str) -> tuple[str, ...]:
    return () if subject == CAMPAIGN_ID else (subject,)


def _offers(figures: dict[str, Drawn]) -> tuple[FigureOffer, ...]:
    return tuple(
        FigureOffer(drawn.id, drawn.title, captions(drawn)[0]) for drawn in figures.values()
    )


@contextmanager
def _held(folder: Path) -> Iterator[None]:
    """Lock a paper's folder against other writers. Raises CampaignBusy, RunDirectoryError."""
    try:
        lock = Lock(folder / ".writer")
    except FolderLocked as holder:
        raise CampaignBusy(
            f"{folder}: {holder} writes it already; wait for that, or give another --out"
        ) from holder
    except OSError as error:
        raise RunDirectoryError(f"{folder}: cannot be written: {error.strerror}") from error
    try:
        yield
    finally:
        lock.release()
