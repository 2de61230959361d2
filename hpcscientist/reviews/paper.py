"""Reads a paper (PDF, LaTeX or plain text) into the text that reviewers are shown.

All visible words are kept, including tables and formulas. Text that people cannot see, and
sentences that tell reviewers what to do, are removed and reported as findings.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hpcscientist.errors import LibraryError, UsageError
from hpcscientist.files.handed import read_regular
from hpcscientist.files.text import visible
from hpcscientist.literature.sources import lines as text_lines
from hpcscientist.literature.sources import sniff
from hpcscientist.literature.sources.latex import document as latex_document
from hpcscientist.literature.sources.latex.files import (
    BEGIN,
    END,
    ArchiveFiles,
    Files,
    FolderFiles,
    filled,
    flattened,
    mains,
    without_comments,
)
from hpcscientist.literature.sources.latex.macros import Expander, definitions
from hpcscientist.literature.sources.pdf import front, headings
from hpcscientist.literature.sources.pdf.body import body_type
from hpcscientist.literature.sources.pdf.document import PdfDocument, UnreadablePdf
from hpcscientist.literature.sources.pdf.lines import (
    PageLine,
    PageText,
    Piece,
    Spelled,
    fixed,
    page_text,
    read_order,
)
from hpcscientist.models.prompting.prompts import line, tame
from hpcscientist.records.literature import Section
from hpcscientist.records.reviews import Finding
from hpcscientist.reviews import hidden_text, instructions

_QUOTE: Final = 400  # characters of a finding's quote
_MOST_BYTES: Final = 64 * 2**20
_PAGES: Final = 500
_WORDS: Final = 3  # hidden words from which a text is reported even if it asks for nothing
_HEADING: Final = 14  # most words of a heading
_EIGHTHS: Final = 8  # units per point: the PDF readers count in eighths of a point
_TEX_HEADING = re.compile(r"\\(section|subsection|chapter|paragraph)\s*\*?\s*(?:\[[^\]]*\])?\s*\{")
_MARKDOWN = re.compile(r"^(?:#{1,6} +(.+)|\*\*(\d[\d.]* .{2,80})\*\*)\s*$", re.MULTILINE)
_GENERIC = frozenset({"paper", "main", "ms", "manuscript", "article", "submission"})


@dataclass(frozen=True, slots=True)
class PaperText:
    """A paper as text. `name` is its short name; `sha256` is the hash of what was read."""

    name: str
    title: str
    sections: tuple[Section, ...]
    sha256: str
    findings: tuple[Finding, ...] = ()
    troubles: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The whole paper, with Markdown headings."""
        return joined(self.title, self.sections)


def joined(title: str, sections: Iterable[Section]) -> str:
    """Return a title and sections as one text with Markdown headings."""
    parts = [f"# {title}"] if title else []
    for section in sections:
        parts.append(f"## {section.heading}\n\n{section.text}" if section.heading else section.text)
    return "\n\n".join(parts)


def read(path: Path) -> PaperText:
    """Read a paper: a PDF, a LaTeX file, folder or archive, a text, or a folder with paper.pdf.

    Raises UsageError if it is not a paper, and LibraryError if it cannot be read.
    """
    if not path.exists():
        raise UsageError(f"{path}: does not exist; give a paper's PDF, LaTeX or text")
    try:
        if path.is_dir() and (path / "paper.pdf").is_file():
            path = path / "paper.pdf"
        if path.is_dir():
            return _latex(path, FolderFiles(path), _folder_main(path))
        if path.suffix.lower() in (".txt", ".md"):
            return _plain(path)
        kind, what = sniff.kind_of(path)
        if kind == "pdf":
            return _pdf(path)
        if kind == "latex":
            archive = _is_archive(path)
            files: Files = ArchiveFiles(path) if archive else FolderFiles(path.parent)
            main = next(iter(mains(files)), "") if archive else path.name
            return _latex(path, files, main)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror or error}") from error
    what = what or kind or "no paper"
    raise UsageError(f"{path}: is {what}; give a paper's PDF, LaTeX or text")


