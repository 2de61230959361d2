"""What is indexed is made by the processes that read, and is the same without them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from index_kit import write_sources, write_works

from hpcscientist.literature.index import documents as making
from hpcscientist.literature.index.documents import (
    FORMULAS,
    PAPERS,
    SYMBOLS,
    Indexing,
    in_parts,
)
from hpcscientist.literature.library.build import build
from hpcscientist.literature.library.processes.extraction import SourceEnd
from hpcscientist.literature.library.processes.pool import ReaderPool, SourceLimits
from hpcscientist.literature.library.store import Store, open_store


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    folder = tmp_path_factory.mktemp("documents")
    works = [(f"Title number {n} of all", f"What paper {n} says of nets.") for n in range(700)]
    inputs = [write_works(folder / "works.jsonl", works), *write_sources(folder / "sources")]
    build(inputs, folder / "library", jobs=1)
    return open_store(folder / "library")


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> Iterator[ReaderPool]:
    monkeypatch.setattr(making, "_WORTH_STARTING", 1)
    with ReaderPool(2, SourceLimits()) as pool:
        yield pool


@pytest.mark.parametrize("name", [PAPERS, FORMULAS, SYMBOLS])
def test_processes_make_what_is_made_here(name: str, store: Store, pool: ReaderPool) -> None:
    positions = store.symbol_positions if name == SYMBOLS else store.positions
    here = making.documents(store, name, positions)
    for some in (pool, None):
        parts = list(in_parts(store, name, positions, some))
        assert sum(count for count, _ in parts) == len(positions)
        assert [document for _, part in parts for document in part] == here
    assert pool.running


def test_a_few_rows_start_no_process(store: Store) -> None:
    with ReaderPool(2, SourceLimits()) as pool:
        assert len(list(in_parts(store, PAPERS, store.positions[:100], pool))) == 1
        assert not pool.running


def test_some_rows_of_many(store: Store, pool: ReaderPool) -> None:
    for positions in (store.positions[::3], store.positions[650:], store.positions[:0]):
        found = [d for _, part in in_parts(store, PAPERS, positions, pool) for d in part]
        assert [document[0] for document in found] == positions.tolist()


def test_what_a_process_did_not_survive_is_made_here(
    store: Store, pool: ReaderPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The processes look for the library where it is not, and end with that."""
    positions = store.positions[:64]
    here = making.documents(store, PAPERS, positions)
    monkeypatch.setattr(store, "folder", Path("/nowhere"))
    monkeypatch.setattr(making, "_SHARES", 1)
    found = [d for _, part in in_parts(store, PAPERS, positions, pool) for d in part]
    assert found == here


def test_what_was_made_is_not_made_again(store: Store) -> None:
    work = Indexing(store.folder, store.fingerprint, PAPERS, store.positions)
    made, end = work.outputs()
    assert isinstance(made, making.Indexed)
    assert len(made.documents) == len(store)
    assert made.size > 20 * len(store)
    assert isinstance(end, SourceEnd)
    assert list(work.after(0).outputs()) == [made, end]
    assert list(work.after(1).outputs()) == [end]
