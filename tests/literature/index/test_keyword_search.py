"""Search by words: the scores are BM25's, any text is a query, ties are broken by id."""

from __future__ import annotations

import json
import math
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from index_kit import ids, made, paper_id, write_sources, write_works

from hpcscientist.literature.index import engine
from hpcscientist.literature.index.keyword import KeywordIndex
from hpcscientist.literature.index.search import SearchableLibrary
from hpcscientist.models.embedding.keywords import pieces, telling

K1, B = 1.2, 0.75
VOCABULARY = ("graph", "node", "image", "pixel", "deep", "net", "loss", "grösse")
TEXTS = [
    ("Deep networks for image classification", "We classify photographs."),
    ("Graph networks", "Nodes of a graph are classified. Pre-training helps."),
    ("基于深度学习的图像分类", "本文研究图像分类。"),
    ("深層学習による画像認識", "畳み込みニューラルネットワーク"),
    ("Über die Größe neuronaler Netze", "Eine Übersicht für Anfänger."),
    ("Réseaux de neurones", "L’apprentissage profond est étudié."),
    ("Глубокое обучение", "Классификация изображений сетями."),
    ("Same title", "Twin."),
    ("Same title", "Twin."),
    ('C++ & "quotes": a (very) odd* title~', "AND OR NOT +must -not field:value /regex/ [a TO b]"),
]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> SearchableLibrary:
    folder = tmp_path_factory.mktemp("library")
    works = write_works(folder / "works.jsonl", TEXTS)
    return made([works, *write_sources(folder)], folder / "out")


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("classifying images", [0]),
        ("pretraining", [1]),
        ("图像", [2]),
        ("分类", [2]),
        ("画像認識", [3]),
        ("ニューラル", [3]),
        ("grosse", [4]),
        ("GRÖSSE", [4]),
        ("reseaux", [5]),
        ("apprentissage", [5]),
        ("ГЛУБОКОЕ", [6]),
        ("c++ quotes", [9]),
        ("regex", [9]),
    ],
)
def test_titles_of_all_languages_are_found(
    library: SearchableLibrary, query: str, expected: list[int]
) -> None:
    assert ids(library, query, len(expected), "keyword") == [paper_id(n) for n in expected]


def test_what_is_equal_is_ordered_by_id(library: SearchableLibrary) -> None:
    assert ids(library, "same title", 2, "keyword") == [paper_id(7), paper_id(8)]
    assert ids(library, "same title", 1, "keyword") == [paper_id(7)]


@given(st.text(max_size=200))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_text_is_a_query(library: SearchableLibrary, query: str) -> None:
    for hits in (
        library.search(query, 5, "keyword"),
        library.search(query, 5, "embedding"),
        library.search(query, 5),
        library.formulas(query, 5),
        library.symbols(query, 5),
    ):
        assert len(hits) <= 5
    assert library.suggest(query) is not None


ODD = ["", " ", "\0", "\ud800 lone", "AND", "title:", '"', "((", "a" * 10_000, "deep graph " * 5000]
SYNTAX = ["😀", "*", "-graph", "graph^1e999", "graph~99", "[a TO", "\u202e\u200b", "\\", "NOT NOT"]


@pytest.mark.parametrize("query", [*ODD, *SYNTAX])
def test_odd_queries(library: SearchableLibrary, query: str) -> None:
    for by in ("keyword", "embedding", "both"):
        found = ids(library, query, 10, by)
        assert len(found) == len(set(found)) <= 10
        assert all(library.paper(paper_id) is not None for paper_id in found)
        assert ids(library, query, 10, by) == found
    assert len(library.formulas(query)) <= 10
    assert len(library.symbols(query)) <= 10
    assert len(library.suggest(query)) == len(set(library.suggest(query)))


def test_long_queries_find_what_their_words_say(library: SearchableLibrary) -> None:
    long = " ".join(f"unheard{n}" for n in range(1500)) + " réseaux"
    assert ids(library, long, 3, "keyword") == [paper_id(5)]


def test_an_explanation_adds_up_to_the_score(library: SearchableLibrary) -> None:
    for query in ("deep image networks classified", "graph", "same title twin", "图像分类"):
        for hit in library.search(query, 10, "keyword"):
            assert hit.why.terms
            assert hit.why.keyword_score == pytest.approx(
                math.fsum(term.weight for term in hit.why.terms), abs=1e-12
            )
            assert hit.score == hit.why.keyword_score
            assert {term.term for term in hit.why.terms} <= set(pieces(query))


