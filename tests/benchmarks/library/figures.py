"""`benchmarks library`: building a library and searching it.

PDFs: as `hpcsci library build` reads, stores and indexes them, beside a script that does nothing
but `page.get_text()` of all pages with as many processes. One file in twenty is scanned, needs a
password, or is broken. Both clocks run from before PyMuPDF is imported to the end of the last
process. Abstracts: the same build of one large file, and the memory of all its processes.
Searches: on that library, beside the bare keyword index.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.library import sides
from benchmarks.library.abstracts import questions, write_abstracts
from benchmarks.library.pdfs import write_pdfs
from hpcscientist.bench.figure import Figure, RunCosts, TimedCall, measure
from hpcscientist.ports import Tell

PDF_TARGET: Final = 0.8  # of the rate of bare text extraction
MEMORY_MB: Final = 1024.0  # all processes of a build together


@dataclass(frozen=True, slots=True)
class Options:
    """How much is measured.

    `jobs` None stands for a process a core. Files go to a folder in `folder`, which is removed.
    """

    pdfs: int = 300
    abstracts: int = 100_000
    queries: int = 300
    runs: int = 3
    jobs: int | None = None
    folder: Path | None = None
    parts: Sequence[str] = ("pdfs", "abstracts")


def figures(options: Options, tell: Tell = lambda _: None) -> list[Figure]:
    """Measure what `options` asks for.

    Raises ValueError for counts below 1, LibraryError without PyMuPDF, OSError where files find
    no room, CalledProcessError where a side fails.
    """
    if min(options.pdfs, options.abstracts, options.queries, options.runs) < 1:
        raise ValueError("PDFs, abstracts, queries and runs are at least 1")
    found: list[Figure] = []
    with tempfile.TemporaryDirectory(prefix="hpcsci-bench-", dir=options.folder) as place:
        if "pdfs" in options.parts:
            found += _pdfs(options, Path(place), tell)
        if "abstracts" in options.parts:
            found += _abstracts(options, Path(place), tell)
    return found


def _jobs(options: Options) -> int:
    return options.jobs or len(os.sched_getaffinity(0))


def _pdfs(options: Options, place: Path, tell: Tell) -> list[Figure]:
    tell(f"making {options.pdfs} PDFs")
    folder = place / "pdfs"
    write_pdfs(folder, options.pdfs)
    jobs = _jobs(options)
    took: dict[str, list[RunCosts]] = {"bare": [], "stored": [], "built": []}
    for run in range(options.runs):
        tell(f"PDFs, run {run + 1} of {options.runs}, {jobs} processes")
        stored, built = str(place / f"stored-{run}"), str(place / f"built-{run}")
        calls = {
            "bare": TimedCall(sides.extract_text, (str(folder), jobs)),
            "stored": TimedCall(sides.read_and_store, (str(folder), stored, jobs)),
            "built": TimedCall(sides.build_library, (str(folder), built, jobs)),
        }
        for side, measured in measure(calls, 1).items():
            took[side].append(measured)
    rates = {
        side: [options.pdfs / seconds for of in all_of for seconds in of.seconds]
        for side, all_of in took.items()
    }
    bare = _median(rates["bare"])
    words = f"bare PyMuPDF text extraction: {bare:.3g} documents/s"
    name = f"{options.pdfs} PDFs"
    return [
        _rate(f"{name}, bare text extraction", rates["bare"], None),
        _rate(f"{name}, read and stored", rates["stored"], (words, bare)),
        _rate(f"{name}, library built", rates["built"], (words, bare)),
        *_processor(name, took, options.pdfs),
    ]


def _processor(name: str, took: dict[str, list[RunCosts]], count: int) -> list[Figure]:
    """What the same took of the cores: other work on the machine falls less on that."""
    spent = {
        side: [1000 * cpu / count for of in all_of for cpu in of.cpu_s]
        for side, all_of in took.items()
    }
    bare = _median(spent["bare"])
    words = f"bare text extraction: {bare:.3g} ms"
    return [
        _latency(f"{name}, processor time a document, {what}", spent[side], (words, bare))
        for side, what in (("stored", "read and stored"), ("built", "library built"))
    ]


def _abstracts(options: Options, place: Path, tell: Tell) -> list[Figure]:
    tell(f"making {options.abstracts} abstracts")
    source = place / "abstracts.jsonl"
    write_abstracts(source, options.abstracts)
    library, told, asked = place / "library", place / "told.json", place / "asked.json"
    tell(f"building a library of {options.abstracts} abstracts")
    call = TimedCall(sides.build_watched, (str(source), str(library), _jobs(options), str(told)))
    took = measure({"built": call}, 1)["built"]
    peak = float(json.loads(told.read_text())["peak_mb"])
    asked.write_text(json.dumps(questions(options.queries)))
    times: dict[str, list[float]] = {"bare": [], "keyword": [], "both": []}
    for run in range(options.runs):
        tell(f"{options.queries} searches, run {run + 1} of {options.runs}")
        measure({"ask": TimedCall(sides.ask, (str(library), str(asked), str(told)))}, 1)
        for side, median in json.loads(told.read_text()).items():
            times[side].append(median)
    name = f"{options.abstracts} abstracts"
    bare = _median(times["bare"])
    words = f"bare keyword-index query: {bare:.3g} ms"
    rate = [options.abstracts / seconds for seconds in took.seconds]
    bound = f"a bound of {MEMORY_MB:g} MiB"
    return [
        _rate(f"{name}, library built", rate, None),
        Figure(
            f"{name}, peak memory of all processes", peak, "MiB", bound, None, MEMORY_MB, 0.0, 1
        ),
        _latency("search, bare keyword index", times["bare"], None),
        _latency("search, by keyword, with explanations", times["keyword"], (words, bare)),
        _latency("search, by keyword and embedding", times["both"], (words, bare)),
    ]


def _rate(name: str, rates: Sequence[float], than: tuple[str, float] | None) -> Figure:
    value = _median(rates)
    ratio = value / than[1] if than else None
    target = PDF_TARGET if than else None
    spread = max(rates) - min(rates)
    words = than[0] if than else None
    return Figure(
        name, value, "documents/s", words, ratio, target, spread, len(rates), at_least=True
    )


def _latency(name: str, times: Sequence[float], than: tuple[str, float] | None) -> Figure:
    value = _median(times)
    ratio = value / than[1] if than else None
    spread = max(times) - min(times)
    return Figure(name, value, "ms", than[0] if than else None, ratio, None, spread, len(times))


def _median(values: Sequence[float]) -> float:
    ordered = sorted(values)
    middle = len(ordered) // 2
    return (ordered[middle] + ordered[~middle]) / 2
