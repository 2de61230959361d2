from __future__ import annotations

import os
from pathlib import Path

from hpcscientist.execution import folders


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


def test_a_closed_folder_hides_nothing(tmp_path: Path) -> None:
    closed = tmp_path / "a" / "b"
    closed.mkdir(parents=True)
    (closed / "file").write_bytes(b"x" * 100_000)
    closed.chmod(0)
    (tmp_path / "a").chmod(0)
    size, entries = folders.measure((tmp_path,), 1 << 50)
    assert size >= 100_000
    assert entries == 3


def test_nesting_deeper_than_a_path_may_be_is_too_much(tmp_path: Path) -> None:
    here = os.open(tmp_path, os.O_RDONLY)
    for _ in range(500):
        os.mkdir("d" * 10, dir_fd=here)
        deeper = os.open("d" * 10, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = deeper
    os.close(here)
    assert folders.measure((tmp_path,), 1 << 50)[1] > folders.MAX_ENTRIES
    folders.leave_plain(tmp_path, 1 << 50)
    assert list(tmp_path.iterdir()) == []


def test_only_plain_files_are_left(tmp_path: Path) -> None:
    outside, out = tmp_path / "outside", tmp_path / "out"
    (out / "sub").mkdir(parents=True)
    outside.write_text("")
    for folder in (out, out / "sub"):
        (folder / "kept").write_text("kept")
        (folder / "link").symlink_to(outside)
        os.link(outside, folder / "hard")
        os.mkfifo(folder / "fifo")
    (out / "a").write_text("")
    os.link(out / "a", out / "b")
    (out / "program").touch(mode=0o6755)
    (out / "program").chmod(0o6755)
    (out / "closed").mkdir()
    (out / "closed" / "inner").touch(mode=0)
    (out / "closed").chmod(0)
    folders.leave_plain(out, 1 << 20)
    left = {str(path.relative_to(out)) for path in out.rglob("*")}
    assert left == {"kept", "program", "sub", "sub/kept", "closed", "closed/inner"}
    assert (out / "program").stat().st_mode & 0o7777 == 0o644
    assert outside.stat().st_nlink == 1


def test_too_much_is_not_left_at_all(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * (2 << 20))
    folders.leave_plain(tmp_path, 1 << 20)
    assert list(tmp_path.iterdir()) == []
