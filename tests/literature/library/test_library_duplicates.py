"""Records of the same paper become one, whatever their order and the library's history."""

from __future__ import annotations

import gzip
import json
from itertools import permutations
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from library_kit import article, papers, write_abstracts, write_bib

from hpcscientist.literature.library.build import BuildOptions, build
from hpcscientist.literature.library.keys import plain_id, same_paper, surnames, title_key
from hpcscientist.literature.library.sameness import merged
from hpcscientist.literature.library.store import open_store
from hpcscientist.records.literature import Formula, Paper, Section

LONG = "A long title that hardly two papers share"


def paper(origin: str, **more: object) -> Paper:
    fields = {"paper_id": f"title:{origin}", "title": LONG, "source": "bibtex", "origin": origin}
    return Paper.model_validate({**fields, **more})


def test_catalogue_and_text_are_brought_together() -> None:
    catalogue = paper(
        "refs.bib:1",
        paper_id="doi:10.1/x",
        doi="10.1/x",
        year=2020,
        abstract="The catalogue's.",
        citations=3,
    )
    text = paper(
        "a.pdf",
        source="pdf",
        title="A LONG TITLE that hardly two papers share",
        abstract="From the page, with a foot-\nnote",
        sections=(Section(heading="1", text="all of it"),),
        formulas=(Formula(text="E = m"),),
        references=("Somebody, Something", "Somebody else, Something else"),
    )
    dump = paper(
        "dump:7", source="openalex", paper_id="openalex:W1", citations=5, references=("doi:10.1/y",)
    )
    for order in permutations([catalogue, text, dump]):
        one = merged(order)
        assert one.paper_id == "doi:10.1/x"
        assert (one.title, one.year, one.citations) == (LONG, 2020, 5)
        assert one.abstract == "The catalogue's."
        assert (one.sections, one.formulas) == (text.sections, text.formulas)
        assert one.references == text.references
        assert (one.source, one.origin) == ("pdf", "a.pdf; dump:7; refs.bib:1")


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ({}, {}, True),
        ({"title": "Introduction"}, {"title": "Introduction"}, False),  # of which book?
        ({"title": "Deep learning", "authors": ("Y. LeCun",)}, {"title": "Deep learning"}, False),
        (
            {"title": "Deep learning", "authors": ("Y. LeCun", "Y. Bengio")},
            {"title": "Deep learning", "authors": ("Bengio, Yoshua",)},
            True,
        ),
        ({"authors": ("Ada Lovelace",)}, {"authors": ("Gauss, C. F.",)}, False),
        ({"authors": ("Kurt Gödel",)}, {"authors": ("Godel K",)}, True),
        ({"authors": ("Sammy Davis Jr.",)}, {"authors": ("Davis, Sammy",)}, True),
        ({"year": 2017}, {"year": 2019}, True),  # a preprint and its journal
        ({"year": 1995}, {"year": 2010}, False),  # two editions
        ({"arxiv_id": "1701.00001"}, {"arxiv_id": "1701.00002"}, False),
        ({"arxiv_id": "1701.00001v2"}, {"arxiv_id": "1701.00001"}, True),
        ({"title": "Статья о методе"}, {"title": "Статья о методе"}, True),
        ({"title": "关于收敛性的研究"}, {"title": "关于收敛性的研究"}, True),
    ],
)
def test_same_title_is_not_always_the_same_paper(
    one: dict[str, object], other: dict[str, object], same: bool
) -> None:
    first, second = paper("a", **one), paper("b", **other)
    assert same_paper(first, second) is same
    assert same_paper(second, first) is same


def test_ids_have_one_spelling() -> None:
    for text in ("doi:10.1000/ABC", "doi:https://doi.org/10.1000/abc"):
        assert plain_id(text) == "doi:10.1000/abc"
    for text in ("arxiv:1701.00001v3", "arXiv:1701.00001", "doi:10.48550/arXiv.1701.00001"):
        assert plain_id(text.replace("arXiv:", "arxiv:")) == "arxiv:1701.00001"
    assert plain_id("title:x") == "title:x"
    assert surnames(["LeCun, Yann", "Geoffrey E. Hinton", "Bengio Y", ""]) == {
        "lecun",
        "hinton",
        "bengio",
    }
    assert title_key("Attention is all you need.") == title_key("ATTENTION IS ALL YOU NEED")


