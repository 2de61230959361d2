"""A build that is killed goes on, and the library is the same, byte by byte."""

from __future__ import annotations

import contextlib
import os
import signal
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from library_kit import (
    article,
    build_process,
    papers,
    title,
    tree,
    write_abstracts,
    write_bib,
    write_code,
)

from hpcscientist.errors import LibraryError
from hpcscientist.literature.library.build import build
from hpcscientist.literature.library.store import open_store

# In a Python with its folder on the path: a reader says that it has a source of this name in hand,
# and stays there.
STAYS = """
import os, sys, time

def stay(event, arguments):
    if event == "open" and isinstance(arguments[0], str) and arguments[0].endswith("stays.bib"):
        os.close(os.open(arguments[0] + ".mark", os.O_CREAT))
        while True:
            time.sleep(3600)

if "hpcscientist.literature.library.processes.reader" in " ".join(sys.orig_argv):
    sys.addaudithook(stay)
"""
ROWS = 300  # a part: more than a batch, so that a part ends within a source


@dataclass(frozen=True, slots=True)
class Case:
    """Sources, and the library of a build that nobody disturbed, with the files it wrote."""

    sources: list[Path]
    whole: Path
    files: int


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Case:
    folder = tmp_path_factory.mktemp("case")
    write_abstracts(folder / "a.jsonl", 900, words=5)
    write_bib(
        folder / "b.bib",
        {f"k{n}": article(title(n), 2017, doi=f"10.1000/{n}") for n in range(0, 900, 2)},
    )
    write_code(folder / "code")
    (folder / "c.bib").write_text("@article{broken, title = ")
    sources = [folder / name for name in ("a.jsonl", "b.bib", "code", "c.bib")]
    process = build_process(sources, folder / "whole", part_rows=ROWS)
    out, error = process.communicate()
    assert process.returncode == 0, error
    return Case(sources, folder / "whole", int(out.split()[2]))


@pytest.mark.full
def test_build_that_is_killed_again_and_again_ends(case: Case, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    assert case.files > 12
    for _ in range(case.files):
        # The end of a build is five files, and is done anew if they do not all come about.
        process = build_process(case.sources, broken, part_rows=ROWS, kill_at=7)
        _, error = process.communicate()
        if process.returncode == 0:
            break
        assert process.returncode == -signal.SIGKILL, error
    assert tree(broken) == tree(case.whole)
    assert len(papers(broken)) == 900


@pytest.mark.full
@pytest.mark.parametrize("before_end", [0, 3])
def test_kill_in_the_last_moments_changes_nothing(
    case: Case, tmp_path: Path, before_end: int
) -> None:
    # The last two files are library.json and the list of what was skipped.
    broken, moment = tmp_path / "broken", case.files - 1 - before_end
    process = build_process(case.sources, broken, part_rows=ROWS, kill_at=moment)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    with pytest.raises(LibraryError, match=rf"^{broken}: .*first build.*`hpcsci library build`"):
        open_store(broken)
    build(case.sources, broken)
    assert tree(broken) == tree(case.whole)


def test_readers_end_with_the_build_that_was_killed(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(STAYS)
    sources = [
        write_abstracts(tmp_path / "a.jsonl", 8_000, words=3),
        write_bib(tmp_path / "stays.bib", {"k": article("One that takes its reader's time")}),
    ]
    process = build_process(
        sources,
        tmp_path / "out",
        part_rows=1000,
        jobs=2,
        environment={"PYTHONPATH": str(tmp_path)},
    )
    first = tmp_path / "out" / "sources" / "commit-000001.jsonl"
    while not (first.exists() and (tmp_path / "stays.bib.mark").exists()):
        assert process.poll() is None
    readers = psutil.Process(process.pid).children(recursive=True)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    assert len(readers) >= 2, "what readers are forks of, and the one that stays"
    _, alive = psutil.wait_procs(readers, timeout=300)
    with contextlib.suppress(psutil.NoSuchProcess):
        assert all(p.status() == psutil.STATUS_ZOMBIE for p in alive)
