"""The library that asks services too: what it joins, and that it never needs them."""

from __future__ import annotations

import random
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from imitated_services import (
    Imitation,
    answer,
    arxiv,
    arxiv_entry,
    hang,
    openalex,
    openalex_work,
    s2,
    s2_other,
    s2_paper,
)
from online_kit import Bench

from hpcscientist.literature.online.cache import Cache, Misses
from hpcscientist.literature.online.library import ListedPaper, OnlineLibrary, join, open_online
from hpcscientist.literature.online.services import ServiceName
from hpcscientist.records.literature import (
    Formula,
    FormulaHit,
    Hit,
    Paper,
    SearchBy,
    Symbol,
    SymbolHit,
    TermWeight,
    Why,
)


class Shelf:
    """A small offline library: papers that have any word of the query in their title."""

    def __init__(self, *papers: Paper) -> None:
        self.papers = papers
        self.fingerprint = "shelf " + " ".join(p.paper_id for p in papers)

    def __len__(self) -> int:
        return len(self.papers)

    def search(self, query: str, limit: int = 10, by: SearchBy = "both") -> tuple[Hit, ...]:
        words = set(query.lower().split())
        found = [p for p in self.papers if words & set(p.title.lower().split())]
        return tuple(
            Hit(
                paper_id=p.paper_id,
                title=p.title,
                abstract=p.abstract,
                year=p.year,
                origin=p.origin,
                score=1.0 / n,
                why=Why(terms=(TermWeight(term="x", field="title", weight=1.0),), keyword_rank=n),
            )
            for n, p in enumerate(found[:limit], start=1)
        )

    def paper(self, paper_id: str) -> Paper | None:
        return next((p for p in self.papers if p.paper_id == paper_id), None)

    def formulas(self, query: str, limit: int = 10) -> tuple[FormulaHit, ...]:
        formula = Formula(text="e = mc^2")
        first = self.papers[0]
        hit = FormulaHit(
            formula_id="f#f1", paper_id=first.paper_id, title=first.title, formula=formula
        )
        return (hit,)[:limit]

    def symbols(self, query: str, limit: int = 10) -> tuple[SymbolHit, ...]:
        symbol = Symbol(
            repository="r",
            file="a.py",
            first_line=1,
            last_line=2,
            name="f",
            kind="function",
            signature="f()",
            code="def f(): ...",
        )
        return (SymbolHit(symbol=symbol, score=1.0),)[:limit]


OWN = Paper(
    paper_id="arxiv:1706.03762",
    title="Attention is all you need",
    arxiv_id="1706.03762",
    year=2017,
    source="bibtex",
    origin="refs.bib:1",
)
ELSE = Paper(paper_id="title:x", title="Attention elsewhere", source="bibtex", origin="refs.bib:9")

Opened = Callable[..., OnlineLibrary]


@pytest.fixture
def opened(server: Imitation, tmp_path: Path) -> Opened:
    def make(
        offline: Shelf | None, *names: ServiceName, bench: Bench | None = None
    ) -> OnlineLibrary:
        own = bench or Bench(tmp_path, server.url)
        return OnlineLibrary(
            offline,
            [own.asker(name) for name in names],
            own.cache,
            Misses(tmp_path / "campaign" / "out-of-reach.txt"),
            own.notes.append,
        )

    return make


def test_a_paper_that_both_find_is_one_hit(server: Imitation, opened: Opened) -> None:
    server.script = [answer(s2(s2_other(1), s2_paper()))]
    library = opened(Shelf(OWN, ELSE), "semantic_scholar")
    hits = library.search("attention", 10)
    assert [h.paper_id for h in hits] == ["arxiv:1706.03762", "doi:10.1000/s2.1", "title:x"]
    first = hits[0]
    assert first.abstract.startswith("The dominant sequence")  # only the service has one
    assert first.why.keyword_rank == 1  # and only the offline library says why
    assert first.score == pytest.approx(1 / 61 + 1 / 62)
    whole = library.paper("arxiv:1706.03762")
    assert whole is not None
    assert whole.citations == 100000
    assert "refs.bib:1" in whole.origin
    assert "semantic_scholar" in whole.origin


