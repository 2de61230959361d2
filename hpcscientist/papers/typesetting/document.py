"""The parts of a paper before it is rendered as LaTeX, Typst or HTML."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from hpcscientist.files.rundir import RunPaths
from hpcscientist.history.frozen import CampaignConfig
from hpcscientist.history.state import CampaignState
from hpcscientist.history.status import SECONDS_PER_HOUR
from hpcscientist.papers.formulas import BadFormula, resolve
from hpcscientist.papers.typesetting.bibliography import CitedEntry, entries
from hpcscientist.papers.venue import Venue
from hpcscientist.ports import Library
from hpcscientist.records.facts import Fact, FactRef, FactSheet
from hpcscientist.records.literature import Paper
from hpcscientist.records.manuscript import (
    Citation,
    FigureRef,
    Manuscript,
    Number,
    lines,
    walk,
)
from hpcscientist.records.trial import Isolation

T = TypeVar("T")

# Printed below the title of every paper in any venue; the check of the PDF requires it.
WRITTEN_BY_SOFTWARE: Final = (
    "This paper was written by software, hpcscientist, from the records of a campaign. "
    "Each number is a link to the record that it was taken from."
)


@dataclass(frozen=True, slots=True)
class Drawn:
    """A drawn figure: `pdf` and `svg` are image files, `data` is the file with its numbers.

    `png` replaces `pdf` and `svg` if a recipe's plot.py draws no vectors. `sha256` is the hash of
    the data. `title` says what the figure shows, without numbers.
    """

    id: str
    title: str
    data: Path
    sha256: str
    pdf: Path | None = None
    svg: Path | None = None
    png: Path | None = None

    @property
    def image(self) -> Path | None:
        """The file that LaTeX includes; None if nothing could be drawn."""
        return self.pdf or self.png


@dataclass(frozen=True, slots=True)
class TracedNumber:
    """A number of the paper: `ref` is its source in the manuscript, `text` its printed form.

    `label` says what it is; each of `lines` says one thing about its origin.
    """

    ref: str
    text: str
    label: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Appendix:
    """How to reproduce the results: commands and records, as (name, value) pairs."""

    commands: tuple[tuple[str, str], ...]  # purpose, command
    records: tuple[tuple[str, str], ...]  # hashes, seeds, costs


@dataclass(frozen=True, slots=True)
class PaperDocument:
    """A manuscript with everything that it refers to. `bibliography` is in printed order."""

    manuscript: Manuscript
    venue: Venue
    numbers: Mapping[str, TracedNumber]
    figures: Mapping[str, Drawn]
    bibliography: tuple[CitedEntry, ...]
    appendix: Appendix
    epoch: int  # seconds since 1970: the document's date
    names: tuple[str, ...] = ()  # words with digits that may be typed

    @property
    def positions(self) -> dict[str, int]:
        """The printed number of each paper of the bibliography, by its id."""
        return {entry.paper_id: number for number, entry in enumerate(self.bibliography, 1)}


def numbers_of(manuscript: Manuscript) -> list[Number]:
    """Return the distinct numbers of a manuscript, in order."""
    return list({str(n.ref): n for n in _all(manuscript, Number)}.values())


def cited(manuscript: Manuscript) -> list[str]:
    """Return the ids of the papers that a manuscript cites, in order of first citation."""
    found = (paper for cite in _all(manuscript, Citation) for paper in cite.papers)
    return list(dict.fromkeys(found))


def figures_of(manuscript: Manuscript) -> list[str]:
    """Return the ids of a manuscript's figures: first in order of reference, then the others."""
    referred = [part.id for part in _all(manuscript, FigureRef)]
    return list(dict.fromkeys([*referred, *(figure.id for figure in manuscript.figures)]))


def _all(manuscript: Manuscript, kind: type[T]) -> Iterator[T]:
    for _, line in lines(manuscript):
        for part in walk(line):
            if isinstance(part, kind):
                yield part


# Assembles a document: a manuscript with its facts resolved, papers looked up, records listed.


RUN, PAPER = "DIR", "PAPER"  # names of the run directory and the paper's folder in commands
_HASH = 12  # printed digits of a hash; trace.html has all


@dataclass(frozen=True, slots=True)
class Records:
    """The records that a campaign's papers are made from. `library` is None if it had none."""

    paths: RunPaths
    config: CampaignConfig
    state: CampaignState
    sheet: FactSheet
    library: Library | None

    @property
    def epoch(self) -> int:
        """The end of the last trial in seconds since 1970, which is the date of all its papers."""
        return int(max((trial.ended_at for trial in self.state.trials.values()), default=0.0))


def assemble(
    records: Records, manuscript: Manuscript, venue: Venue, figures: Mapping[str, Drawn]
) -> PaperDocument:
    """Return the document of a manuscript.

    References to unknown facts, papers and figures are left out; the engine or the checks of
    `papers.walls` report them.
    """
    numbers: dict[str, TracedNumber] = {}
    for part in numbers_of(manuscript):
        try:
            quantity = resolve(part.ref, records.sheet)
        except BadFormula:
            continue
        fact = quantity.fact
        of = (
            ()
            if isinstance(part.ref, FactRef)
            else tuple(dict.fromkeys(map(_part, quantity.parts)))
        )
        sources = dict.fromkeys(line for known in quantity.parts for line in _lines(known))
        text = fact.text
        numbers[str(part.ref)] = TracedNumber(str(part.ref), text, fact.label, (*of, *sources))
    papers = [paper for name in cited(manuscript) if (paper := _paper(records.library, name))]
    used = [use.id for use in manuscript.figures if use.id in figures]
    return PaperDocument(
        manuscript=manuscript,
        venue=venue,
        numbers=numbers,
        figures={name: figures[name] for name in used},
        bibliography=entries(papers),
        appendix=appendix(records, manuscript),
        epoch=records.epoch,
        names=tuple(_names(records.sheet, papers)),
    )


