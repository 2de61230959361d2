"""Ids: every spelling of a DOI, an arXiv id or a title leads to the same one."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcscientist.literature.sources.ids import (
    arxiv_year,
    find_arxiv,
    normal_arxiv,
    normal_doi,
    normal_title,
    paper_id,
    title_id,
)

SUFFIX = st.text("abcXYZ0189-._/()", min_size=1, max_size=30).filter(lambda s: s.strip(".-_/()"))
ARXIV = st.one_of(
    st.builds(
        "{:02}{:02}.{:05}".format, st.integers(7, 40), st.integers(1, 12), st.integers(0, 99999)
    ),
    st.builds(
        "{}/{:02}{:02}{:03}".format,
        st.sampled_from(["hep-th", "math", "cs", "cond-mat"]),
        st.integers(91, 99),
        st.integers(1, 12),
        st.integers(0, 999),
    ),
)


@given(SUFFIX, st.sampled_from(["", "doi:", "DOI: ", "https://doi.org/", "http://dx.doi.org/"]))
def test_every_spelling_of_a_doi_is_one(suffix: str, prefix: str) -> None:
    plain = normal_doi(f"10.1000/a{suffix}b")
    assert plain.startswith("10.1000/a")
    assert normal_doi(f"  {prefix}10.1000/A{suffix.upper()}B. ") == plain
    assert normal_doi(plain) == plain


@given(st.text())
def test_normal_forms_are_stable(text: str) -> None:
    assert normal_doi(normal_doi(text)) == normal_doi(text)
    assert normal_arxiv(normal_arxiv(text)) == normal_arxiv(text)
    assert normal_title(normal_title(text)) == normal_title(text)


@given(
    ARXIV,
    st.integers(1, 30),
    st.sampled_from(["arXiv:", "https://arxiv.org/abs/", "", "oai:arXiv.org:"]),
)
def test_every_spelling_of_an_arxiv_id_is_one(arxiv_id: str, version: int, prefix: str) -> None:
    assert normal_arxiv(f"{prefix}{arxiv_id}v{version}") == arxiv_id
    assert normal_arxiv(arxiv_id) == arxiv_id
    assert (
        find_arxiv(f"J. Smith. A title. arXiv preprint arXiv:{arxiv_id}v{version}, 2020.")
        == arxiv_id
    )


def test_ids_of_arxiv_in_all_their_dress() -> None:
    assert normal_arxiv("http://arxiv.org/pdf/2501.03916v2.pdf") == "2501.03916"
    assert normal_arxiv("math.GT/0309136") == normal_arxiv("math/0309136v3") == "math/0309136"
    assert normal_arxiv("0704.0001") == "0704.0001"
    assert arxiv_year("hep-th/9901001") == 1999
    assert arxiv_year("2501.03916") == 2025
    assert paper_id("T", doi="https://doi.org/10.48550/arXiv.2501.03916") == "arxiv:2501.03916"


@pytest.mark.parametrize(
    "text", ["", "10.1000", "2501", "2513.00001", "see 10.1/x", "v1", "\ud800"]
)
def test_what_is_no_id_is_none(text: str) -> None:
    assert normal_doi(text) == "" == normal_arxiv(text)


def test_a_doi_ends_with_its_sentence_and_keeps_its_brackets() -> None:
    assert normal_doi("(doi:10.1016/0370-2693(93)90021-3).") == "10.1016/0370-2693(93)90021-3"
    assert normal_doi("https://doi.org/10.1000%2FABC.1") == "10.1000/abc.1"


def test_a_doi_comes_before_arxiv_and_that_before_an_index() -> None:
    assert paper_id("T", doi="10.1000/X", arxiv_id="2501.03916", other="s2:1") == "doi:10.1000/x"
    assert paper_id("T", arxiv_id="2501.03916v3", other="s2:1") == "arxiv:2501.03916"
    assert paper_id("T", doi="none", arxiv_id="no", other="s2:1") == "s2:1"
    assert paper_id("T", 2020, ["A. Bee"]).startswith("title:")


TITLES = [
    "深度学习", "深度学习的综述", "기계 학습", "Глубокое обучение", "Глубинное обучение",
    "التعلم العميق", "מבוא ללמידה", "की", "का", "कि", "深層学習", "Βαθιά μάθηση", "∑", "∞", "C",
]  # fmt: skip


def test_titles_in_other_languages_have_ids_of_their_own() -> None:
    assert len({title_id(t, 2020, ["X"]) for t in TITLES}) == len(TITLES)


def test_the_same_title_in_another_spelling_is_the_same() -> None:
    decomposed = unicodedata.normalize("NFD", "Größen: ﬁnite “Elements”")
    assert title_id(decomposed, 2020, ["Müller, A."]) == title_id(
        "GRÖSSEN – finite elements", 2020, ["Anna MÜLLER"]
    )
    assert title_id("A", 2020, ["X"]) != title_id("A", 2021, ["X"])
    assert title_id("A", 2020, ["X"]) != title_id("A", 2020, ["Y"])


@given(st.text(), st.one_of(st.none(), st.integers()), st.lists(st.text(), max_size=2))
def test_any_text_has_an_id(title: str, year: int | None, authors: list[str]) -> None:
    assert title_id(title, year, authors) == title_id(title, year, authors)
