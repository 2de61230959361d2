"""What a LaTeX document cites: from its bibliography, its .bbl, or the .bib files that it names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from hpcscientist.literature.sources import ids, text
from hpcscientist.literature.sources import tex as latex_text
from hpcscientist.literature.sources.base import Trouble
from hpcscientist.literature.sources.latex import parts as latex_parts
from hpcscientist.literature.sources.latex.files import Files
from hpcscientist.literature.sources.latex.macros import Expander, definitions, group, option
from hpcscientist.literature.sources.records import bibtex

_REFERENCE_CHARACTERS = 500
_ITEM = re.compile(r"\\bibitem(?![a-zA-Z])")
_NAMED = re.compile(r"\\(?:bibliography|addbibresource)\s*(?:\[[^\]]*\])?\s*\{([^{}]*)\}")
_ENTRY = re.compile(r"\\entry\s*\{")
_FIELD = re.compile(
    r"\\(?:field|list)\s*\{(title|year|journaltitle)\}\s*(?:\{\d+\})?\s*\{([^{}]*(?:\{[^{}]*\}[^{}]*)*)\}"
)
_VERB = re.compile(r"\\verb\s*\{(doi|eprint)\}\s*\\verb\s+(\S+)")
_FAMILY = re.compile(r"family=\{([^{}]*)\}")


def references(files: Files, main: str, document: str) -> tuple[str, ...]:
    """Return what is cited: ids where an entry has one, else the entry as it is printed."""
    found = list(_of_bibliography(document))
    if not found:
        found = list(_of_bbl(files, main))
    if not found:
        found = list(_of_bib(files, main, document))
    return tuple(dict.fromkeys(r for r in found if r))[: text.REFERENCES]


def _of_bibliography(source: str) -> Iterator[str]:
    marks = list(_ITEM.finditer(source))
    for number, mark in enumerate(marks):
        end = marks[number + 1].start() if number + 1 < len(marks) else len(source)
        label = option(source, mark.end())
        key = group(source, label[1] if label else mark.end())
        if key:
            printed = source[key[1] : end].partition(r"\end{thebibliography}")[0]
            yield _reference(printed)


def _reference(printed: str) -> str:
    plain = latex_parts.printable(printed[:5_000].replace(r"\newblock", " "))
    plain = " ".join(plain.split())
    return _id_in(printed.replace("\\", "")) or text.one_line(plain, _REFERENCE_CHARACTERS)


def _id_in(source: str) -> str:
    doi, arxiv_id = (
        ids.normal_doi(source.replace("{", " ").replace("}", " ")),
        ids.find_arxiv(source),
    )
    return ids.paper_id("", doi=doi, arxiv_id=arxiv_id) if doi or arxiv_id else ""


def _of_bbl(files: Files, main: str) -> Iterator[str]:
    own = str(PurePosixPath(main).with_suffix(".bbl"))
    folder = PurePosixPath(main).parent
    beside = [n for n in files.names() if n.endswith(".bbl") and PurePosixPath(n).parent == folder]
    source = files.text(own) or (files.text(beside[0]) if len(beside) == 1 else None) or ""
    if _ENTRY.search(source):
        for entry in _ENTRY.split(source)[1:]:
            yield _of_biblatex(entry.partition(r"\endentry")[0])
    else:
        yield from _of_bibliography(source)


def _of_biblatex(entry: str) -> str:
    fields, verbs = dict(_FIELD.findall(entry)), dict(_VERB.findall(entry))
    doi, arxiv_id = ids.normal_doi(verbs.get("doi", "")), ids.normal_arxiv(verbs.get("eprint", ""))
    if doi or arxiv_id:
        return ids.paper_id("", doi=doi, arxiv_id=arxiv_id)
    people = ", ".join(_FAMILY.findall(entry)[:10])
    parts = [people, *(fields.get(f, "") for f in ("title", "journaltitle", "year"))]
    printed = ". ".join(latex_text.plain(p) for p in parts if p)
    return text.one_line(printed, _REFERENCE_CHARACTERS)


def _of_bib(files: Files, main: str, document: str) -> Iterator[str]:
    keys = set(latex_parts.cited(document))
    names = ",".join(_NAMED.findall(document))
    if "\\" in names:
        names = Expander(definitions(document)[0]).expand(names)
    for named in map(str.strip, names.split(",")):
        path = PurePosixPath(main).parent / (named if named.endswith(".bib") else f"{named}.bib")
        for entry in bibtex.entries_of(files.text(str(path)) or ""):
            if isinstance(entry, Trouble) or not (entry.key in keys or "*" in keys):
                continue
            paper = bibtex.paper_of(entry, "")
            if paper is not None and not paper.paper_id.startswith("title:"):
                yield paper.paper_id
            elif paper is not None:
                parts = [
                    ", ".join(paper.authors[:10]),
                    paper.title,
                    paper.venue,
                    str(paper.year or ""),
                ]
                yield text.one_line(". ".join(p for p in parts if p), _REFERENCE_CHARACTERS)
