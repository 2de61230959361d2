"""Readers are forks of one process, which imports for all of them and outlives each of them."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import psutil
import pytest
from library_kit import article, write_bib

from hpcscientist.literature.library.build import build
from hpcscientist.literature.library.processes import forks as module
from hpcscientist.literature.library.processes.extraction import RowBatch, SourceEnd, Task
from hpcscientist.literature.library.processes.forks import Forks, forks_for
from hpcscientist.literature.library.processes.pool import ReaderPool, SourceLimits
from hpcscientist.literature.sources.base import PaperSource


@pytest.fixture
def forks() -> Iterator[Forks]:
    made = Forks()
    yield made
    made.close()


def begun(forks: Forks, number: int) -> tuple[Connection, int]:
    connection = Connection(forks.begin(number))
    pid: int = connection.recv()
    return connection, pid


def test_forks_of_one_process_are_told_apart(forks: Forks) -> None:
    first, one = begun(forks, 1)
    second, two = begun(forks, 2)
    server = psutil.Process(one).parent()
    assert server is not None
    assert server.ppid() == os.getpid()
    assert {child.pid for child in server.children()} == {one, two}
    first.close()
    assert forks.end(1, 60.0) == 0  # it ends by itself
    assert forks.end(2, 0.0) == -signal.SIGKILL
    assert forks.end(3, 0.0) == -signal.SIGKILL  # never heard of
    assert not server.children()
    second.close()


def test_the_end_of_all(forks: Forks, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PATIENCE_S", 300.0)  # past it, it is killed
    pids = [begun(forks, number)[1] for number in range(3)]
    server = psutil.Process(pids[0]).parent()
    assert server is not None
    assert forks.close() == 0
    assert not any(psutil.pid_exists(pid) for pid in [*pids, server.pid])
    assert forks.end(0, 0.0) == forks.close() == -signal.SIGKILL
    assert begun(forks, 0)[1] not in pids  # more to do: another process


def test_the_process_of_forks_may_be_killed(forks: Forks, tmp_path: Path) -> None:
    kept, another = begun(forks, 99)  # by which theirs is told from what other tests left running
    server = psutil.Process(another).parent()
    assert server is not None
    files = [
        write_bib(tmp_path / f"{n}.bib", {f"k{n}": article(f"The article number {n}")})
        for n in range(6)
    ]
    tasks = [Task(PaperSource(file, "bibtex", str(file)), n) for n, file in enumerate(files)]
    with kept, ReaderPool(2, SourceLimits(), forks) as pool:
        outputs = pool.read(tasks)
        found = [next(outputs)[1]]
        server.kill()
        found += [output for _, output in outputs]
    assert sum(isinstance(output, SourceEnd) for output in found) == len(tasks)
    assert sum(output.paper_rows for output in found if isinstance(output, RowBatch)) == len(tasks)


def test_modules_are_imported_before_a_fork(
    forks: Forks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "heavy_parser.py").write_text(
        "import os\n"
        f"told = {str(tmp_path / 'told')!r}\n"
        "def prepare():\n"
        "    with open(told, 'a') as file:\n"
        "        file.write(f'{os.getpid()} ')\n"
        "    raise RuntimeError('no fault of a source')\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    forks.modules |= {"heavy_parser", "no_such_module"}
    _, pid = begun(forks, 0)
    assert int((tmp_path / "told").read_text()) == psutil.Process(pid).ppid()


@pytest.mark.parametrize(("name", "begins"), [("made.PDF", True), ("made.bib", False)])
def test_readers_of_pdfs_begin_early(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, begins: bool
) -> None:
    started: list[int] = []

    class Noted(subprocess.Popen[bytes]):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            started.append(self.pid)

    monkeypatch.setattr(subprocess, "Popen", Noted)

    def own() -> list[int]:
        """Not all children: what other tests left may become one at any moment."""
        return [pid for pid in started if psutil.pid_exists(pid)]

    (tmp_path / "in").mkdir()
    (tmp_path / "in" / name).write_bytes(b"")
    for given in (tmp_path / "in", tmp_path / "in" / name):
        with forks_for([tmp_path / "nowhere", given], tmp_path / "library") as forks:
            assert len(own()) == begins
            assert begins == bool(forks.modules)
        assert not own()
    build([tmp_path / "in"], tmp_path / "library")
    with forks_for([tmp_path / "in"], tmp_path / "library"):
        assert not own()
