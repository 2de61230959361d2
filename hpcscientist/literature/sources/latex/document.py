"""Reads a LaTeX document with its included files, from a folder or an archive as from arXiv."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path, PurePosixPath

from hpcscientist.literature.sources import ids, lines, sniff, text
from hpcscientist.literature.sources import tex as latex_text
from hpcscientist.literature.sources.base import Item, Trouble, trouble
from hpcscientist.literature.sources.latex import parts as latex_parts
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
from hpcscientist.literature.sources.latex.macros import (
    Expander,
    command,
    definitions,
    group,
    option,
)
from hpcscientist.literature.sources.records import bibtex
from hpcscientist.records.literature import Paper

# A LaTeX document's title and authors, and arguments of other commands before its text.

_TITLES = 20
_AUTHORS = 500
_AUTHOR_CHARACTERS = 20_000
_TITLE = re.compile(r"\\(?:title|icmltitle|Title|papertitle|TITLE)(?![a-zA-Z])")
_AUTHOR = re.compile(r"\\(?:author|icmlauthor|Author|IEEEauthorblockN)(?![a-zA-Z])\*?")
_ASIDE = re.compile(
    r"\\(?:thanks|footnote|footnotemark|inst|textsuperscript|[eE]mail|affil|affiliation|orcid|orcidID"
    r"|institute|address|vspace|hspace|thanksref|corref|fnref|tnoteref|footnotetext|label|IEEEauthorblockA|IEEEmembership"
    r"|IEEEauthorrefmark|orcidlink|orcid[A-Z])(?![a-zA-Z])\*?"
)
_BETWEEN = re.compile(
    r"\\(?:quad|qquad)(?![a-zA-Z])|,[\s~]*(?:(?:and|\\&)[\s~]+)?|(?<![\s~])[\s~]+(?:and|\\&)[\s~]+|;"
)
_NO_NAME = re.compile(  # formulas with the numbers of notes, addresses, columns
    r"\$[^$]*\$|(?:\b[\w-]{1,20}:\s?)?(?:\\?\{[^{}]{0,200}\}|[^\s{}]{0,100})@[^\s{}]*|[\d*†‡§]"
    r"|\\begin\s*\{tabular\}(?:\[[^\]]*\])?\{[^{}]*\}"
)
_SUFFIX = re.compile(r"(?:Jr|Sr|II|III|IV|PhD|Ph\.D|MD)\.?", re.IGNORECASE)
_BREAK = re.compile(r"\\\\(?:\[[^\]]*\])?|\\newline(?![a-zA-Z])|\n\s*\n")


def title_of(source: str) -> str:
    """Return the title; "" if there is none."""
    for found in islice(_TITLE.finditer(source), _TITLES):
        inside = command(source, found.end())
        if inside:
            bare = _BREAK.sub(" ", _without_asides(inside[0]))
            printed = text.one_line(latex_text.plain(bare[:5_000]), text.TITLE_CHARACTERS)
            if printed:
                return printed
    return ""


def authors_of(source: str) -> tuple[str, ...]:
    """Return the authors' names, as far as they can be separated from affiliations and notes."""
    names: list[str] = []
    for found in islice(_AUTHOR.finditer(source), _AUTHORS):
        inside = command(source, found.end(), _AUTHOR_CHARACTERS)
        if not inside:
            continue
        nested = list(_AUTHOR.finditer(inside[0]))
        if not nested:
            names += _names(_without_asides(inside[0]))
    return tuple(dict.fromkeys(names))[: text.AUTHORS]


def _names(block: str) -> Iterator[str]:
    for person in re.split(r"\\(?:and|And|AND|qquad)(?![a-zA-Z])", block):
        first = next((p for p in _BREAK.split(person) if p.strip()), "")
        for part in _BETWEEN.split(_NO_NAME.sub("", first)):
            name = text.one_line(latex_text.plain(part), 200).strip(" ,;.~")
            if name and not _SUFFIX.fullmatch(name) and len(name.split()) <= 6:
                yield name


def _without_asides(source: str) -> str:
    parts, done = list[str](), 0
    for found in _ASIDE.finditer(source):
        if found.start() < done:
            continue
        parts.append(source[done : found.start()])
        inside = command(source, found.end())
        noted = option(source, found.end())
        done = inside[1] if inside else noted[1] if noted else found.end()
    return "".join([*parts, source[done:]])


def argument_of(source: str, name: str) -> str:
    r"""Return the argument in braces after the first \\name; "" if there is none."""
    found = re.search(rf"\\{name}(?![a-zA-Z])", source)
    inside = group(source, found.end()) if found else None
    return inside[0].strip() if inside else ""


# The references of a LaTeX document: from its bibliography, its .bbl, or the .bib files it names.

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
    """Return the references: an entry's id if it has one, else the entry as printed."""
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


_TOLD = 10
_ENDINGS = (".gz", ".tar", ".tgz", ".tex", ".ltx", ".latex")
_OLD_NAME = re.compile(r"([a-z-]+(?:\.[A-Z]{2})?)_?(\d{7})(v\d+)?")


def read(path: Path, origin: str) -> Iterator[Item]:
    """Yield the paper of a main file or an archive, or the papers of a folder's main files.

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
    """A folder's files with a given main file, which may be gzipped or a link out of the folder."""

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
    title = title_of(head) or title_of(body)
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
    authors = authors_of(head) or authors_of(body)
    year = ids.arxiv_year(arxiv_id) or text.year_of(argument_of(head, "date"))
    doi = ids.normal_doi(argument_of(head, "(?:acmDOI|doi)"))
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
        references=references(files, main, without_comments(whole)),
        source="latex",
        origin=origin,
    )


def _without_title(body: str) -> str:
    """Drop the text before \\maketitle, or Elsevier's front matter, if it has no section."""
    for span in latex_parts.spans(body, "frontmatter"):
        if r"\section" not in body[span.begin : span.end]:
            return body[: span.begin] + body[span.end :]
    before, made, after = body.partition(r"\maketitle")
    return after if made and not re.search(r"\\section", before) else body


def _arxiv_id(path: Path) -> str:
    """Return the arXiv id in the name of a file or of its folder; "" if there is none."""
    for name in (path.name, path.absolute().parent.name):
        bare = name
        while bare.endswith(_ENDINGS):
            bare = bare.rpartition(".")[0]
        old = _OLD_NAME.fullmatch(bare)
        found = ids.normal_arxiv(f"{old.group(1)}/{old.group(2)}" if old else bare)
        if found:
            return found
    return ""