def bm25(documents: list[dict[str, list[str]]], terms: set[str]) -> list[float]:
    """Score documents as Robertson and Zaragoza write it, field by field."""
    scores = [0.0] * len(documents)
    for field, boost in engine.PAPERS.items():
        counts = [Counter(document.get(field, [])) for document in documents]
        mean = sum(c.total() for c in counts) / len(counts)
        for term in terms:
            n = sum(term in c for c in counts)
            idf = math.log(1 + (len(counts) - n + 0.5) / (n + 0.5))
            for place, c in enumerate(counts):
                if c[term]:
                    norm = K1 * (1 - B + B * c.total() / mean)
                    scores[place] += boost * idf * c[term] * (K1 + 1) / (c[term] + norm)
    return scores


TERMS = st.lists(st.sampled_from(VOCABULARY), max_size=12)
DOCUMENT = st.fixed_dictionaries(dict.fromkeys(engine.PAPERS, TERMS))


@given(
    st.lists(DOCUMENT, min_size=1, max_size=30),
    st.lists(st.sampled_from(VOCABULARY), min_size=1, max_size=4),
    st.integers(min_value=1, max_value=12),
    st.booleans(),
)
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_ranking_is_that_of_bm25(
    tmp_path_factory: pytest.TempPathFactory,
    documents: list[dict[str, list[str]]],
    query: list[str],
    limit: int,
    in_two: bool,
) -> None:
    folder = tmp_path_factory.mktemp("bm25")
    joined = [
        (place, 0, f"id{place * 7919 % 1009}", {f: " ".join(t) for f, t in document.items()})
        for place, document in enumerate(documents)
    ]
    half = len(joined) // 2 if in_two else 0
    for part in (joined[:half], joined[half:]):
        if part:
            engine.write(folder, engine.PAPERS, [], part)
    found = KeywordIndex(folder, engine.PAPERS).search(query, limit)
    scores = bm25(documents, set(query))
    expected = sorted(
        (round(-score, 4), joined[place][2]) for place, score in enumerate(scores) if score
    )
    assert [hit.score for hit in found] == pytest.approx(
        [-score for score, _ in expected[:limit]], abs=1e-3
    )
    for hit in found:
        assert hit.score == pytest.approx(scores[hit.position], rel=1e-5)
    ranked = [(-hit.score, hit.label) for hit in found]
    assert ranked == sorted(ranked)
    if len(found) < limit:
        assert {hit.label for hit in found} == {label for _, label in expected}


def test_many_papers_of_one_score_come_in_the_order_of_their_ids(tmp_path: Path) -> None:
    documents = [(n, 0, f"id{n:04d}", {"title": "common word"}) for n in range(3000)]
    engine.write(tmp_path, engine.PAPERS, [], [*documents[1500:], *documents[:1500]])
    index = KeywordIndex(tmp_path, engine.PAPERS)
    assert [hit.label for hit in index.search(["common"], 5)] == [f"id{n:04d}" for n in range(5)]


def test_formulas_are_found_by_what_is_said_of_them_and_by_their_signs(
    library: SearchableLibrary,
) -> None:
    (first, *_) = library.formulas("cross entropy of a predicted distribution")
    assert "log p" in first.formula.text.replace("\\log p", "log p")
    assert first.formula_id == f"{first.paper_id}#f1"
    for query in ("λ", "𝜆max", "λ max ∇", r"\lambda_{\max}", "Hessian eigenvalues"):
        assert "lambda" in library.formulas(query, 1)[0].formula.text
    paper = library.paper(first.paper_id)
    assert paper is not None
    assert paper.formulas[0] == first.formula


def test_code_is_found_by_parts_of_names_and_by_what_it_says(library: SearchableLibrary) -> None:
    for query, name in (
        ("attention", "MultiHeadAttention"),
        ("multi-head attention", "MultiHeadAttention"),
        ("MultiHeadAttention", "MultiHeadAttention"),
        ("weigh positions", "MultiHeadAttention"),
        ("cross entropy", "cross_entropy_loss"),
        ("crossEntropyLoss", "cross_entropy_loss"),
        ("likelihood", "cross_entropy_loss"),
        ("load the config", "load_config"),
    ):
        assert library.symbols(query, 1)[0].symbol.name == name, query
    assert library.symbols("unheard of") == ()


def test_words_written_alike_are_suggested(library: SearchableLibrary) -> None:
    assert library.suggest("clasification of grahp netwroks") == (
        "classification",
        "graph",
        "networks",
    )
    assert library.suggest("graph") == ()


def test_scores_survive_json(library: SearchableLibrary) -> None:
    hits = library.search("deep image", 3)
    data = json.loads(json.dumps([hit.model_dump(mode="json") for hit in hits]))
    assert [type(hit).model_validate_json(json.dumps(d)) for hit, d in zip(hits, data, strict=True)]
    assert telling("deep image") == ["deep", "imag"]
