from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcscientist.authoring import attempts
from hpcscientist.files.hashing import hash_texts, hash_tree
from hpcscientist.files.rundir import IdeaPaths
from hpcscientist.records.authoring import Draft

OLD = {"experiment.py": "RATE = 0.1\nprint(RATE)\n", "helper.py": "HELP = 1\n"}
NEW = {
    "experiment.py": "RATE = 0.2\nprint(RATE)\n",
    "helper.py": "HELP = 1\n",
    "sub/more.py": "é = 'a\x0cb'\r\nno_newline = 1",
}


@pytest.fixture
def paths(tmp_path: Path) -> IdeaPaths:
    return IdeaPaths(tmp_path / "ideas" / "idea-0007")


def tree(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {
        p.relative_to(folder).as_posix(): (p.stat().st_ino, p.read_bytes())
        for p in folder.rglob("*")
        if p.is_file()
    }


def test_an_attempt_is_saved_whole_and_loaded_as_it_was(paths: IdeaPaths) -> None:
    attempt = attempts.save(paths, 2, Draft(files=NEW, note="Doubled the rate."), OLD)
    assert (attempt.idea_id, attempt.number) == ("idea-0007", 2)
    assert attempt.note == "Doubled the rate."
    assert attempt.code_hash == hash_tree(paths.code(2)) == hash_texts(NEW)
    assert attempts.load(paths, 2) == Draft(files=NEW, note="Doubled the rate.")
    folder = paths.attempt(2)
    assert sorted(p.name for p in folder.iterdir()) == ["code", "diff.patch", "note.md"]
    assert (folder / "note.md").read_text() == "Doubled the rate.\n"


def test_saving_again_leaves_the_code_as_it_is(paths: IdeaPaths) -> None:
    draft = Draft(files=NEW, note="n")
    first = attempts.save(paths, 1, draft, OLD)
    before = tree(paths.code(1))
    assert attempts.save(paths, 1, draft, OLD) == first
    assert tree(paths.code(1)) == before


def test_a_half_written_folder_is_replaced(paths: IdeaPaths) -> None:
    code = paths.code(1)
    code.mkdir(parents=True)
    (code / "experiment.py").write_text("RATE = 0.")
    (code / "stale.py").write_text("")
    left_over = paths.attempt(1) / ".code.123"
    left_over.mkdir()
    (left_over / "experiment.py").write_text("")
    attempts.save(paths, 1, Draft(files=NEW, note="n"), OLD)
    assert attempts.load(paths, 1) == Draft(files=NEW, note="n")
    assert not left_over.exists()


def test_a_failed_write_leaves_no_code(paths: IdeaPaths, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, text: str, **_: bool) -> None:
        if path.name == "more.py":
            raise OSError(28, "No space left on device")
        path.write_text(text)

    monkeypatch.setattr(attempts, "write_text", full)
    with pytest.raises(OSError, match="Errno 28"):
        attempts.save(paths, 1, Draft(files=NEW, note="n"), OLD)
    assert not paths.code(1).exists()
    assert not list(paths.attempt(1).glob(".code*"))


def test_byte_code_caches_do_not_count(paths: IdeaPaths) -> None:
    attempts.save(paths, 1, Draft(files=NEW, note="n"), OLD)
    (paths.code(1) / "__pycache__").mkdir()
    (paths.code(1) / "__pycache__" / "experiment.pyc").write_bytes(b"\xff")
    assert attempts.load(paths, 1) == Draft(files=NEW, note="n")


def test_no_files_are_an_empty_folder(paths: IdeaPaths) -> None:
    attempts.save(paths, 1, Draft(files={}, note=""), OLD)
    assert attempts.load(paths, 1) == Draft(files={}, note="")


def test_an_attempt_that_was_never_saved_or_cannot_be_read_is_none(paths: IdeaPaths) -> None:
    assert attempts.load(paths, 3) is None
    attempts.save(paths, 1, Draft(files=NEW, note="n"), OLD)
    (paths.attempt(1) / "note.md").unlink()
    assert attempts.load(paths, 1) is None
    attempts.save(paths, 1, Draft(files=NEW, note="n"), OLD)
    (paths.code(1) / "experiment.py").write_bytes(b"\xff")
    assert attempts.load(paths, 1) is None


@pytest.mark.parametrize("what", ["a pipe", "a link", "a file without end"])
@pytest.mark.parametrize("name", ["note.md", "code/experiment.py"])
def test_what_was_put_in_its_place_is_not_read(name: str, what: str, paths: IdeaPaths) -> None:
    attempts.save(paths, 1, Draft(files=NEW, note="n"), OLD)
    place = paths.attempt(1) / name
    place.unlink()
    if what == "a pipe":
        os.mkfifo(place)
    elif what == "a link":
        place.symlink_to("/etc/hostname")
    else:
        with place.open("wb") as file:
            file.truncate(1 << 42)
    found = attempts.load(paths, 1)
    # A version that lacks a file has another hash.
    assert found is None or (name != "note.md" and found.files.keys() < NEW.keys())


@pytest.mark.parametrize("note", ["", " ", "two\nlines \n\n", "\n  indented", "a\r\n", "ü\u2028"])
def test_a_note_is_read_back_as_it_was_told(note: str, paths: IdeaPaths) -> None:
    draft = Draft(files=NEW, note=note)
    assert draft.note == note.rstrip()
    attempts.save(paths, 1, draft, OLD)
    assert attempts.load(paths, 1) == draft


@pytest.mark.parametrize("left", [None, b"", b"Doub", b"\xff", b"other\n"])
def test_a_note_that_is_known_is_written_anew(left: bytes | None, paths: IdeaPaths) -> None:
    draft = Draft(files=NEW, note="Doubled the rate.")
    attempts.save(paths, 1, draft, OLD)
    place = paths.attempt(1) / "note.md"
    place.unlink()
    if left is not None:  # by a power cut
        place.write_bytes(left)
    assert attempts.load(paths, 1, draft.note) == draft
    assert place.read_text() == "Doubled the rate.\n"


def test_a_note_that_is_known_is_known_without_its_file(paths: IdeaPaths) -> None:
    draft = Draft(files=NEW, note="Doubled the rate.")
    attempts.save(paths, 1, draft, OLD)
    place = paths.attempt(1) / "note.md"
    place.unlink()
    place.mkdir()
    assert attempts.load(paths, 1, draft.note) == draft
    assert attempts.load(paths, 1) is None


def test_the_same_files_have_an_empty_patch() -> None:
    assert attempts.patch(OLD, dict(OLD)) == ""


def test_a_patch_reads_as_usual() -> None:
    assert attempts.patch(OLD, {**OLD, "experiment.py": "RATE = 0.2\nprint(RATE)\n"}) == (
        "--- a/experiment.py\n+++ b/experiment.py\n@@ -1,2 +1,2 @@\n"
        "-RATE = 0.1\n+RATE = 0.2\n print(RATE)\n"
    )


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git to apply the patch")
@pytest.mark.parametrize(
    ("old", "new"),
    [
        (OLD, NEW),
        ({"a.py": "x"}, {"a.py": "x\n"}),
        ({"a.py": "x\n"}, {"a.py": "x"}),
        ({"a.py": "x\u2028y\x0bz\n1\n"}, {"a.py": "x\u2028y\x0bz\n2\n"}),
        ({"a.py": "x\r\ny\r\n"}, {"a.py": "x\r\nz\r\n"}),
        ({"a.py": "1\n", "b.py": "2\n"}, {"b.py": "2\n"}),
    ],
)
def test_git_applies_the_patch(tmp_path: Path, old: dict[str, str], new: dict[str, str]) -> None:
    for name, text in old.items():
        (tmp_path / name).write_bytes(text.encode())
    subprocess.run(
        ["git", "apply", "-p1", "-"],
        input=attempts.patch(old, new).encode(),
        cwd=tmp_path,
        check=True,
    )
    files = (p for p in tmp_path.rglob("*") if p.is_file())
    assert {p.relative_to(tmp_path).as_posix(): p.read_bytes().decode() for p in files} == new


@given(st.text(max_size=30), st.text(max_size=30))
def test_a_patch_ends_its_last_line(old: str, new: str) -> None:
    text = attempts.patch({"a": old}, {"a": new})
    assert (text == "") == (old == new)
    assert text == "" or text.endswith("\n")
