"""`build`: from files and folders to a library, whatever was built there before."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from hpcscientist.errors import LibraryError
from hpcscientist.files.lock import Held, Lock
from hpcscientist.literature.library import ledger as ledgers
from hpcscientist.literature.library.files.contents import (
    Contents,
    changed,
    is_whole,
    read_contents,
)
from hpcscientist.literature.library.files.folder import prepare
from hpcscientist.literature.library.files.paths import LibraryPaths, refusal
from hpcscientist.literature.library.files.superseded import forget
from hpcscientist.literature.library.indexing import Index, Progress, Step
from hpcscientist.literature.library.ledger import Ledger
from hpcscientist.literature.library.processes.forks import Forks
from hpcscientist.literature.library.processes.pool import Limits, Pool, read_here
from hpcscientist.literature.library.publish import publish, sweep, write_skipped
from hpcscientist.literature.library.reading import Reading
from hpcscientist.literature.library.sameness.joining import join
from hpcscientist.literature.library.worklist import Worklist, make_worklist
from hpcscientist.literature.sources import base, detect

# What is read without a process, which takes a second to start, and so without limits: formats
# that are read in a time that their size bounds, by nothing that has crashed or stood still.
# Python's parser can end its process, MuPDF too, and macros of LaTeX are not so easily bounded.
SMALL_BYTES = 1 << 20
_PLAIN = frozenset({"bibtex", "arxiv", "semantic_scholar", "openalex", "online"})


@dataclass(frozen=True, slots=True)
class BuildReport:
    """What a build came to: totals of the library, sources of this build, what was skipped.

    `skipped` counts each reason; `gone` sources were removed with all they gave.
    """

    folder: Path
    papers: int
    symbols: int
    formulas: int
    fingerprint: str
    read: int
    unchanged: int
    gone: int
    documents: int
    skipped: dict[str, int] = field(default_factory=dict)

    @property
    def useless(self) -> bool:
        """Whether nothing at all could be read from the inputs."""
        return not self.documents and not self.unchanged


@dataclass(frozen=True, slots=True)
class Options:
    """How a build is done.

    `prune` removes what is not among the inputs any more, `again` reads once more what was not
    read, or not whole. `sweep` gives back the space of what builds before this one replaced,
    which is kept for a time for those who have it open.
    """

    prune: bool = False
    again: bool = False
    sweep: bool = False
    limits: Limits = field(default_factory=Limits)


def quiet(step: Step) -> None:
    """Tell nobody."""


def build(
    inputs: Sequence[Path],
    out: Path,
    *,
    jobs: int | None = None,
    options: Options | None = None,
    index: Index | None = None,
    progress: Progress = quiet,
    forks: Forks | None = None,
) -> BuildReport:
    """Build a library in `out`, or bring the one there up to date with the inputs.

    Only what is new or has changed is read, in `jobs` processes (None: as many as there are
    cores, and none for a little metadata), which are made of `forks`. Killed at any moment, the
    same call goes on. Raises LibraryError, DiskFull, and what `index` raises.
    """
    options = options or Options()
    if not inputs:
        raise LibraryError("nothing to build a library from: name files or folders")
    detect.inputs(inputs)  # raises for a path that is not there, before anything is made
    paths = LibraryPaths(out)
    prepare(paths)
    processes = Pool(jobs or len(os.sched_getaffinity(0)), options.limits, forks)
    with _lock(paths) as lock, processes as pool:
        before = read_contents(paths)  # now that nobody else can replace it
        ledger = ledgers.load(paths, before.edition if before else 0)
        mended = _forget_damaged(paths, ledger, before)
        if options.sweep:
            forget(paths)
        sweep(paths, ledger, before)
        worklist = make_worklist(inputs, out, ledger, prune=options.prune, again=options.again)
        reading = Reading(paths, ledger, partial(_check, paths, lock))
        pool.expect(base.module_of(listed.source.kind) for listed in worklist.todo)
        pool.expect(index.modules if index else ())
        read = read_here if jobs is None and _is_small(worklist) else pool.read
        documents = reading.run(worklist.todo, read, progress) if worklist.todo else 0
        contents = _finish(paths, ledger, worklist, lock, before, mended, progress)
        skipped = write_skipped(paths, ledger, worklist.troubles)
        if index is not None:
            index.update(out, progress, pool)
    return BuildReport(
        folder=out,
        papers=contents.papers,
        symbols=contents.symbols,
        formulas=contents.formulas,
        fingerprint=contents.fingerprint,
        read=len(worklist.todo),
        unchanged=worklist.unchanged,
        gone=len(worklist.gone),
        documents=documents,
        skipped=skipped,
    )


@contextmanager
def _lock(paths: LibraryPaths) -> Iterator[Lock]:
    """Hold the library. Raises LibraryError while another process builds it."""
    try:
        lock = Lock(paths.lock)
    except Held as holder:
        raise LibraryError(
            f"{paths.root}: {holder} builds it already: wait for that, or stop it"
        ) from holder
    except OSError as error:
        raise refusal(paths.root, error) from error
    try:
        yield lock
    finally:
        lock.release()


def _check(paths: LibraryPaths, lock: Lock) -> None:
    if lock.replaced():
        raise LibraryError(
            f"{paths.root}: another build took it over while this one stood still: wait for that "
            "one, and give the same command again"
        )


def _forget_damaged(paths: LibraryPaths, ledger: Ledger, before: Contents | None) -> bool:
    """Forget commits whose parts are gone or cut short, with every source they are of.

    Such sources are read anew. Returns whether anything was damaged.
    """
    lost = [
        commit
        for commit in ledger.commits
        if not all(is_whole(paths, part) for part in (commit.papers, commit.symbols) if part)
    ]
    ledger.commits = [commit for commit in ledger.commits if commit not in lost]
    readings = {reading for commit in lost for reading in commit.readings}
    ledger.entries = {k: e for k, e in ledger.entries.items() if e.reading not in readings}
    if ledger.cursor is not None and ledger.cursor.reading in readings:
        ledger.cursor = None
    return bool(lost) or (before is not None and changed(paths, before) is not None)


def _is_small(worklist: Worklist) -> bool:
    """Whether reading is over before a process would have started, and cannot go wrong."""
    return worklist.bytes <= SMALL_BYTES and all(p.source.kind in _PLAIN for p in worklist.todo)


def _finish(
    paths: LibraryPaths,
    ledger: Ledger,
    worklist: Worklist,
    lock: Lock,
    before: Contents | None,
    mended: bool,
    progress: Progress,
) -> Contents:
    """Publish a new edition, if anything is new."""
    news = ledger.last_commit > ledger.published or worklist.gone or worklist.touched or mended
    if before is not None and not news:
        return before
    for key in worklist.gone:
        del ledger.entries[key]
    ledger.entries |= {entry.path: entry for entry in worklist.touched}
    papers = join(paths, ledger, partial(_check, paths, lock), progress)
    _check(paths, lock)
    return publish(paths, ledger, papers, before)
