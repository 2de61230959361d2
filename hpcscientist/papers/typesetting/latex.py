"""Writes a document as LaTeX: one line for each paragraph, all text escaped, numbers as links."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from importlib import resources
from typing import Final

from hpcscientist.files.text import one_line
from hpcscientist.papers.typesetting.bibliography import CitedEntry, bibtex
from hpcscientist.papers.typesetting.document import (
    WRITTEN_BY_SOFTWARE,
    Drawn,
    PaperDocument,
    TracedNumber,
    figures_of,
)
from hpcscientist.papers.typesetting.escape import as_seen, breakable, latex, number
from hpcscientist.records.manuscript import (
    Block,
    Citation,
    Emphasis,
    FigureRef,
    FigureUse,
    Inline,
    Number,
    Paragraph,
    Place,
    Text,
    walk,
)

NAME: Final = "paper"
FIGURES: Final = "figures"
TRACE_TITLE: Final = "Where each number comes from"
AGAIN_TITLE: Final = "How to run it again"


def sources(document: PaperDocument) -> dict[str, str]:
    """Return the LaTeX of a document by file name, without figures and the venue's own files."""
    style = resources.files(__package__).joinpath("hpcpaper.sty").read_text()
    return {
        f"{NAME}.tex": document.venue.template,
        "hpcpaper.sty": style,
        "content.tex": _content(document),
        "body.tex": _body(document),
        "references.tex": _references(document),
        "appendix.tex": _appendix(document),
        "references.bib": bibtex(document.bibliography),
    }


def place_of(line: str) -> Place | None:
    """Return the place that a line of the engine's log names; see `\\hpcplace`."""
    mark, _, rest = line.partition(" ")
    if mark != "hpc-place":
        return None
    section, _, paragraph = rest.strip().rpartition("/")
    return Place(section=section or "layout", paragraph=max(1, int(paragraph or 1)))


def _content(document: PaperDocument) -> str:
    manuscript = document.manuscript
    title = latex(one_line(manuscript.title))
    lines = [
        rf"\newcommand\hpcTitle{{{title}}}",
        r"\newcommand\hpcAuthors{\parbox{0.8\linewidth}{\centering\small\itshape",
        rf"{latex(WRITTEN_BY_SOFTWARE)}}}}}",
        rf"\hypersetup{{pdftitle={{{title}}},pdfauthor={{Written by software: hpcscientist}},"
        rf"pdfsubject={{{latex(WRITTEN_BY_SOFTWARE)}}},pdfcreator={{hpcscientist}}}}",
        # Without this, pdfTeX makes the file's id from the time and the path.
        rf"\pdftrailerid{{{latex(manuscript.scope.campaign_id)}}}",
    ]
    lines += [
        rf"\hpcdefine{{{found.ref}}}{{{number(found.text)}}}" for found in document.numbers.values()
    ]
    lines.append(r"\newcommand\hpcAbstract{%")
    lines += _blocks(document, "abstract", manuscript.abstract)
    return "\n".join([*lines, "}", ""])


def _body(document: PaperDocument) -> str:
    manuscript = document.manuscript
    uses = {figure.id: figure for figure in manuscript.figures}
    waiting = [uses[name] for name in figures_of(manuscript) if name in uses]
    lines: list[str] = []
    for section in manuscript.sections:
        lines.append(rf"\section{{{latex(one_line(section.title))}}}")
        for number_, block in enumerate(section.blocks, 1):
            mentioned = {part.id for part in _inside(block) if isinstance(part, FigureRef)}
            for use in [use for use in waiting if use.id in mentioned]:
                waiting.remove(use)
                lines += _figure(document, use)
            lines += _block(document, Place(section=section.id, paragraph=number_), block)
    for use in waiting:
        lines += _figure(document, use)
    return "\n".join([*lines, ""])


def _inside(block: Block) -> Iterator[Inline]:
    for line in (block.parts,) if isinstance(block, Paragraph) else block.items:
        yield from walk(line)


def _blocks(document: PaperDocument, section: str, blocks: Iterable[Block]) -> list[str]:
    return [
        line
        for number_, block in enumerate(blocks, 1)
        for line in _block(document, Place(section=section, paragraph=number_), block)
    ]


def _block(document: PaperDocument, place: Place, block: Block) -> list[str]:
    mark = rf"\hpcplace{{{place.section}/{place.paragraph}}}%"
    if isinstance(block, Paragraph):
        return [mark, _line(document, block.parts) + r"\par"]
    items = [rf"\item {_line(document, item)}" for item in block.items]
    return [mark, r"\begin{itemize}", *items, r"\end{itemize}"]


def _line(document: PaperDocument, parts: Iterable[Inline]) -> str:
    return "".join(_part(document, part) for part in parts)


def _part(document: PaperDocument, part: Inline) -> str:
    match part:
        case Text():
            return _words(part.text)
        case Emphasis():
            return rf"\emph{{{_line(document, part.parts)}}}"
        case Number():
            return rf"\hpcnum{{{part.ref}}}"
        case Citation():
            keys = ",".join(_key(document, paper) for paper in part.papers)
            return rf"\cite{{{keys}}}"
        case FigureRef():
            return rf"Figure~\ref{{hpc-figure-{part.id}}}"


