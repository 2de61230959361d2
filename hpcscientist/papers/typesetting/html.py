"""Writes a paper and its trace as self-contained HTML pages, without scripts."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import Final

from hpcscientist.files.text import one_line, visible
from hpcscientist.papers.formulas import BadFormula, resolve
from hpcscientist.papers.typesetting.document import (
    WRITTEN_BY_SOFTWARE,
    Drawn,
    PaperDocument,
    TracedNumber,
)
from hpcscientist.papers.typesetting.latex import AGAIN_TITLE, TRACE_TITLE
from hpcscientist.records.facts import Fact, FactSheet, parse_reference
from hpcscientist.records.manuscript import (
    Block,
    Citation,
    Emphasis,
    FigureRef,
    FigureUse,
    Inline,
    Number,
    Paragraph,
    Text,
)

TRACE: Final = "trace.html"
_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
_STYLE: Final = """
body { max-width: 44rem; margin: 2rem auto; padding: 0 1rem; font: 1rem/1.5 Georgia, serif;
  color: #111; background: #fff }
h1, h2, h3 { line-height: 1.25 } .by { font-style: italic; color: #444 }
figure { margin: 1.5rem 0; text-align: center } figure img { max-width: 100% }
figcaption { font-size: .9rem; text-align: left }
a { color: #00407a } a.number { text-decoration-style: dotted; white-space: nowrap }
table { border-collapse: collapse; font-size: .85rem; display: block; overflow-x: auto }
th, td { text-align: left; padding: .15rem .6rem .15rem 0; vertical-align: top }
code, td.hash { font-family: ui-monospace, monospace; font-size: .85em; overflow-wrap: anywhere }
section.fact { border-top: 1px solid #ccc; padding: .5rem 0 }
section.fact:target { background: #fff6d5 }
"""


def paper(document: PaperDocument) -> str:
    """Return the paper as a page; each number links to its entry in trace.html."""
    manuscript = document.manuscript
    uses = {use.id: use for use in manuscript.figures}
    parts = [
        f"<h1>{_text(manuscript.title)}</h1>",
        f'<p class="by">{_text(WRITTEN_BY_SOFTWARE)}</p>',
        "<h2>Abstract</h2>",
        *_blocks(document, manuscript.abstract),
    ]
    for number, section in enumerate(manuscript.sections, 1):
        parts.append(f"<h2>{number} {_text(section.title)}</h2>")
        for block in section.blocks:
            parts.append(_block(document, block))
            for name in [n for n in _mentioned(block) if n in uses]:
                parts.append(_figure(document, uses.pop(name)))
    parts += [_figure(document, use) for use in uses.values()]
    parts += _references(document)
    parts += [f"<h2>{AGAIN_TITLE}</h2>", _pairs(document.appendix.commands, code=True)]
    parts.append(_pairs(document.appendix.records, code=False))
    parts.append(f'<p><a href="{TRACE}">{TRACE_TITLE}</a></p>')
    return _page(manuscript.title, parts)


def trace(document: PaperDocument, sheet: FactSheet) -> str:
    """Return the page that shows where each number of a paper comes from, with full hashes."""
    parts = [
        f"<h1>{TRACE_TITLE}</h1>",
        f'<p class="by">{_text(document.manuscript.title)}. Files are relative to the run '
        f"directory of campaign {_text(sheet.campaign_id)}.</p>",
    ]
    for found in document.numbers.values():
        parts += _entry(found, sheet)
    for name, drawn in document.figures.items():
        parts.append(
            f'<section class="fact" id="{_id(f"figure.{name}")}"><h3>Figure {_text(name)}</h3>'
            f"<p>{_text(drawn.title)}. Data: <code>{_text(drawn.data.name)}</code>, SHA-256 "
            f"<code>{_text(drawn.sha256)}</code></p></section>"
        )
    return _page(f"{TRACE_TITLE}: {document.manuscript.title}", parts)


def _page(title: str, parts: Iterable[str]) -> str:
    body = "\n".join(parts)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta name="generator" content="hpcscientist">\n<title>{_text(one_line(title))}</title>\n'
        f"<style>{_STYLE}</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n"
    )


def _text(text: str) -> str:
    return escape(visible(text))


def _id(ref: str) -> str:
    return escape(ref.replace(" ", ""))


def _blocks(document: PaperDocument, blocks: Iterable[Block]) -> list[str]:
    return [_block(document, block) for block in blocks]


def _block(document: PaperDocument, block: Block) -> str:
    if isinstance(block, Paragraph):
        return f"<p>{_line(document, block.parts)}</p>"
    items = "".join(f"<li>{_line(document, item)}</li>" for item in block.items)
    return f"<ul>{items}</ul>"


def _line(document: PaperDocument, parts: Iterable[Inline]) -> str:
    return "".join(_part(document, part) for part in parts)


def _part(document: PaperDocument, part: Inline) -> str:
    match part:
        case Text():
            return _text(part.text)
        case Emphasis():
            return f"<em>{_line(document, part.parts)}</em>"
        case Number():
            known = document.numbers.get(str(part.ref))
            text, label = (known.text, known.label) if known else ("unknown", str(part.ref))
            link = f"{TRACE}#{_id(str(part.ref))}"
            return f'<a class="number" href="{link}" title="{_text(label)}">{_text(text)}</a>'
        case Citation():
            return f"[{', '.join(_mark(document, paper) for paper in part.papers)}]"
        case FigureRef():
            number = (
                list(document.figures).index(part.id) + 1 if part.id in document.figures else "?"
            )
            return f'<a href="#{_id(f"figure.{part.id}")}">Figure {number}</a>'


def _mark(document: PaperDocument, paper_id: str) -> str:
    number = document.positions.get(paper_id)
    return f'<a href="#cite.{number}">{number}</a>' if number else "unknown paper"


def _mentioned(block: Block) -> list[str]:
    lines = (block.parts,) if isinstance(block, Paragraph) else block.items
    return list(dict.fromkeys(p.id for line in lines for p in line if isinstance(p, FigureRef)))


def _figure(document: PaperDocument, use: FigureUse) -> str:
    drawn = document.figures.get(use.id)
    if drawn is None:
        return ""
    number = list(document.figures).index(use.id) + 1
    return (
        f'<figure id="{_id(f"figure.{use.id}")}">{_image(drawn, use.alt)}<figcaption>'
        f"<b>Figure {number}.</b> {_line(document, use.caption)} "
        f'<a href="{TRACE}#{_id(f"figure.{use.id}")}">Data</a></figcaption></figure>'
    )


def _image(drawn: Drawn, alt: str) -> str:
    """Return a figure's image, or its data if nothing could be drawn."""
    file, kind = (drawn.svg, "svg+xml") if drawn.svg else (drawn.png, "png")
    if file is None:
        return f"<pre>{_text(drawn.data.read_text())}</pre>"
    data = base64.b64encode(file.read_bytes()).decode()
    return f'<img alt="{_text(alt or drawn.title)}" src="data:image/{kind};base64,{data}">'


def _references(document: PaperDocument) -> Iterator[str]:
    if document.bibliography:
        yield "<h2>References</h2>\n<ol>"
        for number, entry in enumerate(document.bibliography, 1):
            link = f' <a href="{escape(entry.link)}">link</a>' if entry.link else ""
            yield f'<li id="cite.{number}">{_text(entry.text)}{link}</li>'
        yield "</ol>"


def _pairs(pairs: Sequence[tuple[str, str]], *, code: bool) -> str:
    kind = "code" if code else "span"
    rows = "".join(
        f'<tr><th scope="row">{_text(a)}</th><td class="hash"><{kind}>{_text(b)}</{kind}></td></tr>'
        for a, b in pairs
    )
    return f"<table>{rows}</table>"


def _entry(found: TracedNumber, sheet: FactSheet) -> Iterator[str]:
    yield f'<section class="fact" id="{_id(found.ref)}"><h3>{_text(found.text)}</h3>'
    yield f"<p><code>{_text(found.ref)}</code>: {_text(found.label)}</p>"
    try:
        parts: Sequence[Fact] = resolve(parse_reference(found.ref), sheet).parts
    except (BadFormula, ValueError):
        parts = ()
    for fact in parts:
        yield from _source(fact, alone=fact.id == found.ref)
    yield "</section>"


def _source(fact: Fact, *, alone: bool) -> Iterator[str]:
    source = fact.source
    if not alone:
        yield f"<p><code>{_text(fact.id)}</code> = {_text(fact.text)}: {_text(fact.label)}</p>"
    if source.method:
        yield f"<p>Computed as: {_text(source.method)}</p>"
    if source.trials:
        rows = "".join(
            f"<tr><td>{_text(r.trial)}</td><td>{r.run}</td><td>{r.seed}</td><td>{r.value!r}</td>"
            f'<td class="hash">{_text(r.file)}</td><td class="hash">{_text(r.row_hash)}</td></tr>'
            for r in source.trials
        )
        head = "<tr><th>trial<th>run<th>seed<th>value<th>file<th>hash of the row</tr>"
        yield f"<table>{head}{rows}</table>"
    lines = f", lines {source.lines[0]} to {source.lines[1]}" if source.lines else ""
    for file in source.files:
        sha256 = f"<code>{_text(file.sha256)}</code>"
        yield f"<p><code>{_text(file.file)}</code>{lines}, SHA-256 {sha256}</p>"
    if source.paper:
        yield f"<p>Published in <code>{_text(source.paper)}</code>. {_text(source.setup)}</p>"
