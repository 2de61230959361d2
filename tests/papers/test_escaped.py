"""Strangers' words as LaTeX, BibTeX, HTML and Typst: printed, and never obeyed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typesetting_kit import PAPERS, document, manuscript

from hpcscientist.literature.sources.records.bibtex import read
from hpcscientist.papers.typesetting import escape, html, preview
from hpcscientist.papers.typesetting.bibliography import bibtex, entries
from hpcscientist.records.literature import Paper
from hpcscientist.records.manuscript import Paragraph, Section, Text

HOSTILE = (
    "\\write18{touch x}",
    "\\input{/etc/passwd}",
    "\\loop\\iftrue\\repeat",
    "^^5cinput x",
    "\\immediate\\openout3=../x",
    "\\hyperlink{hpc.x}{9}",
    "}\\end{document}",
    "% the rest is a comment",
    "$\\number\\numexpr 1+1$",
    "\\csname @@input\\endcsname",
    "<script>alert(1)</script>",
    "&lt;img src=x onerror=alert(1)&gt;",
    '#import "@preview/x"; #read("/etc/passwd")',
    '"); #panic("x"',
    "line\nbreak\x00\x1b[31m\u202e\u200b",
)
# What escaping may write: macros of its own, of accents and of symbols, each closed at once.
_OBEYED = re.compile(
    r"\\(?:input|write|immediate|openin|openout|read|csname|loop|def|gdef|edef|let|catcode|end|begin|"
    r"hyperlink|href|include|usepackage|special|pdf\w+|directlua|numexpr|number|char)(?![a-zA-Z])"
)


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_words_become_letters(text: str) -> None:
    made = escape.latex(text)
    assert _OBEYED.search(made) is None
    assert _is_closed(made)


@given(st.text(max_size=60))
def test_any_text_is_closed_and_says_nothing_to_tex(text: str) -> None:
    made = escape.latex(text)
    assert _is_closed(made)
    assert _OBEYED.search(made) is None
    assert "\n" not in made


def _is_closed(made: str) -> bool:
    """Whether braces match and no character is left that TeX reads as more than a letter."""
    bare = re.sub(r"\\[\\{}$&#%_~^]", "", made)
    depth = 0
    for character in bare:
        depth += {"{": 1, "}": -1}.get(character, 0)
        if depth < 0:
            return False
    # `~` is a space that does not break; of others' characters none is left as it was.
    return depth == 0 and not re.search(r"[%#&]|(?<!\\)\^\^", re.sub(r"\\\W", "", bare))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("100 %", r"100 \%"),
        ("a_b", r"a\_b"),
        ("é", r"\'{e}"),
        ("ß", r"{\ss}"),
        ("\N{MINUS SIGN}", r"\ensuremath{-}"),
        ("中", escape.UNKNOWN),
        ("ﬁ", "{fi}"),
    ],
)
def test_characters(text: str, expected: str) -> None:
    assert escape.latex(text) == expected


def test_what_the_fonts_lack_is_named() -> None:
    assert escape.lacking("中 and é and 中村") == "中村"


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("6.1e-5", "6.1×10\N{MINUS SIGN}5"),
        ("[+0.1, +0.2]", "[+0.1,+0.2]"),
        ("1e6", "1×106"),
        ("\N{MINUS SIGN}1.5 CPU-hours", "\N{MINUS SIGN}1.5CPU-hours"),
        ("one-2e", "one-2e"),
    ],
)
def test_a_number_is_read_as_it_is_set(text: str, seen: str) -> None:
    assert escape.as_seen(text) == seen


def test_powers_of_ten_are_raised() -> None:
    assert escape.number("6.1e-5") == r"6.1\ensuremath{\times}10\textsuperscript{\ensuremath{-}5}"


def test_bibtex_is_read_again_as_it_was(tmp_path: Path) -> None:
    own = (PAPERS[0], PAPERS[0].model_copy(update={"paper_id": "doi:2", "doi": "10.1000/182"}))
    found = entries(own)
    assert [entry.key for entry in found] == ["lecun1998gradient", "lecun1998gradienta"]
    (tmp_path / "refs.bib").write_text(bibtex(found))
    again = [paper for paper in read(tmp_path / "refs.bib", "refs.bib") if isinstance(paper, Paper)]
    assert [(p.title, p.year, p.doi) for p in again] == [(p.title, p.year, p.doi) for p in own]
    assert [len(p.authors) for p in again] == [4, 4]
    assert all("Bottou" in p.authors[1] and "é" in p.authors[1] for p in again)


def test_a_hostile_record_ends_no_entry() -> None:
    text = bibtex(entries(PAPERS))
    assert text.count("\n@") + text.startswith("@") == len(PAPERS)
    assert _OBEYED.search(text) is None
    plain = re.sub(r"\\[{}]", "", text)
    assert plain.count("{") == plain.count("}")


@pytest.mark.parametrize("words", HOSTILE)
def test_html_holds_no_markup_of_strangers(words: str, tmp_path: Path) -> None:
    page = html.paper(document(tmp_path, _saying(words)))
    body = page.partition("<body>")[2]
    assert "<script" not in body
    assert "onerror=" not in re.sub(r"&[a-z]+;.*?&[a-z]+;", "", body)
    assert "default-src 'none'" in page


@pytest.mark.parametrize("words", HOSTILE)
def test_typst_holds_words_as_strings_alone(words: str, tmp_path: Path) -> None:
    source = preview.typst(document(tmp_path, _saying(words)))
    outside = re.sub(r'"(?:[^"\\\n]|\\.)*"', '""', source)
    assert '"' not in outside.replace('""', "")
    assert "import" not in outside
    assert "read" not in outside


def _saying(words: str) -> object:
    """A manuscript with such words, which no parser of ours would have let through."""
    made = manuscript()
    section = Section(
        id="introduction",
        title=words.replace("\n", " ")[:60],
        blocks=(Paragraph(parts=(Text(text=words),)),),
    )
    return made.model_copy(update={"sections": (section, *made.sections), "title": words})