def _words(text: str) -> str:
    """Return words as LaTeX; a word with a digit is unbreakable, so that it can be read whole."""
    pieces = re.split(r"(\s+)", text)
    return "".join(
        rf"\mbox{{{latex(piece)}}}" if any(c.isnumeric() for c in piece) else latex(piece)
        for piece in pieces
    )


def _key(document: PaperDocument, paper_id: str) -> str:
    """Return the key of a paper; for a paper that the bibliography lacks, an unknown key."""
    own = (entry.key for entry in document.bibliography if entry.paper_id == paper_id)
    return next(own, "unknown-paper")


def _figure(document: PaperDocument, use: FigureUse) -> list[str]:
    drawn = document.figures.get(use.id)
    file = f"{FIGURES}/{file_name(drawn)}" if drawn else f"{FIGURES}/missing-{use.id}"
    return [
        rf"\hpcplace{{figure:{use.id}/1}}%",
        r"\begin{figure}[htbp]",
        r"\centering",
        # A link, as for numbers: it leads to the figure's data in the trace.
        rf"\hyperlink{{hpc.figure.{use.id}}}{{\hpcgraphic{{{file}}}{{{latex(use.alt)}}}}}",
        rf"\caption{{{_line(document, use.caption)}}}",
        rf"\label{{hpc-figure-{use.id}}}",
        r"\end{figure}",
    ]


def file_name(drawn: Drawn) -> str:
    """Return the name of a figure's file beside the LaTeX."""
    return drawn.image.name if drawn.image else f"missing-{drawn.id}"


def _references(document: PaperDocument) -> str:
    if not document.bibliography:
        return ""
    width = "9" * len(str(len(document.bibliography)))
    entries = map(_bibitem, document.bibliography)
    return "\n".join(
        [
            r"\par\hypertarget{hpc-references}{}%",
            rf"\begin{{thebibliography}}{{{width}}}",
            r"\raggedright",
            *entries,
            r"\end{thebibliography}",
            "",
        ]
    )


def _bibitem(entry: CitedEntry) -> str:
    title = rf"\emph{{{latex(entry.title)}}}"
    if _PLAIN_LINK.fullmatch(entry.link):
        link = re.sub(r"[%#&]", r"\\\g<0>", entry.link)
        title = rf"\href{{{link}}}{{{title}}}"
    text = " ".join(filter(None, [latex(entry.authors), title, latex(entry.where)]))
    return rf"\bibitem{{{entry.key}}} {text}"


# The characters of a URL that TeX reads as plain letters once %, # and & are escaped.
_PLAIN_LINK: Final = re.compile(r"https?://[A-Za-z0-9./:;?=&,()%#+@*!'-]*")


def appendix_text(document: PaperDocument) -> str:
    """Return the appendix as plain text, for the check of the PDF."""
    parts = [f"{a}: {b} " for a, b in (*document.appendix.commands, *document.appendix.records)]
    for found in document.numbers.values():
        told = " ".join(found.lines)
        parts.append(f"{as_seen(found.text)} {found.ref}: {found.label}. {told}")
    for drawn in document.figures.values():
        parts.append(
            f"Figure {drawn.id}: {drawn.title}. Data: {drawn.data.name}, SHA-256 {drawn.sha256}"
        )
    return " ".join(parts)


def _appendix(document: PaperDocument) -> str:
    """Return the appendix as LaTeX: how to reproduce the results, and the trace, in small print."""
    lines = [
        r"\clearpage\appendix\raggedright\small\setlength{\parindent}{0pt}\setlength{\parskip}{3pt}",
        rf"\hypertarget{{hpc-again}}{{}}\section*{{{AGAIN_TITLE}}}",
        rf"\addcontentsline{{toc}}{{section}}{{{AGAIN_TITLE}}}",
    ]
    for name, value in (*document.appendix.commands, *document.appendix.records):
        lines.append(rf"{latex(name)}: {breakable(value)}\par")
    lines += [
        rf"\section*{{{TRACE_TITLE}}}",
        rf"\hypertarget{{hpc-trace}}{{}}\addcontentsline{{toc}}{{section}}{{{TRACE_TITLE}}}",
    ]
    lines += map(_traced, document.numbers.values())
    lines += map(_drawn, document.figures.values())
    return "\n".join([*lines, ""])


def _traced(found: TracedNumber) -> str:
    told = " ".join(map(_told, found.lines))
    return (
        rf"\hpctarget{{{found.ref}}}\textbf{{{number(found.text)}}} {breakable(found.ref)}: "
        rf"{latex(found.label)}. {told}\par"
    )


def _told(line: str) -> str:
    """Return a line of the trace as LaTeX in which long words may break."""
    return " ".join(breakable(w) if len(w) > 16 or "_" in w else latex(w) for w in line.split(" "))


def _drawn(drawn: Drawn) -> str:
    return (
        rf"\hypertarget{{hpc.figure.{drawn.id}}}{{}}\textbf{{Figure}} {breakable(drawn.id)}: "
        rf"{latex(drawn.title)}. Data: {breakable(drawn.data.name)}, "
        rf"SHA-256 {breakable(drawn.sha256)}\par"
    )
