"""What `bench library` measures and what it compares with, each in a process of its own.

Nothing heavy is imported here: importing PyMuPDF and starting processes falls on both sides.
"""

from __future__ import annotations

import importlib
import json
import multiprocessing
import statistics
import time
from pathlib import Path
from typing import Any

_WARM = 20  # searches before those that count
_LIMIT = 10


def extract_text(folder: str, jobs: int) -> None:
    """Extract the text of all PDFs of a folder with PyMuPDF, as one does it by hand."""
    pymupdf: Any = importlib.import_module("pymupdf")  # now, for that is measured
    pymupdf.TOOLS.mupdf_display_errors(False)
    files = sorted(str(path) for path in Path(folder).glob("*.pdf"))
    with multiprocessing.get_context("fork").Pool(jobs) as pool:
        read = sum(pool.imap_unordered(text_length, files, chunksize=4))
    if not read:
        raise RuntimeError("no text in any of the files")


def text_length(path: str) -> int:
    """Return how many characters `get_text` gives of all pages; 0 for what cannot be read."""
    pymupdf: Any = importlib.import_module("pymupdf")
    try:
        with pymupdf.open(path) as document:
            if document.needs_pass:
                return 0
            return sum([len(page.get_text()) for page in document])
    except RuntimeError:  # damaged
        return 0


def read_and_store(inputs: str, out: str, jobs: int) -> None:
    """Build a library without an index: what reading and storing alone takes."""
    _build(inputs, out, jobs, with_index=False)


def build_library(inputs: str, out: str, jobs: int) -> None:
    """Build a library as `hpcsci library build` does, into a folder that is new."""
    _build(inputs, out, jobs, with_index=True)


def build_watched(inputs: str, out: str, jobs: int, told: str) -> None:
    """Build a library, and write the peak memory of all its processes in MiB to a file."""
    from benchmarks.library.memory import PeakMemory  # noqa: PLC0415

    with PeakMemory() as peak:
        _build(inputs, out, jobs, with_index=True)
    Path(told).write_text(json.dumps({"peak_mb": peak.largest_mb}))


def _build(inputs: str, out: str, jobs: int, with_index: bool) -> None:
    from hpcscientist.literature.library.processes.forks import forks_for  # noqa: PLC0415

    with forks_for([Path(inputs)], Path(out)) as forks:  # as `hpcsci library build` does
        index = None
        if with_index:
            from hpcscientist.literature.index.update import LibraryIndex  # noqa: PLC0415

            index = LibraryIndex()
        from hpcscientist.literature.library.build import build  # noqa: PLC0415

        report = build([Path(inputs)], Path(out), jobs=jobs, index=index, forks=forks)
    if not report.papers:
        raise RuntimeError(f"nothing could be read: {report.skipped}")


def ask(library: str, asked: str, told: str) -> None:
    """Ask a library questions, each of the bare index too; write medians in ms to a file.

    The bare side is tantivy's search with the same words in the same fields, made into a query
    before the clock starts; it fetches no document.
    """
    from hpcscientist.literature.index.search import open_library  # noqa: PLC0415

    queries: list[str] = json.loads(Path(asked).read_text())
    opened = open_library(Path(library))
    bare = BareIndex(Path(library))
    took: dict[str, list[float]] = {"bare": [], "keyword": [], "both": []}
    found = 0
    warm = queries[:_WARM]
    for number, query in enumerate([*warm, *queries]):
        parsed = bare.parse(query)
        times = {
            "bare": _time(lambda parsed=parsed: bare.search(parsed)),
            "keyword": _time(lambda q=query: opened.search(q, _LIMIT, "keyword")),
            "both": _time(lambda q=query: opened.search(q, _LIMIT, "both")),
        }
        if number >= len(warm):
            found += len(opened.search(query, _LIMIT, "keyword"))
            for side, seconds in times.items():
                took[side].append(1000 * seconds)
    if not found:
        raise RuntimeError("no question found anything")
    medians = {side: statistics.median(times) for side, times in took.items()}
    Path(told).write_text(json.dumps(medians))


def _time(call: Any) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


class BareIndex:
    """The keyword index of a library's papers, as tantivy has it."""

    def __init__(self, library: Path) -> None:
        from hpcscientist.literature.index import catalogue, documents, engine  # noqa: PLC0415
        from hpcscientist.literature.library.paths import LibraryPaths  # noqa: PLC0415

        paths = catalogue.IndexPaths(LibraryPaths(library).index)
        known = catalogue.read(paths)
        assert known is not None
        folder = paths.path(known.keyword.folder) / documents.PAPERS
        self._schema, self._searcher = engine.open_view(folder)
        self._boosts = engine.PAPERS

    def parse(self, query: str) -> Any:
        """Return a query as tantivy's own object: any of its words in any field."""
        import tantivy  # noqa: PLC0415 (heavy)

        from hpcscientist.models.embedding.keywords import telling  # noqa: PLC0415

        parts = [
            tantivy.Query.boost_query(
                tantivy.Query.term_query(self._schema, field, term, "freq"), boost
            )
            for term in dict.fromkeys(telling(query))
            for field, boost in self._boosts.items()
        ]
        return tantivy.Query.boolean_query([(tantivy.Occur.Should, part) for part in parts])

    def search(self, parsed: Any) -> Any:
        """Return the hits' scores and addresses."""
        return self._searcher.search(parsed, _LIMIT, count=False).hits
