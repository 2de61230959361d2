"""BibTeX as people keep it: accents, strings, damage, and files of any length."""

from __future__ import annotations

import re
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcscientist.literature.sources.base import Item, Trouble
from hpcscientist.literature.sources.records import bibtex
from hpcscientist.literature.sources.tex import plain
from hpcscientist.records.literature import Paper


def _read(tmp_path: Path, source: str | bytes) -> list[Item]:
    path = tmp_path / "refs.bib"
    path.write_bytes(source if isinstance(source, bytes) else source.encode())
    return list(bibtex.read(path, "refs.bib"))


def _papers(items: list[Item]) -> list[Paper]:
    return [i for i in items if isinstance(i, Paper)]


SOURCE = r"""
This text is a comment.
@comment{ignored, title={No}}
@preamble{"\newcommand{\x}{y}"}
@string{jmlr = "Journal of {Machine} Learning Research"}
@Article{a1,
  Title   = {{\"U}ber {BERT} and $\alpha^2$-stable 50\% {\em maps}: na{\"\i}ve},
  author  = "M{\"u}ller, Karl and {The ATLAS Collaboration}
             and de la Vall{\'e}e, Jr., C. and others",
  journal = jmlr # ", " # {Series B},
  year    = 2019, month = jan,
  doi     = {https://doi.org/10.1000/ABC\_1},
  abstract= {We gain 50% over Erd\H{o}s.
             Twice.},
}
@inproceedings(p2, title = "Second", editor = {A. Bee and Dee, C.}, date = {2020-05-01},
  eprint = {2001.01234v2}, archivePrefix = {arXiv}, booktitle = {Proc. X})
@misc{m3, title={Third}, title={again},
  howpublished={arXiv:hep-th/9901001}, url={https://x.y/a\_b}}
"""


def test_what_people_write(tmp_path: Path) -> None:
    first, second, third = _papers(_read(tmp_path, SOURCE))
    assert first == Paper(
        paper_id="doi:10.1000/abc_1",
        title=r"Über BERT and $\alpha^2$-stable 50% maps: naïve",
        abstract="We gain 50% over Erdős. Twice.",
        authors=("Karl Müller", "The ATLAS Collaboration", "C. de la Vallée Jr."),
        year=2019,
        venue="Journal of Machine Learning Research, Series B",
        doi="10.1000/abc_1",
        source="bibtex",
        origin="refs.bib:6",
    )
    assert (second.paper_id, second.authors) == ("arxiv:2001.01234", ("A. Bee", "C. Dee"))
    assert (second.year, second.venue, second.origin) == (2020, "Proc. X", "refs.bib:16")
    assert (third.title, third.arxiv_id, third.url) == (
        "Third",
        "hep-th/9901001",
        "https://x.y/a_b",
    )


def test_damage_costs_one_entry(tmp_path: Path) -> None:
    items = _read(
        tmp_path,
        "@article{a, title={One}}\n@article{b, title={Two\n@article{c, title={Three}}\n"
        "@misc{d, year=1999}\n@misc{e, title={Five}",
    )
    assert [p.title for p in _papers(items)] == ["One", "Three", "Five"]
    told = [f"{t.origin} {t.reason}" for t in items if isinstance(t, Trouble)]
    expected = (
        "refs.bib:2 damaged entry: ",
        "refs.bib:4 .*'d' .*title",
        "refs.bib:5 damaged entry: ",
    )
    assert len(told) == len(expected)
    assert all(map(re.match, expected, told))


@pytest.mark.parametrize("source", ["", "nothing here", "@", "%", "@article{", "\\"])
def test_a_file_without_entries_says_so(tmp_path: Path, source: str) -> None:
    assert "no entry" in [i for i in _read(tmp_path, source) if isinstance(i, Trouble)][-1].reason