def of_text(name: str, text: str, sha256: str = "") -> PaperText:
    """Return a paper given as text, split into sections at its Markdown headings."""
    marks = [(m.start(), m.end(), (m[1] or m[2]).strip(" *")) for m in _MARKDOWN.finditer(text)]
    title, pieces = "", list[Section]()
    edges = [(0, 0, ""), *marks]
    for place, (start, end, heading) in enumerate(edges):
        stop = edges[place + 1][0] if place + 1 < len(edges) else len(text)
        body = text[end:stop].strip()
        is_title = place == 1 and not pieces and (not body or text.startswith("# ", start))
        title = heading if is_title else title
        if body or (heading and not is_title):
            pieces.append(Section(heading="" if is_title else heading, text=body))
    title = title or next((line(p.text.split("\n")[0], 200) for p in pieces if p.text), name)
    digest = sha256 or hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
    return _screened(name, title, pieces, digest)


def _plain(path: Path) -> PaperText:
    data = read_regular(path, _MOST_BYTES)
    text, _ = text_lines.decode(data)
    return of_text(_name_of(path), text, hashlib.sha256(data).hexdigest())


def _screened(
    name: str,
    title: str,
    sections: Sequence[Section],
    sha256: str,
    findings: Sequence[Finding] = (),
    troubles: Sequence[str] = (),
) -> PaperText:
    """Return a paper without sentences addressed to reviewers; each becomes a finding."""
    told, kept = list(findings), list[Section]()
    for section in sections:
        heading, of_heading = instructions.without(section.heading)
        text, of_text = instructions.without(section.text)
        for sentence, why in (*of_heading, *of_text):
            inside = instructions.decoded(sentence)
            told.append(_finding("encoded text" if inside else "text", sentence, why, inside))
        kept.append(Section(heading=line(heading, 200), text=tame(text).strip()))
    named, of_title = instructions.without(title)
    told += [_finding("text", sentence, why, ()) for sentence, why in of_title]
    return PaperText(
        name=name,
        title=line(named, 300) or name,
        sections=tuple(kept),
        sha256=sha256,
        findings=tuple(told),
        troubles=tuple(troubles),
    )


def _finding(place: str, said: str, why: str, inside: Sequence[str]) -> Finding:
    quote = line(" / ".join([*inside]) or visible(said), _QUOTE)
    where = "encoded text" if place == "encoded text" else "text"
    return Finding(place=where, quote=quote, instructs=True, why=why)  # type: ignore[arg-type]


# PDF


def _pdf(path: Path) -> PaperText:
    data = read_regular(path, _MOST_BYTES)
    hidden = hidden_text.look(path)
    try:
        opened = PdfDocument(path)
        if opened.encrypted:
            raise LibraryError(f"{path}: it opens with a password only; give it without")
        count = min(opened.pages, _PAGES)
        pages = [page_text(opened.sheet(number)) for number in range(count)]
    except UnreadablePdf as error:
        raise LibraryError(f"{path}: damaged: {error}; make the PDF anew") from error
    troubles = [f"only the first {count} pages were read"] if opened.pages > count else []
    _take_out(pages, hidden.words)
    if not any(page.characters for page in pages):
        raise LibraryError(f"{path}: there is no text on its pages; run OCR first (ocrmypdf)")
    title, sections = _in_order(pages)
    findings = []
    for number, run in hidden.runs():
        why = instructions.why_of(run)
        if why or len(run.split()) >= _WORDS:
            findings.append(
                Finding(
                    place="hidden text",
                    quote=line(run, _QUOTE),
                    instructs=bool(why),
                    page=number + 1,
                    why=why,
                )
            )
    findings += _asides(hidden.asides)
    digest = hashlib.sha256(data).hexdigest()
    return _screened(_name_of(path), title, sections, digest, findings, troubles)


