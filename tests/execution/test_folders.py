from __future__ import annotations

import os
from pathlib import Path

from hpcscientist.execution import folders
from hpcscientist.files.rundir import TrialPaths


def test_empty_survives_nesting_deeper_than_a_path_may_be(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    here = os.open(folder, os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("d" * 10, dir_fd=here)
        deeper = os.open("d" * 10, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = deeper
    os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=here))
    os.close(here)
    folders.empty(folder)
    assert list(folder.iterdir()) == []


def test_empty_follows_no_link(tmp_path: Path) -> None:
    outside, folder = tmp_path / "outside", tmp_path / "out"
    outside.mkdir()
    (outside / "kept").write_text("")
    (folder / "sub").mkdir(parents=True)
    (folder / "link").symlink_to(outside)
    (folder / "sub" / "link").symlink_to(outside)
    os.mkfifo(folder / "fifo")
    (folder / "locked").mkdir(mode=0)
    folders.remove(folder)
    assert not folder.exists()
    assert (outside / "kept").exists()


def test_renew_replaces_whatever_is_there(tmp_path: Path) -> None:
    (tmp_path / "target").mkdir()
    path = tmp_path / "out"
    path.symlink_to(tmp_path / "target")
    folders.renew(path)
    assert path.is_dir()
    assert not path.is_symlink()


def test_measure_counts_what_is_on_disk(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "file").write_bytes(b"x" * 100_000)
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(1 << 40)
    size, entries = folders.measure((tmp_path, tmp_path / "missing"), 1 << 50)
    assert 100_000 <= size < 1_000_000
    assert entries == 3


def test_scratch_is_private_and_goes(tmp_path: Path) -> None:
    paths = TrialPaths(tmp_path)
    with folders.scratch(paths) as scratch:
        assert scratch.stat().st_mode & 0o777 == 0o700
        (scratch / "sub").mkdir()
    assert not scratch.exists()


def test_scratch_of_a_killed_worker_is_found_again(tmp_path: Path) -> None:
    mine, other = TrialPaths(tmp_path / "a"), TrialPaths(tmp_path / "b")
    with folders.scratch(mine) as left, folders.scratch(other) as kept:
        folders.remove_scratch(mine)
        assert not left.exists()
        assert kept.exists()
        left.mkdir()
