"""LaTeX: a document and what it includes, from a folder or from an archive as arXiv gives it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from hpcscientist.literature.sources import ids, lines, sniff, text
from hpcscientist.literature.sources.base import Item, trouble
from hpcscientist.literature.sources.latex import head as latex_head
from hpcscientist.literature.sources.latex import parts as latex_parts
from hpcscientist.literature.sources.latex import references as latex_references
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
from hpcscientist.records.known.literature import Paper

_TOLD = 10
_ENDINGS = (".gz", ".tar", ".tgz", ".tex", ".ltx", ".latex")
_OLD_NAME = re.compile(r"([a-z-]+(?:\.[A-Z]{2})?)_?(\d{7})(v\d+)?")


def read(path: Path, origin: str) -> Iterator[Item]:
    """Yield the paper of a main file or an archive, or those of a folder's main files.

    Raises OSError.
    """
    if path.is_dir():
        for main in sorted(path.iterdir()):
            if main.suffix.lower() in sniff.LATEX_SUFFIXES and sniff.is_main(main):
                yield from _document(
                    FolderFiles(path),
                    main.name,
                    f"{origin}/{text.shown(Path(main.name))}",
                    _arxiv_id(main),
                )
        return
    if _is_archive(path):
        yield from _archive(path, origin)
        return
    yield from _document(_WithMain(path), path.name, origin, _arxiv_id(path))


class _WithMain(FolderFiles):
    """A folder's files, of which the main one was named and may be packed or a link."""

    def __init__(self, path: Path) -> None:
        super().__init__(path.parent)
        self._main = path

    def text(self, name: str) -> str | None:
        return lines.read_text(self._main)[0] if name == self._main.name else super().text(name)


def _is_archive(path: Path) -> bool:
    with lines.open_plain(path) as file:
        try:
            return sniff.is_tar(file.peek(512)[:512])
        except lines.DAMAGED_GZIP:
            return False


def _archive(path: Path, origin: str) -> Iterator[Item]:
    files = ArchiveFiles(path)
    if files.problem:
        yield trouble(origin, files.problem)
    found = mains(files) or [n for n in files.names() if n.endswith(".tex")][:1]
    if not found:
        yield trouble(origin, "an archive without a LaTeX document in it")
        return
    yield from _document(files, found[0], origin, _arxiv_id(path))


def _document(files: Files, main: str, origin: str, arxiv_id: str) -> Iterator[Item]:
    whole, missing = flattened(files, main)
    yield from (trouble(origin, reason) for reason in missing[:_TOLD])
    if len(missing) > _TOLD:
        yield trouble(origin, f"{len(missing) - _TOLD} more inputs that are not there")
    macros, source = definitions(latex_parts.silent(whole))
    expander = Expander(macros)
    head, *rest = BEGIN.split(source, maxsplit=1)
    head, body = expander.expand(head), expander.expand(rest[0] if rest else head)
    more = filled(files, main, body)
    body = body if more == body else expander.expand(latex_parts.silent(more))
    body = END.split(body, maxsplit=1)[0]
    title = latex_head.title(head) or latex_head.title(body)
    if not title:
        yield trouble(origin, r"no \title in it")
        return
    yield _paper(files, main, whole, (title, head, body), origin, arxiv_id)


def _paper(
    files: Files, main: str, whole: str, parts: tuple[str, str, str], origin: str, arxiv_id: str
) -> Paper:
    title, head, body = parts
    abstract, rest = latex_parts.abstract(body)
    if not abstract:
        abstract, head = latex_parts.abstract(head)
    found = list(latex_parts.sections(_without_title(rest)))
    authors = latex_head.authors(head) or latex_head.authors(body)
    year = ids.arxiv_year(arxiv_id) or text.year_of(latex_head.argument_of(head, "date"))
    doi = ids.normal_doi(latex_head.argument_of(head, "(?:acmDOI|doi)"))
    return Paper(
        paper_id=ids.paper_id(title, year, authors, doi=doi, arxiv_id=arxiv_id),
        title=title,
        abstract=abstract,
        authors=authors,
        year=year,
        doi=doi,
        arxiv_id=arxiv_id,
        url=f"https://arxiv.org/abs/{arxiv_id}" if arxiv_id else "",
        sections=tuple(section for section, _ in found if section.text),
        formulas=tuple(formula for _, formulas in found for formula in formulas),
        references=latex_references.references(files, main, without_comments(whole)),
        source="latex",
        origin=origin,
    )


def _without_title(body: str) -> str:
    """Drop what comes before \\maketitle where a document has its title after its beginning."""
    before, made, after = body.partition(r"\maketitle")
    return after if made and not re.search(r"\\section", before) else body


def _arxiv_id(path: Path) -> str:
    """Return the arXiv id that a file, or the folder it lies in, is named by."""
    for name in (path.name, path.absolute().parent.name):
        bare = name
        while bare.endswith(_ENDINGS):
            bare = bare.rpartition(".")[0]
        old = _OLD_NAME.fullmatch(bare)
        found = ids.normal_arxiv(f"{old.group(1)}/{old.group(2)}" if old else bare)
        if found:
            return found
    return ""