def _asides(asides: Iterable[hidden_text.Aside]) -> Iterator[Finding]:
    """Yield a finding for each instruction in metadata, notes and bookmarks.

    Reviewers are never shown these texts.
    """
    seen = set[str]()
    for aside in asides:
        for sentence, why in instructions.without(re.sub(r"<[^<>]*>", "\n\n", aside.text))[1]:
            if sentence not in seen:
                seen.add(sentence)
                quote = line(sentence, _QUOTE)
                yield Finding(
                    place=aside.place, quote=quote, instructs=True, page=aside.page, why=why
                )


def _take_out(pages: Sequence[PageText], words: Iterable[hidden_text.HiddenWord]) -> None:
    """Remove hidden words from the lines that contain them."""
    by_page: dict[int, list[hidden_text.HiddenWord]] = defaultdict(list)
    for word in words:
        by_page[word.page].append(word)
    for number, of_page in by_page.items():
        if number < len(pages):
            page = pages[number]
            for block in page.blocks:
                for row in block:
                    row.text = _without(row, of_page)
            page.blocks = [kept for b in page.blocks if (kept := [r for r in b if r.text])]


def _without(row: PageLine, words: Sequence[hidden_text.HiddenWord]) -> str:
    here = Counter(
        unicodedata.normalize("NFKC", word.text) for word in words if _inside(row, word.box)
    )
    if not here:
        return row.text
    kept = []
    for word in row.text.split():
        plain = unicodedata.normalize("NFKC", word)
        if here[plain]:
            here[plain] -= 1
        else:
            kept.append(word)
    return " ".join(kept)


def _inside(row: PageLine, box: hidden_text.Box) -> bool:
    x, y = (box[0] + box[2]) / 2 * _EIGHTHS, (box[1] + box[3]) / 2 * _EIGHTHS
    slack = _EIGHTHS
    return row.x0 - slack <= x <= row.x1 + slack and row.y0 - slack <= y <= row.y1 + slack


def _in_order(pages: Sequence[PageText]) -> tuple[str, list[Section]]:
    """Return the title, and the sections in reading order with formulas in place."""
    pieces = [piece for piece in read_order(pages) if piece.rows]
    named = front.find_title([piece for piece in pieces if piece.page == 0], "")
    on_first = [piece for piece in pieces if piece.page == 0]
    for place, row in sorted(named.rows, reverse=True):
        del on_first[place].rows[row]
    pieces = [piece for piece in pieces if piece.rows]
    size, bold = body_type(pieces)
    spelled = Spelled.of("\n".join(row.text for piece in pieces for row in piece.rows))
    heading, paragraphs, sections = "", list[str](), list[Section]()

    def end() -> None:
        if heading or paragraphs:
            sections.append(Section(heading=heading, text="\n\n".join(paragraphs)))

    for piece in pieces:
        for rows, is_heading in _rows(piece, size, bold):
            text = fixed("\n".join(row.text for row in rows), spelled)
            if is_heading:
                end()
                heading, paragraphs = text, []
            else:
                paragraphs.append(text)
    end()
    return named.title, sections


def _rows(piece: Piece, size: int, bold: bool) -> Iterator[tuple[list[PageLine], bool]]:
    rows, at, start = piece.rows, 0, 0
    while at < len(rows):
        count = headings.heading_rows(piece, at, size, bold)
        if count and _is_running(" ".join(row.text for row in rows[at : at + count])):
            count = 0
        if count:
            if start < at:
                yield rows[start:at], False
            yield rows[at : at + count], True
            start = at + count
        at += count or 1
    if start < len(rows):
        yield rows[start:], False


def _is_running(text: str) -> bool:
    """Return whether text set in a heading's type is prose.

    If most of a paper is an appendix in small type, all other text is larger than the body type.
    """
    begun = text[:1].islower() or text[:1] in "•·" or re.match(r"\[\d{1,3}\]", text) is not None
    return begun or text.endswith((".", ",", ";", ":")) or len(text.split()) > _HEADING