def _names(sheet: FactSheet, papers: Iterable[Paper]) -> Iterator[str]:
    """Yield the words with digits that may be typed, as `papers.walls` allows them."""
    yield from sheet.names
    texts = [title for idea in sheet.ideas for title in (idea.title, *idea.parts.values())]
    for text in (*texts, *(paper.title for paper in papers)):
        yield from (word for word in text.split() if any(c.isnumeric() for c in word))
    yield from (idea.idea_id for idea in sheet.ideas)
    yield from (str(paper.year) for paper in papers if paper.year)


def appendix(records: Records, manuscript: Manuscript) -> Appendix:
    """Return the commands that reproduce a manuscript's results, and the campaign's records."""
    return Appendix(
        tuple(_commands(records, manuscript)),
        tuple((name, value) for name, value in _recorded(records, manuscript) if value),
    )


def _paper(library: Library | None, paper_id: str) -> Paper | None:
    return library.paper(paper_id) if library is not None else None


def _part(fact: Fact) -> str:
    return f"Of {fact.id} = {fact.text}."


def _lines(fact: Fact) -> Iterable[str]:
    source = fact.source
    if source.method:
        yield f"Computed as: {source.method}."
    if source.trials:
        names = ", ".join(f"{row.trial} ({row.row_hash[:_HASH]})" for row in source.trials)
        yield f"Trials, with the hashes of their rows: {names}."
    lines = f", lines {source.lines[0]} to {source.lines[1]}" if source.lines else ""
    of_rows = {row.file for row in source.trials}  # trace.html has these
    for file in (file for file in source.files if file.file not in of_rows):
        yield f"File {file.file}{lines}, SHA-256 {file.sha256[:_HASH]}."
    if source.paper:
        yield f"Published in {source.paper}; setup: {source.setup or 'not said'}."


def _commands(records: Records, manuscript: Manuscript) -> Iterable[tuple[str, str]]:
    config = records.config
    yield "The table of all ideas", f"hpcsci results {RUN}"
    yield "Every number of this paper, checked", f"hpcsci paper {RUN} --check {PAPER}"
    yield "Where every number comes from", f"hpcsci paper --trace {PAPER}"
    for idea in _confirmed(records, manuscript):
        yield f"The trials of {idea} run again", f"hpcsci reproduce {RUN} --idea {idea}"
    consent = " --allow-unsandboxed" if config.isolation is Isolation.NONE else ""
    model = "search" if config.model_spec == "search" else f"playbook:{RUN}"
    recipe = shlex.quote(config.recipe_name)
    yield (
        "The campaign run anew, with the recorded replies",
        f"hpcsci launch --recipe {recipe} --ideas {config.settings.ideas} "
        f"--seed {config.settings.seed} --model {model}{consent}",
    )


def _confirmed(records: Records, manuscript: Manuscript) -> list[str]:
    """Return the scored ideas that a paper is about; if none, the campaign's confirmed ideas."""
    ideas = records.sheet.idea_by_id
    named = [i for i in manuscript.scope.ideas if i in ideas and ideas[i].status == "scored"]
    return named or [idea.idea_id for idea in records.sheet.ideas if idea.confirmed]


def _recorded(records: Records, manuscript: Manuscript) -> Iterable[tuple[str, str]]:
    config, state = records.config, records.state
    yield "Campaign", config.campaign_id
    yield "Begun", config.created
    yield "hpcscientist", f"{config.package_version}, package hash {config.package_hash}"
    yield "Recipe", f"{config.recipe_name}, hash {config.recipe_hash}"
    yield "Data, hash", config.data_hash
    yield "Container image, hash", config.image_hash or "none was used"
    yield "Library of papers, fingerprint", config.library_hash or "none was used"
    yield "Model", config.model_name
    yield "Seed of the campaign", str(config.settings.seed)
    ideas = _confirmed(records, manuscript)
    for idea in ideas:
        known = state.ideas[idea]
        attempt = known.ended.attempt if known.ended else None
        if attempt is not None:
            yield f"Code of {idea}, attempt {attempt}, hash", known.code_hashes.get(attempt, "")
    for split in ("validation", "test"):
        yield f"Seeds, {split} split", ", ".join(map(str, _seeds(records, split)))
    yield "CPU-hours of the campaign", f"{state.cpu_s / SECONDS_PER_HOUR:.3g}"
    yield "GPU-hours of the campaign", f"{state.gpu_s / SECONDS_PER_HOUR:.3g}"
    yield "Tokens read and written by models", f"{state.prompt_tokens}, {state.completion_tokens}"


def _seeds(records: Records, split: str) -> list[int]:
    trials = records.state.confirming if split == "test" else records.state.full
    return sorted({trial.seed for of in trials.values() for trial in of.values()})
