"""Makes a preview by Typst, which pip installs without root: the paper without a venue's layout."""

from __future__ import annotations

import io
import json
import sys
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from hpcscientist.execution.bounds.supervise import BoundedLog, Bounds, Reason, RunPlace, supervise
from hpcscientist.files.text import visible
from hpcscientist.papers.typesetting.document import WRITTEN_BY_SOFTWARE, PaperDocument
from hpcscientist.papers.typesetting.engine import environment, without_network
from hpcscientist.papers.typesetting.latex import TRACE_TITLE
from hpcscientist.records.manuscript import (
    Block,
    Citation,
    Emphasis,
    FigureRef,
    Inline,
    Number,
    Paragraph,
    Text,
)

_COMPILE: Final = (
    "import sys, typst; typst.compile(sys.argv[1], output=sys.argv[2], root=sys.argv[3])"
)
_SETTINGS: Final = """#set document(title: {title}, author: "hpcscientist (software)", date: none)
#set page(paper: "a4", numbering: "1")
#set text(font: "New Computer Modern", size: 10pt)
#set par(justify: true)
#set heading(numbering: none)
#show link: set text(fill: rgb("#00407a"))
"""


def preview(document: PaperDocument, folder: Path, seconds: float = 60.0) -> Path | None:
    """Write `folder/preview.pdf` and return its path; None if Typst failed. Raises OSError."""
    source, made = folder / "preview.typ", folder / "preview.pdf"
    source.write_text(typst(document))
    made.unlink(missing_ok=True)
    python = [sys.executable, "-I", "-c", _COMPILE, str(source), str(made), str(folder)]
    bounds = Bounds(
        deadline_s=seconds,
        memory_mb=2048,
        output_mb=64,
        watched=(folder,),
        processes=64,
        apart=True,
    )
    place = RunPlace(folder, environment(folder, document.epoch))
    log = BoundedLog(io.BytesIO())
    ended = supervise([*without_network(), *python], place, bounds, threading.Event(), log)
    good = ended.reason is Reason.EXITED and ended.exit_code == 0 and made.is_file()
    return made if good else None


def typst(document: PaperDocument) -> str:
    """Return the document as Typst. All text is in string literals, so none of it is markup."""
    manuscript = document.manuscript
    parts = [_SETTINGS.format(title=_string(manuscript.title))]
    parts.append(f'#align(center, text(size: 17pt, weight: "bold", {_string(manuscript.title)}))')
    parts.append(f"#align(center, emph({_string(WRITTEN_BY_SOFTWARE)}))")
    parts.append(_heading("Abstract"))
    parts += [_block(document, block) for block in manuscript.abstract]
    for number, section in enumerate(manuscript.sections, 1):
        parts.append(_heading(f"{number} {section.title}"))
        parts += [_block(document, block) for block in section.blocks]
    for number, use in enumerate(manuscript.figures, 1):
        drawn = document.figures.get(use.id)
        image = (drawn.svg or drawn.png) if drawn else None
        if image is not None:
            caption = _joined([_string(f"Figure {number}. "), *_inline(document, use.caption)])
            parts.append(f"#align(center, image({_string(f'/figures/{image.name}')}))")
            parts.append(f"#par({caption})")
    if document.bibliography:
        parts.append(_heading("References"))
    for number, entry in enumerate(document.bibliography, 1):
        parts.append(f"#par({_string(f'[{number}] {entry.text}')})")
    parts.append(_heading(TRACE_TITLE))
    for place, found in enumerate(document.numbers.values(), 1):
        told = " ".join([f"{found.ref}: {found.label}.", *found.lines])
        line = _joined([f"strong({_string(found.text)})", _string(f" {told}")])
        parts.append(f'#block({line}) #label("hpc{place}")')
    return "\n\n".join([*parts, ""])


def _heading(title: str) -> str:
    return f"#heading({_string(title)})"


def _string(text: str) -> str:
    # JSON's escapes are Typst's except for \u, which ensure_ascii=False avoids.
    return json.dumps(visible(text), ensure_ascii=False)


def _joined(parts: Iterable[str]) -> str:
    return f"({''.join(f'{part}, ' for part in parts)}).join()"


def _block(document: PaperDocument, block: Block) -> str:
    if isinstance(block, Paragraph):
        return f"#par({_joined(_inline(document, block.parts))})"
    items = "".join(f"{_joined(_inline(document, item))}, " for item in block.items)
    return f"#list({items})"


def _inline(document: PaperDocument, parts: Iterable[Inline]) -> list[str]:
    return [_part(document, part) for part in parts] or [_string("")]


def _part(document: PaperDocument, part: Inline) -> str:
    match part:
        case Text():
            return _string(part.text)
        case Emphasis():
            return f"emph({_joined(_inline(document, part.parts))})"
        case Number():
            known = document.numbers.get(str(part.ref))
            if known is None:
                return _string("(unknown number)")
            place = list(document.numbers).index(known.ref) + 1
            return f'link(label("hpc{place}"), {_string(known.text)})'
        case Citation():
            marks = (document.positions.get(paper, "?") for paper in part.papers)
            return _string(f"[{', '.join(map(str, marks))}]")
        case FigureRef():
            names = list(document.figures)
            number = names.index(part.id) + 1 if part.id in names else "?"
            return _string(f"Figure {number}")