def test_three_services_name_one_paper_three_ways(server: Imitation, opened: Opened) -> None:
    server.routes = {
        "/paper/search": answer(s2(s2_paper())),
        "/query": answer(arxiv(arxiv_entry())),
        "/works": answer(openalex(openalex_work())),
    }
    (hit,) = opened(None, "semantic_scholar", "openalex", "arxiv").search("attention")
    assert hit.score == pytest.approx(3 / 61)
    assert hit.paper_id == "arxiv:1706.03762"


def test_a_limit_above_a_page_asks_for_more_pages(server: Imitation, opened: Opened) -> None:
    server.script = [
        answer(s2(*map(s2_other, range(50)), total=70)),
        answer(s2(*map(s2_other, range(50, 70)), total=70, offset=50)),
    ]
    library = opened(None, "semantic_scholar")
    assert len(library.search("words", 60)) == 60
    assert len(library.search("words", 10)) == 10
    assert len(library.search("words", 1000)) == 70
    assert library.search("words", 0) == ()
    assert len(server.asked) == 2


def test_without_a_network_the_offline_library_is_asked_alone(
    opened: Opened, tmp_path: Path
) -> None:
    bench = Bench(tmp_path, "http://127.0.0.1:1")
    shelf = Shelf(OWN, ELSE)
    library = opened(shelf, "semantic_scholar", "arxiv", bench=bench)
    for _ in range(3):
        hits = library.search("attention")
        assert [h.paper_id for h in hits] == [h.paper_id for h in shelf.search("attention")]
    (note,) = bench.notes
    assert re.fullmatch(r"the network .*reach \(.*\); .*offline library", note)
    assert library.paper("arxiv:1706.03762") == OWN
    assert library.paper("doi:10.1/none") is None


def test_a_service_that_fails_leaves_the_others(
    server: Imitation, opened: Opened, tmp_path: Path
) -> None:
    bench = Bench(tmp_path, server.url)
    bench.environment["HPCSCI_S2_URL"] = f"{server.url}/broken"

    server.routes = {
        "/broken/paper/search": answer({}, 500),
        "/query": answer(arxiv(arxiv_entry())),
    }
    library = opened(None, "semantic_scholar", "arxiv", bench=bench)
    found = {h.paper_id for q in ("one", "two", "three") for h in library.search(q)}
    assert found == {"arxiv:1706.03762"}
    (note,) = bench.notes
    assert re.match(r"semantic_scholar .*answer \(HTTP 500\); .*without", note)


def test_what_was_out_of_reach_stays_so_for_a_campaign(
    server: Imitation, opened: Opened, tmp_path: Path
) -> None:
    """A campaign that is taken up again sees what it saw, also where a service came back."""
    bench = Bench(tmp_path, server.url)
    server.script = [answer({}, 500)]
    shelf = Shelf(OWN)
    before = opened(shelf, "semantic_scholar", bench=bench).search("attention")
    server.script = [answer(s2(s2_other(1)))]
    bench.clock.now += 10_000
    assert opened(shelf, "semantic_scholar", bench=bench).search("attention") == before
    assert len(opened(shelf, "semantic_scholar", bench=bench).search("other attention")) == 2
    # Not so for another campaign.
    (tmp_path / "campaign" / "out-of-reach.txt").unlink()
    assert len(opened(shelf, "semantic_scholar", bench=bench).search("attention")) == 2


def test_a_paper_is_found_in_the_cache_by_another_process(
    server: Imitation, opened: Opened, tmp_path: Path
) -> None:
    server.script = [answer(s2(s2_paper()))]
    found = opened(None, "semantic_scholar").search("attention")
    later = OnlineLibrary(None, [], Cache(tmp_path / "cache"), Misses(None), lambda _: None)
    whole = later.paper(found[0].paper_id)
    assert whole is not None
    assert whole.abstract == found[0].abstract
    assert later.paper('"') is None


def test_formulas_and_code_are_the_offline_librarys(opened: Opened) -> None:
    library = opened(Shelf(OWN), "semantic_scholar")
    assert library.formulas("energy")[0].formula.text == "e = mc^2"
    assert library.symbols("f")[0].symbol.name == "f"
    assert len(library) == 1
    empty = opened(None, "semantic_scholar")
    assert (empty.formulas("x"), empty.symbols("x"), len(empty)) == ((), (), 0)
    assert empty  # asked though it holds nothing


