"""What is asked of each service, and what is read of its answers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from imitated_services import (
    ARXIV_ERROR,
    Imitation,
    answer,
    arxiv,
    arxiv_entry,
    openalex,
    openalex_work,
    s2,
    s2_other,
    s2_paper,
)
from online_kit import Bench

from hpcscientist.literature.online.services import (
    NAMES,
    QueryRefused,
    UnreadableReply,
    service_named,
    words_of,
)


def test_semantic_scholar_is_asked_and_read(server: Imitation, tmp_path: Path) -> None:
    server.script = [answer(s2(s2_paper(), s2_other(1, abstract=None, year=None)))]
    bench = Bench(tmp_path, server.url, HPCSCI_S2_API_KEY="s2-secret")
    answered = bench.asker("semantic_scholar").ask("Self-Attention  networks!")
    (asked,) = server.asked
    assert asked.path == "/paper/search"
    assert asked.parameters["query"] == "self attention networks"
    assert {"title", "abstract", "externalIds"} <= set(asked.parameters["fields"].split(","))
    assert asked.headers["x-api-key"] == "s2-secret"
    assert asked.headers["user-agent"].startswith("hpcscientist/")
    first, second = answered.papers
    assert first.paper_id == "arxiv:1706.03762"
    assert (first.title, first.year) == ("Attention Is All You Need", 2017)
    assert first.authors == ("Ashish Vaswani", "Noam M. Shazeer")
    assert first.citations == 100000
    assert first.source == "online"
    assert (second.paper_id, second.abstract, second.year) == ("doi:10.1000/s2.1", "", None)
    assert not answered.more


def test_without_a_key_no_header_is_sent(server: Imitation, tmp_path: Path) -> None:
    Bench(tmp_path, server.url).asker("semantic_scholar").ask("words")
    assert "x-api-key" not in server.asked[0].headers


def test_arxiv_is_asked_and_read(server: Imitation, tmp_path: Path) -> None:
    old = arxiv_entry("Old & <good>", "hep-th/9901001v2", doi="10.1000/OLD")
    server.script = [answer(arxiv(arxiv_entry(), old, total=51))]
    answered = Bench(tmp_path, server.url).asker("arxiv").ask("the CNN for small-data AND (all:x)")
    (asked,) = server.asked
    assert asked.path == "/query"
    assert asked.parameters["search_query"] == (
        'all:"cnn" AND all:"small-data" AND all:"all" AND all:"x"'
    )
    assert asked.parameters["sortBy"] == "relevance"
    first, second = answered.papers
    assert first.paper_id == "arxiv:1706.03762"
    assert first.title == "Attention Is All You Need"
    assert first.abstract == "We propose the Transformer."
    assert first.authors == ("Ashish Vaswani", "Noam Shazeer")
    assert first.year == 2017
    assert second.paper_id == "doi:10.1000/old"
    assert (second.arxiv_id, second.title) == ("hep-th/9901001", "Old & <good>")
    assert answered.more


def test_openalex_is_asked_and_read(server: Imitation, tmp_path: Path) -> None:
    server.script = [answer(openalex(openalex_work(), total=2000))]
    bench = Bench(tmp_path, server.url, HPCSCI_OPENALEX_API_KEY="oa", HPCSCI_MAILTO="me@uni.edu")
    answered = bench.asker("openalex").ask('NOT "a* b?" OR c')
    (asked,) = server.asked
    assert asked.path == "/works"
    assert asked.parameters["search"] == "not a b or c"
    assert (asked.parameters["api_key"], asked.parameters["mailto"]) == ("oa", "me@uni.edu")
    (paper,) = answered.papers
    assert paper.title == "Attention Is All You Need"
    assert paper.abstract == "The dominant models are recurrent sequence models"
    assert (paper.doi, paper.arxiv_id) == ("10.65215/2q58a426", "1706.03762")
    assert paper.references == ("openalex:W1514535095",)
    assert answered.more


def test_pages_go_on_and_end(server: Imitation, tmp_path: Path) -> None:
    server.script = [
        answer(s2(*map(s2_other, range(50)), total=60)),
        answer(s2(*map(s2_other, range(50, 60)), total=60, offset=50)),
    ]
    asker = Bench(tmp_path, server.url).asker("semantic_scholar")
    assert asker.ask("words", 0).more
    last = asker.ask("words", 1)
    assert not last.more
    assert server.asked[1].parameters["offset"] == "50"
    assert last.papers[0].doi == "10.1000/s2.50"


def test_nothing_found_is_an_answer(server: Imitation, tmp_path: Path) -> None:
    bench = Bench(tmp_path, server.url)
    for name, body in (
        ("semantic_scholar", {"total": 0, "offset": 0}),  # it names no list then
        ("arxiv", arxiv()),
        ("openalex", openalex()),
    ):
        server.script = [answer(body)]
        assert bench.asker(name).ask("nothing like it").papers == ()  # type: ignore[arg-type]
    assert len(server.asked) == 3


def test_a_query_without_words_is_not_sent(server: Imitation, tmp_path: Path) -> None:
    for name in NAMES:
        assert Bench(tmp_path, server.url).asker(name).ask("?! — …").papers == ()
    assert server.asked == []


BOMB = (
    b'<?xml version="1.0"?><!DOCTYPE feed [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]>'
    b'<feed xmlns="http://www.w3.org/2005/Atom"><title>&b;</title></feed>'
)
OUTSIDE = (
    b'<?xml version="1.0"?><!DOCTYPE feed SYSTEM "http://127.0.0.1:1/x.dtd">'
    b'<feed xmlns="http://www.w3.org/2005/Atom"/>'
)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>Rate exceeded.</html>",
        b"<feed",
        arxiv(arxiv_entry())[:-20],
        arxiv(total=5),
        BOMB,
        BOMB.decode().encode("utf-16"),
        OUTSIDE,
        b"<a>" * 100 + b"</a>" * 100,
        b'<?xml version="1.0" encoding="no-such"?><feed/>',
        b'<feed xmlns="http://www.w3.org/2005/Atom"></feed>',
    ],
)
def test_what_is_no_feed_of_arxiv_is_told(body: bytes) -> None:
    with pytest.raises(UnreadableReply):
        service_named("arxiv", {}).read(body, 0)


def test_an_error_of_arxiv_is_no_paper() -> None:
    with pytest.raises(QueryRefused, match="incorrect id format"):
        service_named("arxiv", {}).read(ARXIV_ERROR, 0)


@pytest.mark.parametrize("name", ["semantic_scholar", "openalex"])
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"null",
        b"{}",
        b"\xff",
        b"<html></html>",
        b"[" * 100_000,
        b'{"total": 3, "meta": {"count": 3}',
        b'{"total": 3, "data": {}, "meta": {"count": 3}, "results": 7}',
    ],
)
def test_what_is_no_answer_is_told(name: str, body: bytes) -> None:
    with pytest.raises(UnreadableReply):
        service_named(name, {}).read(body, 0)  # type: ignore[arg-type]


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=5,
)


@given(st.sampled_from(sorted(s2_paper())), _JSON, st.sampled_from(sorted(openalex_work())), _JSON)
def test_odd_fields_spoil_no_page(one: str, value: object, other: str, odd: object) -> None:
    for name, page in (
        ("semantic_scholar", s2(s2_paper(**{one: value}), s2_other(2))),
        ("openalex", openalex(openalex_work(**{other: odd}), openalex_work("Second"))),
    ):
        found = service_named(name, {}).read(json.dumps(page).encode(), 0)  # type: ignore[arg-type]
        assert len(found.papers) in (1, 2)
        for paper in found.papers:
            assert min(paper.model_dump_json()) >= " "
            paper.model_dump_json().encode()


@given(st.text())
def test_words_hold_no_query_syntax(query: str) -> None:
    for word in words_of(query):
        assert not set(word) & set('":()*?~[]{}^&|!/\\<> \n')
