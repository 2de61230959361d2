"""A manuscript typeset into its folder, and what is wrong with what came of it.

`papers/ID/` holds paper.pdf, paper.html, paper.json, trace.html, manuscript.json, facts.json,
references.bib, REPRODUCE.md, figures/ with their data, and source/ with all that LaTeX needs to
make the PDF again.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from hpcscientist.files.atomic import write_atomic, write_json, write_text
from hpcscientist.papers.lacking import can_preview, missing
from hpcscientist.papers.typesetting import engine, html, latex, log, preview
from hpcscientist.papers.typesetting import pdf as gate
from hpcscientist.papers.typesetting.assemble import Records, assemble
from hpcscientist.papers.typesetting.bibliography import bibtex
from hpcscientist.papers.typesetting.document import Document, Drawn
from hpcscientist.papers.typesetting.escape import lacking as lacking_letters
from hpcscientist.papers.typesetting.reproduce import instructions
from hpcscientist.papers.venues.venue import Venue
from hpcscientist.records.manuscript import Defect, DefectCode, Manuscript, Place, lines

MANUSCRIPT, FACTS, PDF = "manuscript.json", "facts.json", "paper.pdf"
RECORD: Final = "paper.json"  # where its campaign is, its venue, its figures by id
SOURCE: Final = "source"
_KEPT: Final = (".tex", ".sty", ".cls", ".bib", ".bst", ".pdf", ".png", ".log")


@dataclass(frozen=True, slots=True)
class Built:
    """What came of a manuscript. `lacking` says what this machine lacks, and what mends it.

    `reading` is of the PDF, None where there is none or nothing to read it with. Seconds, MiB.
    """

    folder: Path
    defects: tuple[Defect, ...]
    lacking: tuple[str, ...] = ()
    pdf: Path | None = None
    preview: Path | None = None
    reading: gate.Reading | None = None
    pages: int | None = None  # of the text, up to the references
    passes: int = 0
    seconds: float = 0.0
    peak_mb: float = 0.0
    boxes: str = ""  # letters that the fonts lack: they print as empty boxes

    @property
    def is_sound(self) -> bool:
        """Whether there is a PDF in which everything is explained."""
        return (
            self.pdf is not None
            and self.reading is not None
            and not self.defects
            and self.reading.coverage == 1.0
        )


@dataclass(slots=True)
class Builder:
    """Builds one paper, as often as its writer needs. `limits` bound each run of the engine."""

    records: Records
    venue: Venue
    figures: Mapping[str, Drawn]
    folder: Path
    limits: engine.Limits = field(default_factory=engine.Limits)

    def build(self, manuscript: Manuscript) -> Built:
        """Typeset a manuscript, and read what came of it. Raises OSError."""
        document = assemble(self.records, manuscript, self.venue, self.figures)
        self._hand_on(document)
        source = self._sources(document)
        lacking = missing()
        if any(engine.lacking()) or not _is_drawn(document):
            made = preview.preview(document, self.folder) if can_preview() else None
            return Built(self.folder, tuple(_unknown(document)), lacking, preview=made)
        typeset = engine.typeset(source, latex.NAME, document.epoch, self.limits)
        found = [*_unknown(document), *log.defects_of(typeset)]
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

    def _hand_on(self, document: Document) -> None:
        """Write everything that needs no engine."""
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

    def _record(self, document: Document) -> dict[str, object]:
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

    def _sources(self, document: Document) -> Path:
        """Lay out the LaTeX anew: nothing of an earlier run is read by this one."""
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


def _boxes(document: Document) -> str:
    texts = [str(part) for _, line in lines(document.manuscript) for part in line]
    texts += [entry.text for entry in document.bibliography]
    return lacking_letters(" ".join(texts))


def _is_drawn(document: Document) -> bool:
    return all(drawn.image is not None for drawn in document.figures.values())


def _unknown(document: Document) -> list[Defect]:
    """Return the figures that a manuscript uses and that are not there."""
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
            place=Place(section=log.LAYOUT),
            found=f"{pages} pages of text",
            fix=f"shorten it: {venue.title} has at most {venue.pages}",
        )
    ]


def _tidy(source: Path) -> None:
    """Remove what the engine wrote for itself."""
    for path in source.iterdir():
        if path.is_file() and path.suffix not in _KEPT:
            path.unlink()