def test_the_fingerprint_tells_content_and_services(opened: Opened) -> None:
    prints = {
        opened(None, "arxiv").fingerprint,
        opened(None, "arxiv", "openalex").fingerprint,
        opened(Shelf(OWN), "arxiv").fingerprint,
        opened(Shelf(OWN, ELSE), "arxiv").fingerprint,
    }
    assert len(prints) == 4
    assert opened(Shelf(OWN), "arxiv").fingerprint in prints


def test_searches_from_many_threads_find_the_same(server: Imitation, opened: Opened) -> None:
    server.script = [answer(s2(*map(s2_other, range(20)), s2_paper()))]
    library = opened(Shelf(OWN, ELSE), "semantic_scholar")
    found: list[tuple[Hit, ...]] = []
    threads = [
        threading.Thread(target=lambda: found.append(library.search("attention"))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(found)) == 1
    assert len(server.asked) == 1


def test_joining_is_stable_and_loses_nothing() -> None:
    rng = random.Random(0)
    papers = [
        Paper(
            paper_id=f"doi:10.1000/{n}",
            doi=f"10.1000/{n}",
            title=f"A title that is number {n} of many",
            source="online",
            origin=f"x:{n}",
        )
        for n in range(30)
    ]
    for _ in range(20):
        searches = [
            [ListedPaper(p) for p in rng.sample(papers, rng.randint(0, 30))] for _ in range(3)
        ]
        joined = join(searches)
        ids = [j.paper_id for j in joined]
        assert sorted(ids) == sorted({p.paper.paper_id for s in searches for p in s})
        assert [j.score for j in joined] == sorted((j.score for j in joined), reverse=True)
        assert [j.paper_id for j in join(searches[::-1])] == ids


def test_a_preprint_and_its_publication_are_one() -> None:
    preprint = OWN.model_copy(update={"authors": ("Ashish Vaswani",)})
    published = Paper(
        paper_id="doi:10.5555/3295222",
        doi="10.5555/3295222",
        title="Attention Is All You Need",
        authors=("A. Vaswani",),
        source="online",
        origin="openalex:W1",
    )
    namesake = published.model_copy(
        update={"paper_id": "doi:10.1/y", "doi": "10.1/y", "authors": ("B. Other",)}
    )
    joined = join([[ListedPaper(preprint)], [ListedPaper(published), ListedPaper(namesake)]])
    assert [j.paper_id for j in joined] == ["arxiv:1706.03762", "doi:10.1/y"]


def test_opening_sends_nothing_and_keeps_to_the_users_folders(
    server: Imitation, tmp_path: Path
) -> None:
    environment = {"HPCSCI_ARXIV_URL": server.url, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    notes: list[str] = []
    library = open_online(
        None, ["arxiv", "arxiv"], tmp_path / "run", note=notes.append, environment=environment
    )
    assert server.asked == []
    server.script = [answer(arxiv(arxiv_entry()))]
    assert [h.paper_id for h in library.search("attention")] == ["arxiv:1706.03762"]
    assert len(server.asked) == 1
    assert len(list((tmp_path / "cache" / "hpcscientist" / "online").rglob("*.json"))) == 1
    assert notes == []


def test_a_hanging_service_ends_in_its_time(
    server: Imitation, opened: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hpcscientist.literature.online.asking.TRY_S", 0.1)
    server.script = [hang]
    bench = Bench(tmp_path, server.url)
    library = opened(Shelf(OWN), "openalex", bench=bench)
    assert [h.paper_id for h in library.search("attention")] == ["arxiv:1706.03762"]
    assert len(bench.notes) == 1


def test_nothing_of_this_is_imported_unless_a_service_is_named(tmp_path: Path) -> None:
    """A launch without `literature.online` has none of these modules, and connects to nobody."""
    code = """
import sys

connected = []
sys.addaudithook(lambda event, given: event == "socket.connect" and connected.append(given[1]))
import hpcscientist.campaign.proposals.campaign_library
import hpcscientist.literature.survey
from hpcscientist.cli.main import run

assert run(["launch", "--dry-run"]) == 0
assert not connected, connected
assert not [name for name in sys.modules if name.startswith("hpcscientist.literature.online")]
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
