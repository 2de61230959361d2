"""Records of arXiv, Semantic Scholar and OpenAlex, whole, sparse and hostile."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcscientist.literature.sources import lines
from hpcscientist.literature.sources.base import Abstract, Item, Trouble
from hpcscientist.literature.sources.records import arxiv, openalex, semantic_scholar
from hpcscientist.records.literature import Paper

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=10),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)
KEYS = st.sampled_from(
    """id title display_name abstract abstract_inverted_index authors authors_parsed authorships doi
    content body
    externalids externalIds corpusid paperId citedPaper references referenced_works year journal
    publication_year primary_location locations cited_by_count citationCount versions""".split()  # noqa: SIM905
)


def _write(path: Path, *records: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(r) + "\n" for r in records))
    return path


def _papers(items: list[Item]) -> list[Paper]:
    return [i for i in items if isinstance(i, Paper)]


def test_a_record_of_arxivs_dump(tmp_path: Path) -> None:
    record = {
        "id": "0704.0002",
        "submitter": "Louis Theran",
        "authors": "Ileana Streinu and Louis Theran",
        "title": 'Sparsity-certifying Graph\n  Decompositions of K\\"onig',
        "comments": "To appear",
        "journal-ref": "Graphs and Combinatorics 25 (2009)",
        "doi": "10.1007/S00373-008-0834-4",
        "categories": "math.CO cs.CG",
        "abstract": "  We describe the $(k,\\ell)$-pebble game, by 50% faster\nthan Erd\\H{o}s.\n",
        "versions": [{"version": "v1", "created": "Sat, 31 Mar 2007 02:26:18 GMT"}],
        "update_date": "2008-12-13",
        "authors_parsed": [["Streinu", "Ileana", ""], ["Theran", "Louis", "Jr"]],
    }
    (paper,) = arxiv.read(_write(tmp_path / "a.json", record), "a.json")
    assert paper == Paper(
        paper_id="doi:10.1007/s00373-008-0834-4",
        title="Sparsity-certifying Graph Decompositions of König",
        abstract="We describe the $(k,\\ell)$-pebble game, by 50% faster than Erdős.",
        authors=("Ileana Streinu", "Louis Theran Jr"),
        year=2007,
        venue="Graphs and Combinatorics 25 (2009)",
        doi="10.1007/s00373-008-0834-4",
        arxiv_id="0704.0002",
        url="https://arxiv.org/abs/0704.0002",
        source="arxiv",
        origin="a.json:0704.0002",
    )


def test_arxivs_authors_where_nobody_parsed_them(tmp_path: Path) -> None:
    record = {
        "id": "hep-th/9901001",
        "title": "T",
        "authors": "A. Bee (CERN), C. Dee and E. Gee",
        "update_date": "",
    }
    (paper,) = _papers(list(arxiv.read(_write(tmp_path / "a", record), "a")))
    assert (paper.authors, paper.year) == (("A. Bee", "C. Dee", "E. Gee"), 1999)
    assert paper.paper_id == "arxiv:hep-th/9901001"


ATOM = """<?xml version="1.0" encoding="UTF-8"?>
<feed xmlns="http://www.w3.org/2005/Atom" xmlns:arxiv="http://arxiv.org/schemas/atom">
  <title>ArXiv Query</title><id>http://arxiv.org/api/x</id>
  <entry><id>http://arxiv.org/abs/2501.03916v2</id><title>Dolphin:
    closed loop</title><summary> A &lt; B. </summary><published>2025-01-07T00:00:00Z</published>
    <author><name>Jiakang Yuan</name></author><author><name>Bo Zhang</name></author>
    <arxiv:doi>10.1000/X</arxiv:doi></entry>
  <entry><id>http://arxiv.org/abs/2501.00001v1</id><title>Second</title></entry>