# LaTeX


def _folder_main(path: Path) -> str:
    files = [p for p in sorted(path.iterdir()) if p.suffix.lower() in sniff.LATEX_SUFFIXES]
    return next((p.name for p in files if sniff.is_main(p)), "")


def _is_archive(path: Path) -> bool:
    with text_lines.open_plain(path) as file:
        try:
            return sniff.is_tar(file.peek(512)[:512])
        except text_lines.DAMAGED_GZIP:
            return False


def _latex(path: Path, files: Files, main: str) -> PaperText:
    if not main:
        raise UsageError(f"{path}: there is no LaTeX document in it; give a paper's main file")
    raw = files.text(main) or ""
    whole, missing = flattened(files, main)
    macros, source = definitions(whole)
    # Packages' commands say which text is hidden, so they are expanded when that is taken out.
    expander = Expander({name: macro for name, macro in macros.items() if not macro.built_in})
    shaper = Expander({name: macro for name, macro in macros.items() if macro.built_in})
    head, *rest = BEGIN.split(source, maxsplit=1)
    body = expander.expand(rest[0] if rest else head)
    body = END.split(filled(files, main, body), maxsplit=1)[0]
    head = expander.expand(head) if rest else ""
    white = hidden_text.whites(whole)
    shown, hidden = hidden_text.without(body, white)
    _, of_head = hidden_text.without(head, white)
    shown, head = shaper.expand(shown), shaper.expand(head)
    title = latex_document.title_of(head) or latex_document.title_of(body) or path.stem
    sections = _tex_sections(shown.replace(r"\maketitle", ""))
    cited = latex_document.references(files, main, without_comments(whole))
    if cited and r"\bibitem" not in shown:
        sections.append(Section(heading="References", text="\n".join(cited)))
    findings = list(_unseen(hidden, "source"))
    after = END.split(without_comments(raw), maxsplit=1)[1:]
    findings += [f for text in (*of_head, *after) for f in _unseen([text], "source", 10**6)]
    texts = (
        files.text(name) or ""
        for name in files.names()
        if name != main and name.endswith(sniff.LATEX_SUFFIXES)
    )
    for text in (raw, *texts):
        findings += _unseen(hidden_text.comments(text), "comment", 10**6)
    digest = hashlib.sha256(whole.encode("utf-8", "replace")).hexdigest()
    return _screened(_name_of(path), title, sections, digest, findings, missing)


def _unseen(texts: Iterable[str], place: str, words: int = _WORDS) -> Iterator[Finding]:
    """Yield a finding for each unseen text that instructs or has at least `words` words."""
    for text in texts:
        why = next((w for _, w in instructions.without(text)[1]), "")
        if why or len(text.split()) >= words:
            quote = line(text, _QUOTE)
            yield Finding(place=place, quote=quote, instructs=bool(why), why=why)  # type: ignore[arg-type]


def _tex_sections(body: str) -> list[Section]:
    """Return a document's sections as LaTeX source, including tables and formulas."""
    edges = [(0, 0, "")]
    for found in _TEX_HEADING.finditer(body):
        end = hidden_text.group_end(body, found.end())
        edges.append((found.start(), end + 1, body[found.end() : end].strip()))
    pieces = []
    for place, (_, end, heading) in enumerate(edges):
        stop = edges[place + 1][0] if place + 1 < len(edges) else len(body)
        text = re.sub(r"\n{3,}", "\n\n", body[end:stop]).strip()
        if heading or text:
            pieces.append(Section(heading=heading, text=text))
    return pieces


def _name_of(path: Path) -> str:
    """Return a paper's short name: its file's, or its folder's if the file's name is generic."""
    resolved = path.resolve()
    stem = resolved.name.split(".")[0] if resolved.is_file() else resolved.name
    name = resolved.parent.name if stem.lower() in _GENERIC and resolved.parent.name else stem
    return re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-")[:60] or "paper"
