"""Typesets a manuscript into its folder and finds the defects of the result.

`papers/ID/` holds paper.pdf, paper.html, paper.json, trace.html, manuscript.json, facts.json,
references.bib, REPRODUCE.md, figures/ with their data, and source/ with everything that LaTeX needs
to remake the PDF.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from hpcscientist.files.atomic import write_atomic, write_json, write_text
from hpcscientist.files.text import one_line, printable
from hpcscientist.papers.typesetting import engine, html, latex, preview
from hpcscientist.papers.typesetting import pdf as gate
from hpcscientist.papers.typesetting.bibliography import bibtex
from hpcscientist.papers.typesetting.document import (
    PAPER,
    RUN,
    Drawn,
    PaperDocument,
    Records,
    assemble,
)
from hpcscientist.papers.typesetting.engine import Typeset, can_preview, missing_for_papers
from hpcscientist.papers.typesetting.escape import lacking as lacking_letters
from hpcscientist.papers.typesetting.latex import place_of
from hpcscientist.papers.venue import Venue
from hpcscientist.records.manuscript import Defect, DefectCode, Manuscript, Place, lines

# Messages of the engine, as defects of the paragraphs that caused them.

LAYOUT: Final = "layout"  # the place of a defect that belongs to no paragraph
# Pattern, code and fix of each message; the first pattern that matches a line counts.
_COMPLAINTS: Final = tuple(
    (re.compile(pattern), code, fix)
    for pattern, code, fix in (
        (
            r"File [`'](?P<what>[^']*figures/[^']*)' not found",
            DefectCode.MISSING_FIGURE,
            "remove the figure, or name one that is drawn",
        ),
        (
            r"^(?:! |(?:\./)?[\w.-]+:\d+: )(?P<what>.*)",
            DefectCode.BUILD_FAILED,
            "write plainer words there, without unusual characters",
        ),
        (
            r"Warning: (?:Reference|Citation) [`'](?P<what>[^']+)' .*undefined",
            DefectCode.UNDEFINED_REFERENCE,
            "refer to a figure of the paper, or cite a paper of the library",
        ),
        (
            r"name\{(?P<what>[^}]*)\} has been referenced but does not exist",
            DefectCode.UNDEFINED_REFERENCE,
            "refer to a figure of the paper, or cite a paper of the library",
        ),
        (
            r"^Overfull \\(?P<box>[hv])box \((?P<by>[\d.]+)pt too",
            DefectCode.OVERFULL_BOX,
            "use shorter words there, or put them in another order",
        ),
        (
            r"^Missing character: There is no (?P<what>.*) in font",
            DefectCode.BUILD_FAILED,
            "write it with letters that the fonts have",
        ),
        (
            r"^(?:LaTeX|Package \S+|pdfTeX)(?: \w+)? [Ww]arning:? (?P<what>.*)",
            DefectCode.BUILD_FAILED,
            "write plainer words there",
        ),
    )
)
# Messages of every first pass, when references are not known yet; another pass follows.
_PASSING = re.compile(
    r"Rerun|has changed|Label\(s\) may have changed|There were undefined references"
)
_BOUNDS: Final = {
    "deadline": "it took too long",
    "memory": "it needed too much memory",
    "output": "it wrote too much",
    "processes": "it started too many processes",
    "stopped": "it was stopped",
}


def defects_of(made: Typeset) -> list[Defect]:
    """Return the defects of a typeset document in the order of its log; [] for a clean one."""
    found = list(dict.fromkeys(_of_log(made.log)))
    if made.pdf is None:  # in an aborted pass every reference is undefined
        found = [defect for defect in found if defect.code in _FATAL]
    if made.stopped:
        why = _BOUNDS.get(made.stopped, made.stopped)
        found.append(_failed(f"the engine: {why}", "shorten the text"))
    elif made.pdf is None and not any(d.code in _FATAL for d in found):
        said = made.log.strip().rpartition("\n")[2] or "no log"
        found.append(_failed(said, "see paper.log"))
    return found


_FATAL: Final = (DefectCode.BUILD_FAILED, DefectCode.MISSING_FIGURE)


def _of_log(log: str) -> Iterator[Defect]:
    place = Place(section=LAYOUT)
    for line in log.splitlines():
        place = place_of(line) or place
        if (found := _read(line, place)) is not None:
            yield found


def _read(line: str, place: Place) -> Defect | None:
    for pattern, code, fix in _COMPLAINTS:
        if (found := pattern.search(line)) and not _PASSING.search(line):
            told = found.groupdict()
            if code is DefectCode.OVERFULL_BOX:
                what = f"{told['by']} pt too {'wide' if told['box'] == 'h' else 'high'}"
            else:
                what = told["what"]
            return _defect(code, place, what, fix)
    return None


def _failed(what: str, fix: str) -> Defect:
    return _defect(DefectCode.BUILD_FAILED, Place(section=LAYOUT), what, fix)


def _defect(code: DefectCode, place: Place, found: str, fix: str) -> Defect:
    return Defect(code=code, place=place, found=one_line(printable(found), 200), fix=fix)


# REPRODUCE.md: the commands that reproduce a paper's results, and the recorded hashes and costs.


def instructions(document: PaperDocument) -> str:
    """Return the reproducibility appendix of a paper, as Markdown."""
    lines = [
        "# How to run it again",
        "",
        f"{RUN} is the run directory of the campaign, {PAPER} this folder.",
        "",
    ]
    for purpose, command in document.appendix.commands:
        lines += [f"{purpose}:", "", "```sh", command, "```", ""]
    lines += ["| recorded | |", "| --- | --- |"]
    lines += [f"| {name} | `{value}` |" for name, value in document.appendix.records]
    lines += ["", "The PDF, made from `source/` by the same TeX, byte for byte:", "", "```sh"]
    settings = f"SOURCE_DATE_EPOCH={document.epoch} FORCE_SOURCE_DATE=1"
    run = "pdflatex -interaction=nonstopmode paper.tex"
    lines += [f"cd {PAPER}/source && export {settings} && {run} && {run} && {run}", "```", ""]
    return "\n".join(lines)


MANUSCRIPT, FACTS, PDF = "manuscript.json", "facts.json", "paper.pdf"
RECORD: Final = "paper.json"  # where its campaign is, its venue, its figures by id
SOURCE: Final = "source"
_KEPT: Final = (".tex", ".sty", ".cls", ".bib", ".bst", ".pdf", ".png", ".log")


@dataclass(frozen=True, slots=True)
class Built:
    """The result of a build, in seconds and MiB.

    `lacking` lists what this machine lacks, with fixes. `reading` is the check of the PDF; None if
    there is no PDF or no PyMuPDF.
    """

    folder: Path
    defects: tuple[Defect, ...]
    lacking: tuple[str, ...] = ()
    pdf: Path | None = None
    preview: Path | None = None
    reading: gate.PdfReading | None = None
    pages: int | None = None  # pages of text, up to the references
    passes: int = 0
    seconds: float = 0.0
    peak_mb: float = 0.0
    boxes: str = ""  # letters that the fonts lack, which print as empty boxes

    @property
    def is_sound(self) -> bool:
        """Return whether there is a PDF without defects in which every digit is explained."""
        return (
            self.pdf is not None
            and self.reading is not None
            and not self.defects
            and self.reading.coverage == 1.0
        )


@dataclass(slots=True)
class Builder:
    """A builder of one paper, for as many builds as its writer needs.

    `limits` apply to each run of the engine.
    """

    records: Records
    venue: Venue
    figures: Mapping[str, Drawn]
    folder: Path
    limits: engine.EngineLimits = field(default_factory=engine.EngineLimits)

    def build(self, manuscript: Manuscript) -> Built:
        """Typeset a manuscript and check the result. Raises OSError."""
        document = assemble(self.records, manuscript, self.venue, self.figures)
        self._hand_on(document)
        source = self._sources(document)
        lacking = missing_for_papers()
        if any(engine.lacking()) or not _is_drawn(document):
            made = preview.preview(document, self.folder) if can_preview() else None
            return Built(self.folder, tuple(_unknown(document)), lacking, preview=made)
        typeset = engine.typeset(source, latex.NAME, document.epoch, self.limits)
        found = [*_unknown(document), *defects_of(typeset)]
        (self.folder / PDF).unlink(missing_ok=True)
        if typeset.pdf is None:
            return Built(self.folder, tuple(found), lacking, seconds=typeset.seconds)
        write_atomic(self.folder / PDF, typeset.pdf.read_bytes(), durable=False)
        pages = gate.pages_of_text((source / f"{latex.NAME}.aux").read_text(errors="replace"))
        found += _too_long(self.venue, pages)
        reading = gate.read(typeset.pdf, document) if gate.is_possible() else None
        found += reading.defects if reading else ()
        _tidy(source)
        return Built(
            self.folder,
            tuple(found),
            lacking,
            self.folder / PDF,
            reading=reading,
            pages=pages,
            passes=typeset.passes,
            seconds=typeset.seconds,
            peak_mb=typeset.peak_mb,
            boxes=_boxes(document),
        )

    def _hand_on(self, document: PaperDocument) -> None:
        """Write the files that need no TeX engine."""
        self.folder.mkdir(parents=True, exist_ok=True)
        texts = {
            MANUSCRIPT: document.manuscript.model_dump_json(indent=1) + "\n",
            FACTS: self.records.sheet.model_dump_json(indent=1) + "\n",
            "paper.html": html.paper(document),
            html.TRACE: html.trace(document, self.records.sheet),
            "references.bib": bibtex(document.bibliography),
            "REPRODUCE.md": instructions(document),
        }
        for name, text in texts.items():
            write_text(self.folder / name, text, durable=False)
        write_json(self.folder / RECORD, self._record(document))

    def _record(self, document: PaperDocument) -> dict[str, object]:
        return {
            "campaign_id": self.records.config.campaign_id,
            # Relative, so that the run directory can be moved with its papers in it.
            "campaign": os.path.relpath(self.records.paths.root, self.folder),
            "venue": self.venue.name,
            "figures": {
                name: {"title": drawn.title, "data": drawn.data.name, "sha256": drawn.sha256}
                for name, drawn in document.figures.items()
            },
        }

    def _sources(self, document: PaperDocument) -> Path:
        """Write the LaTeX sources into an empty folder, so that no earlier run's files are read."""
        source = self.folder / SOURCE
        shutil.rmtree(source, ignore_errors=True)
        (source / latex.FIGURES).mkdir(parents=True)
        for name, content in self.venue.files.items():
            (source / name).write_bytes(content)
        for name, text in latex.sources(document).items():
            (source / name).write_text(text)
        for drawn in document.figures.values():
            if drawn.image is not None:
                shutil.copyfile(drawn.image, source / latex.FIGURES / latex.file_name(drawn))
        return source