def test_three_sources_of_one_paper(tmp_path: Path) -> None:
    preprint = write_abstracts(tmp_path / "a.jsonl", 1)
    record = json.loads(preprint.read_text())
    bib = write_bib(
        tmp_path / "b.bib", {"x": article(record["title"], 2018, doi="10.1000/x", journal="J")}
    )
    packed = tmp_path / "again.jsonl.gz"
    packed.write_bytes(gzip.compress(preprint.read_bytes()))
    out = tmp_path / "library"
    report = build([preprint, bib, packed], out)
    assert (report.documents, report.papers) == (3, 1)
    (one,) = papers(out).values()
    assert (one.paper_id, one.arxiv_id, one.doi) == ("doi:10.1000/x", "1701.00000", "10.1000/x")
    assert one.abstract == record["abstract"]
    assert one.origin.count("; ") == 2
    store = open_store(out)
    assert store.find("arxiv:1701.00000") == store.find("doi:10.1000/x") == one
    # Without the one that joined them they fall apart, and with it they join again.
    assert build([preprint, packed], out, options=BuildOptions(prune=True)).papers == 1
    assert set(papers(out)) == {"arxiv:1701.00000"}
    assert build([preprint, bib, packed], out).papers == 1
    assert set(papers(out)) == {"doi:10.1000/x"}


def test_abstract_that_comes_apart_finds_its_paper(tmp_path: Path) -> None:
    corpus = tmp_path / "papers.jsonl"
    corpus.write_text(
        json.dumps(
            {
                "corpusid": 7,
                "title": LONG,
                "authors": [{"name": "Ada Lovelace"}],
                "year": 2020,
                "externalids": {"DOI": "10.1000/x"},
                "url": "https://www.semanticscholar.org/paper/abc",
            }
        )
        + "\n"
    )
    abstracts = tmp_path / "abstracts.jsonl"
    lines = [{"corpusid": n, "openaccessinfo": {}, "abstract": f"Of {n}."} for n in (7, 8)]
    abstracts.write_text("".join(json.dumps(line) + "\n" for line in lines))
    out = tmp_path / "library"
    assert build([corpus, abstracts], out).papers == 1
    (one,) = papers(out).values()
    assert (one.paper_id, one.abstract) == ("doi:10.1000/x", "Of 7.")


def test_common_titles_are_not_compared_with_each_other(tmp_path: Path) -> None:
    entries = {f"k{n}": article("Editorial of this journal's issue") for n in range(150)}
    different = {f"d{n}": article(f"A different matter, number {n}") for n in range(2)}
    bib = write_bib(tmp_path / "a.bib", entries | different)
    # The records are all alike, so their own ids (title, year, author) make them one.
    assert build([bib], tmp_path / "library").papers == 3


RECORDS = st.lists(
    st.fixed_dictionaries(
        {
            "title": st.sampled_from([LONG, "Another title that is long enough", "Short"]),
            "author": st.sampled_from(["Lovelace, Ada", "Gauss, Carl", ""]),
            "year": st.sampled_from(["2001", "2003", "2020", ""]),
            "doi": st.sampled_from(["10.1000/a", "10.1000/b", "", ""]),
        }
    ),
    min_size=1,
    max_size=6,
)


@settings(max_examples=12)
@given(records=RECORDS, cut=st.integers(0, 6))
def test_history_of_a_library_does_not_matter(
    tmp_path_factory: pytest.TempPathFactory, records: list[dict[str, str]], cut: int
) -> None:
    folder = tmp_path_factory.mktemp("history")
    files = [
        write_bib(folder / f"{n}.bib", {f"k{n}": {k: v for k, v in record.items() if v}})
        for n, record in enumerate(records)
    ]
    build(files, folder / "whole")
    build(files[cut:] or files, folder / "parts")
    build(files, folder / "parts")
    assert papers(folder / "parts") == papers(folder / "whole")
