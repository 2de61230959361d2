"""A run begins by ending what an earlier one left, and nothing else."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from suites.leftovers import Busy, Workplace, identity


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["sleep", "600"])
    yield process
    process.kill()
    process.wait()


def left_by_an_earlier_run(base: Path, *owned: tuple[int, int]) -> Path:
    folder = base / "4711"
    (folder / "slurm" / "clone").mkdir(parents=True)
    (folder / "owner.json").write_text(json.dumps(owned))
    return folder


def never(folder: Path) -> None:
    raise AssertionError("there was no earlier run")


def test_first_run_makes_a_folder_and_removes_it(tmp_path: Path) -> None:
    base = tmp_path / "base"
    work = Workplace.claim(base, never)
    assert work.folder.parent == base
    assert work.folder.stat().st_mode & 0o777 == 0o755
    (work.folder / "deep" / "er").mkdir(parents=True)
    work.remove()
    assert not base.exists()


def test_what_an_earlier_run_left_is_ended(
    tmp_path: Path, sleeper: subprocess.Popen[bytes]
) -> None:
    folder = left_by_an_earlier_run(tmp_path, identity(sleeper.pid))
    called: list[tuple[Path, bool]] = []
    work = Workplace.claim(tmp_path, lambda it: called.append((it, (it / "slurm").exists())))
    assert sleeper.wait(60) == -9
    assert called == [(folder, True)]  # while what it knows of its clusters is still there
    assert not folder.exists()
    work.remove()


def test_a_process_that_got_the_number_later_is_left_alone(
    tmp_path: Path, sleeper: subprocess.Popen[bytes]
) -> None:
    pid, start = identity(sleeper.pid)
    folder = left_by_an_earlier_run(tmp_path, (pid, start - 1), (pid, 0))
    work = Workplace.claim(tmp_path, lambda folder: None)
    assert sleeper.poll() is None
    assert not folder.exists()
    work.remove()


def test_a_torn_record_is_no_obstacle(tmp_path: Path) -> None:
    folder = left_by_an_earlier_run(tmp_path)
    (folder / "owner.json").write_text("[[12, 3")
    work = Workplace.claim(tmp_path, lambda folder: None)
    assert not folder.exists()
    work.remove()


def test_a_run_that_lives_is_left_alone(tmp_path: Path) -> None:
    work = Workplace.claim(tmp_path, never)
    with pytest.raises(Busy, match=f" {tmp_path}: "):
        Workplace.claim(tmp_path, never)
    assert work.folder.is_dir()
    work.remove()


def test_processes_that_it_starts_are_noted(
    tmp_path: Path, sleeper: subprocess.Popen[bytes]
) -> None:
    work = Workplace.claim(tmp_path, never)
    work.owns(sleeper.pid)
    noted = json.loads((work.folder / f"owner-{os.getpid()}.json").read_text())
    assert noted[1] == list(identity(sleeper.pid))
    assert noted[1][1] > 0
    work.remove()


def test_each_of_its_processes_notes_what_it_starts(
    tmp_path: Path, sleeper: subprocess.Popen[bytes]
) -> None:
    work = Workplace.claim(tmp_path, never)
    child = os.fork()
    if child == 0:
        try:
            work.owns(sleeper.pid)
        finally:
            os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    mine = json.loads((work.folder / f"owner-{os.getpid()}.json").read_text())
    assert mine == [list(identity(os.getpid()))]
    its = json.loads((work.folder / f"owner-{child}.json").read_text())
    assert [pid for pid, _ in its] == [child, sleeper.pid]
    left = work.folder.rename(tmp_path / "left")
    os.close(work._lock)
    (left / f"owner-{os.getpid()}.json").unlink()
    Workplace.claim(tmp_path, lambda folder: None).remove()
    assert sleeper.wait(60) == -9


def test_identity_of_what_has_gone(sleeper: subprocess.Popen[bytes]) -> None:
    sleeper.kill()
    sleeper.wait()
    assert identity(sleeper.pid)[1] == 0