</feed>"""
OAI = """<?xml version="1.0"?>
<OAI-PMH xmlns="http://www.openarchives.org/OAI/2.0/"><ListRecords>
<record><header><identifier>oai:arXiv.org:0704.0001</identifier></header><metadata>
<arXiv xmlns="http://arxiv.org/OAI/arXiv/">
<id>0704.0001</id>
<authors><author>
<keyname>Bal\u00e1zs</keyname>
<forenames>C.</forenames></author></authors>
<title>Diphoton</title><abstract>Fully.</abstract></arXiv>
</metadata></record>
<record><header><identifier>oai:arXiv.org:0704.0003</identifier></header><metadata>
<dc xmlns:x="u"><title>Dublin</title>
<creator>Pan, Hongjun</creator><description>Core.</description></dc>
</metadata></record></ListRecords></OAI-PMH>"""


def test_arxivs_feeds(tmp_path: Path) -> None:
    path = tmp_path / "f.xml"
    path.write_text(ATOM)
    first, second = _papers(list(arxiv.read(path, "f.xml")))
    assert (first.paper_id, first.title) == ("doi:10.1000/x", "Dolphin: closed loop")
    assert (first.authors, first.abstract) == (("Jiakang Yuan", "Bo Zhang"), "A < B.")
    assert second.origin == "f.xml:2501.00001"
    path.write_text(OAI)
    first, second = _papers(list(arxiv.read(path, "f.xml")))
    assert (first.arxiv_id, first.authors, first.abstract) == (
        "0704.0001",
        ("C. Balázs",),
        "Fully.",
    )
    assert (second.arxiv_id, second.authors) == ("0704.0003", ("Hongjun Pan",))


def test_a_damaged_feed_and_a_bomb(tmp_path: Path) -> None:
    path = tmp_path / "f.xml"
    path.write_text(ATOM[:-40])
    *papers, last = arxiv.read(path, "f")
    assert [p.title for p in papers if isinstance(p, Paper)] == ["Dolphin: closed loop"]
    assert isinstance(last, Trouble)
    assert "stood before" in last.reason
    bomb = '<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]>'
    path.write_text(ATOM.replace("<feed", f"{bomb}<feed"))
    (only,) = arxiv.read(path, "f")
    assert isinstance(only, Trouble)
    assert "document type" in only.reason


def test_a_title_of_nothing_and_a_bomb_between_two_reads(tmp_path: Path) -> None:
    path = tmp_path / "f.xml"
    path.write_text(ATOM.replace("Dolphin:\n    closed loop", "{}"))
    items = list(arxiv.read(path, "f"))
    assert [type(item) for item in items] == [Trouble, Paper]
    for shift in range(10):  # a file is read in steps of 64 KiB
        padding = " " * (2**16 - len("<?xml version='1.0'?><!DOCTYPE") + shift)
        path.write_text(f"<?xml version='1.0'?>{padding}<!DOCTYPE feed [<!ENTITY a 'b'>]><feed/>")
        (only,) = arxiv.read(path, "f")
        assert isinstance(only, Trouble)
        assert "document type" in only.reason


def test_semantic_scholars_bulk_files(tmp_path: Path) -> None:
    record = {
        "corpusid": 42,
        "externalids": {"ArXiv": "2501.03916", "DOI": None, "CorpusId": "42"},
        "url": "https://www.semanticscholar.org/paper/ab",
        "title": "A <i>Title</i> &amp; More",
        "authors": [{"authorId": "1", "name": "A. Bee"}, {"authorId": None, "name": None}],
        "venue": "",
        "year": 2025,
        "citationcount": 7,
        "journal": {"name": "J", "pages": None},
    }
    path = _write(tmp_path / "papers", record, {"corpusid": 42, "abstract": "Its abstract."})
    paper, abstract = semantic_scholar.read(path, "papers")
    assert isinstance(paper, Paper)
    assert (paper.paper_id, paper.title, paper.venue) == ("arxiv:2501.03916", "A Title & More", "J")
    assert (paper.authors, paper.citations, paper.origin) == (("A. Bee",), 7, "papers:42")
    assert abstract == Abstract(url=paper.url, text="Its abstract.", origin="papers:42")


def test_semantic_scholars_graph(tmp_path: Path) -> None:
    record = {
        "paperId": "abc",
        "title": "T",
        "abstract": None,
        "publicationDate": "2019-05-01",
        "references": [
            {"paperId": "r1", "title": "R1", "externalIds": {"DOI": "10.1000/R1"}},
            {"paperId": "r2", "title": "R2"},
            {"paperId": None, "title": "R3"},
            None,
        ],
    }
    (paper,) = _papers(list(semantic_scholar.read(_write(tmp_path / "g", {"paper": record}), "g")))
    assert (paper.paper_id, paper.year) == ("s2:abc", 2019)
    assert paper.references == ("doi:10.1000/r1", "s2:r2", "R3")


@pytest.mark.parametrize("block", ["content", "body"])
def test_semantic_scholars_full_texts(tmp_path: Path, block: str) -> None:
    written = "A Title\nIts abstract.\nIntro\nWords here.\nMethod\nMore."
    marks = {
        "title": json.dumps([{"start": 0, "end": 7}]),
        "abstract": json.dumps([{"start": "8", "end": "21"}]),
        "sectionheader": json.dumps([{"start": 40, "end": 46}, {"start": 22, "end": 27}]),
        "formula": None,
        "author": "broken",
    }
    record = {"corpusid": 3, "externalids": {}, block: {"text": written, "annotations": marks}}
    (paper,) = _papers(list(semantic_scholar.read(_write(tmp_path / "s", record), "s")))
    assert (paper.paper_id, paper.title, paper.abstract) == ("s2:3", "A Title", "Its abstract.")
    assert [(s.heading, s.text) for s in paper.sections] == [
        ("Intro", "Words here."),
        ("Method", "More."),
    ]


def test_other_data_sets_are_told_apart(tmp_path: Path) -> None:
    rows = [{"citingcorpusid": n, "citedcorpusid": 2, "abstract": None} for n in range(30)]
    troubles = list(semantic_scholar.read(_write(tmp_path / "c", *rows), "c"))
    assert len(troubles) == 21
    assert isinstance(troubles[0], Trouble)
    assert re.search("citation .*no paper; accepted .* papers", troubles[0].reason)
    (trouble,) = openalex.read(
        _write(tmp_path / "o", {"id": "https://openalex.org/A1", "title": "N"}), "o"
    )
    assert isinstance(trouble, Trouble)
    assert "no work" in trouble.reason


def test_a_work_of_openalex(tmp_path: Path) -> None:
    record = {
        "id": "https://openalex.org/W2741809807",
        "doi": "https://doi.org/10.7717/PeerJ.4375",
        "title": "The state of <b>OA</b>",
        "publication_year": 2018,
        "authorships": [{"author": {"display_name": "Heather Piwowar"}}, {"author": None}],
        "primary_location": {"source": {"display_name": "PeerJ"}, "landing_page_url": None},
        "locations": [{"landing_page_url": "http://arxiv.org/abs/1705.01234v2"}],
        "abstract_inverted_index": {"Despite": [0], "growing": [1, 3], "interest": [2]},
        "cited_by_count": 1000,
        "referenced_works": ["https://openalex.org/W1", "https://openalex.org/W1", "nonsense"],
    }
    (paper,) = openalex.read(_write(tmp_path / "o", record), "o.gz")
    assert paper == Paper(
        paper_id="doi:10.7717/peerj.4375",
        title="The state of OA",
        abstract="Despite growing interest growing",
        authors=("Heather Piwowar",),
        year=2018,
        venue="PeerJ",
        doi="10.7717/peerj.4375",
        arxiv_id="1705.01234",
        url="https://openalex.org/W2741809807",
        citations=1000,
        references=("openalex:W1",),
        source="openalex",
        origin="o.gz:W2741809807",
    )


@given(st.lists(st.sampled_from(["a", "größe", "b,", "深度", "x."]), max_size=50))
def test_an_inverted_abstract_comes_back(words: list[str]) -> None:
    inverted: dict[str, list[int]] = {}
    for position, word in enumerate(words):
        inverted.setdefault(word, []).append(position * 10**9)  # no list of that length is made
    assert openalex.abstract_of(inverted) == " ".join(words)


@pytest.mark.parametrize("read", [arxiv.paper_of, openalex.paper_of, semantic_scholar.item_of])
@given(record=st.dictionaries(KEYS, JSON, max_size=12))
def test_no_record_crashes_a_reader(read: Any, record: dict[str, Any]) -> None:
    found = read({"title": "T", "id": "0704.0001"} | record, "x")
    assert found is None or isinstance(found, str | Paper | Abstract)


def test_an_array_of_a_record_a_line_may_be_longer_than_a_line(tmp_path: Path) -> None:
    records = [{"id": f"W{n}", "title": f"T{n}", "mesh": "x" * 40_000} for n in range(450)]
    path = tmp_path / "works.json"
    path.write_text("[\n" + ",\n".join(json.dumps(record) for record in records) + "\n]\n")
    assert path.stat().st_size > lines.LINE_BYTES
    assert [p.title for p in _papers(list(openalex.read(path, "x")))] == [
        f"T{n}" for n in range(450)
    ]


def test_records_that_stand_together_on_a_line(tmp_path: Path) -> None:
    one, two, three = (json.dumps({"id": f"W{n}", "title": f"T{n}"}) for n in (1, 2, 3))
    path = tmp_path / "works.jsonl"
    path.write_text(f"{one}{two}\n\x1e{three},\n{one}{{\n")
    items = list(openalex.read(path, "x"))
    assert [p.title for p in _papers(items)] == ["T1", "T2", "T3"]
    assert [i.origin for i in items if isinstance(i, Trouble)] == ["x: byte 85"]


def test_an_inverted_abstract_that_is_a_text(tmp_path: Path) -> None:
    record = {"id": "W1", "title": "T", "abstract_inverted_index": '{"b": [1], "a": [0]}'}
    (paper,) = _papers(list(openalex.read(_write(tmp_path / "w.jsonl", record), "x")))
    assert paper.abstract == "a b"