def _boxes(document: PaperDocument) -> str:
    texts = [str(part) for _, line in lines(document.manuscript) for part in line]
    texts += [entry.text for entry in document.bibliography]
    return lacking_letters(" ".join(texts))


def _is_drawn(document: PaperDocument) -> bool:
    return all(drawn.image is not None for drawn in document.figures.values())


def _unknown(document: PaperDocument) -> list[Defect]:
    """Return a defect for each figure that a manuscript uses but that does not exist."""
    return [
        Defect(
            code=DefectCode.MISSING_FIGURE,
            place=Place(section=f"figure:{use.id}"),
            found=use.id,
            fix="name a figure that is drawn",
        )
        for use in document.manuscript.figures
        if use.id not in document.figures
    ]


def _too_long(venue: Venue, pages: int | None) -> list[Defect]:
    if pages is None or not venue.pages or pages <= venue.pages:
        return []
    return [
        Defect(
            code=DefectCode.PAGE_COUNT,
            place=Place(section=LAYOUT),
            found=f"{pages} pages of text",
            fix=f"shorten it: {venue.title} has at most {venue.pages}",
        )
    ]


def _tidy(source: Path) -> None:
    """Remove the engine's auxiliary files."""
    for path in source.iterdir():
        if path.is_file() and path.suffix not in _KEPT:
            path.unlink()