def test_encodings_and_line_ends(tmp_path: Path) -> None:
    source = "@misc{a,\r\n title={Größe}\r\n}\r\n@misc{b, title={深度学习}}\r\n"
    expected = ["Größe", "深度学习"]
    assert [p.title for p in _papers(_read(tmp_path, source))] == expected
    assert [p.title for p in _papers(_read(tmp_path, source.encode("utf-16")))] == expected
    assert [p.title for p in _papers(_read(tmp_path, source.replace("\r\n", "\r")))] == expected
    mixed = "@misc{a, title={Größe}}\n".encode("latin-1") + "@misc{b, title={Größer}}\n".encode()
    assert [p.title for p in _papers(_read(tmp_path, mixed))] == ["Größe", "Größer"]


@pytest.mark.full
def test_a_long_file_is_never_held(tmp_path: Path) -> None:
    entry = "@article{k%d,\n  title = {Title %d},\n  abstract = {" + "word " * 1000 + "}\n}\n"
    path = tmp_path / "long.bib"
    with path.open("w") as file:
        file.write("@misc{huge, title={\n" + ("x" * 1000 + "\n") * 9000 + "}}\n")
        for number in range(300):
            file.write(entry % (number, number))
    list(bibtex.entries_of("@misc{a, title={b}}"))  # imports what is imported when used
    tracemalloc.start()
    items = list(bibtex.read(path, "x"))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(_papers(items)) == 300
    assert "more than 1 MiB" in next(i.reason for i in items if isinstance(i, Trouble))
    assert peak < 9 * 2**20 < path.stat().st_size


@given(st.text(st.sampled_from('@article{}(),="#\\\n ab$%1'), max_size=200))
def test_no_text_crashes_it(source: str) -> None:
    for item in bibtex.entries_of("@misc{x, title={T}}\n" + source):
        assert isinstance(item, Trouble) or bibtex.paper_of(item, "x") is not False


@given(st.text(max_size=60))
def test_any_name_is_some_name(name: str) -> None:
    assert all(n == n.strip() != "" for n in bibtex.names_of(name))


@pytest.mark.timeout(120)  # trying every pair would take hours
@pytest.mark.parametrize(
    "piece",
    ["{", "a={", 'a="', "a=b ", "\na = {", "a={b}#", "\\{", "@a{b,", "\n", " and ", "{ and "],
)
def test_what_is_opened_again_and_again_ends(piece: str) -> None:
    within = "@misc{k, title={T}, " + piece * (200_000 // len(piece))
    author = "@misc{k, title={T}, author={" + piece * (50_000 // len(piece)) + "}}"
    for source in (within, author):
        found = [e for e in bibtex.entries_of(source) if isinstance(e, bibtex.BibEntry)]
        assert bibtex.paper_of(found[0], "") is not None


def test_a_word_of_any_length_is_read_at_once() -> None:
    (entry,) = bibtex.entries_of("@misc{k, title=b " + "x" * 900_000 + "=c}")
    assert isinstance(entry, bibtex.BibEntry)
    assert entry.fields["title"] == "b"


def test_papers_wait_for_the_volume_that_they_name_and_no_longer(tmp_path: Path) -> None:
    source = (
        "@inproceedings{a, title={One}, crossref={V}}\n@misc{b, title={Two}}\n"
        "@proceedings{v, title={Proc. of X}, year=2019}\n"
        "@inproceedings{c, title={Three}, crossref={v}, year=2020}\n"
        "@inproceedings{d, title={Four}, crossref={never}}\n"
    )
    papers = _papers(_read(tmp_path, source))
    assert [(p.title, p.year, p.venue) for p in papers] == [
        ("Two", None, ""),
        ("Proc. of X", 2019, ""),
        ("One", 2019, "Proc. of X"),
        ("Three", 2020, "Proc. of X"),
        ("Four", None, ""),
    ]


def test_brackets_that_never_close_are_read_at_once() -> None:
    """The LaTeX parser tries twice as much for each; forty of them took it for ever."""
    assert plain(r"\color[" * 40 + "Ann Bee").endswith("[Ann Bee")
