"""Files from outside are read only if they are regular, and no further than is allowed."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from hpcscientist.files.handed import kind_of, open_regular, read_regular


def a_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))


def a_link_to_a_pipe(path: Path) -> None:
    os.mkfifo(path.with_name("pipe"))
    path.symlink_to("pipe")


ODD: dict[str, tuple[Callable[[Path], object], int]] = {
    "a pipe": (os.mkfifo, errno.EINVAL),
    "a link to a pipe": (a_link_to_a_pipe, errno.EINVAL),
    "a device": (lambda path: path.symlink_to("/dev/zero"), errno.EINVAL),
    "a terminal": (lambda path: path.symlink_to("/dev/tty"), errno.EINVAL),
    "a socket": (a_socket, errno.EINVAL),
    "a folder": (Path.mkdir, errno.EISDIR),
}


@pytest.mark.parametrize("kind", ODD)
@pytest.mark.parametrize("read", [open_regular, read_regular])
def test_what_is_no_regular_file_is_not_opened(
    read: Callable[[Path], object], kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, number = ODD[kind]
    path, opened = tmp_path / "file", list[object]()
    make(path)
    monkeypatch.setattr(os, "open", lambda *given: opened.append(given))
    with pytest.raises(OSError) as refused:
        read(path)
    assert (refused.value.errno, refused.value.filename, opened) == (number, str(path), [])


def test_a_pipe_that_comes_into_the_place_of_a_file_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, opening = tmp_path / "file", os.open
    path.write_bytes(b"text")

    def replaced(name: Path, flags: int) -> int:
        path.unlink()
        os.mkfifo(path)
        assert flags & os.O_NONBLOCK, "opening it would wait for a writer"
        return opening(name, flags)

    monkeypatch.setattr(os, "open", replaced)
    with pytest.raises(OSError) as refused:
        read_regular(path)
    assert refused.value.errno == errno.EINVAL


def test_links_are_followed_where_that_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"text")
    (tmp_path / "link").symlink_to("file")
    assert read_regular(tmp_path / "link") == b"text"
    with pytest.raises(OSError) as refused:
        read_regular(tmp_path / "link", follow=False)
    assert refused.value.errno == errno.EINVAL
    assert kind_of((tmp_path / "link").lstat()) != kind_of((tmp_path / "file").lstat()) == ""


@pytest.mark.parametrize(("size", "is_read"), [(0, True), (9, True), (10, True), (11, False)])
def test_no_more_is_read_than_is_allowed(size: int, is_read: bool, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * size)
    if is_read:
        assert read_regular(path, 10) == b"x" * size
        return
    with pytest.raises(OSError) as refused:
        read_regular(path, 10)
    assert refused.value.errno == errno.EFBIG
