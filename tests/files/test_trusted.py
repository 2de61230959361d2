from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from hpcscientist.files import vault
from hpcscientist.files.trusted import FILE, TrustedCopies, TrustedCopy


@pytest.fixture(autouse=True)
def own_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(vault.ROOT_VARIABLE, str(tmp_path / "root"))
    return tmp_path / "root"


def made(run_dir: Path, campaign_id: str) -> TrustedCopy:
    run_dir.mkdir(exist_ok=True)
    copy = TrustedCopy.of(run_dir, campaign_id)
    copy.make(run_dir)
    copy.campaign.write_text("")
    return copy


def test_copies_are_of_a_campaign_in_its_place(tmp_path: Path) -> None:
    copy = made(tmp_path / "run", "tiny-1")
    (tmp_path / "link").symlink_to("run")
    assert copy.campaign_id == "tiny-1"
    assert TrustedCopy.found(tmp_path / "run") == TrustedCopy.found(tmp_path / "link") == copy
    assert TrustedCopy.found(tmp_path / "moved") is None
    assert not TrustedCopy.of(tmp_path / "moved", "tiny-1").is_there
    assert copy.root.stat().st_mode & 0o077 == 0


def test_the_campaign_that_came_last_to_a_place_has_it(tmp_path: Path) -> None:
    first, elsewhere = made(tmp_path / "run", "tiny-1"), made(tmp_path / "other", "tiny-2")
    second = made(tmp_path / "run", "tiny-3")
    assert TrustedCopy.found(tmp_path / "run") == second
    assert not first.is_there
    assert elsewhere.is_there
    (tmp_path / "other").rmdir()
    third = made(tmp_path / "third", "tiny-4")
    assert not elsewhere.is_there, "its run directory is gone"
    assert second.is_there
    third.remove()
    assert TrustedCopy.found(tmp_path / "third") is None


def test_what_was_put_last_is_got_by_this_driver_and_the_next(tmp_path: Path) -> None:
    path = tmp_path / "contents.jsonl"
    contents = TrustedCopies(path)
    contents.put("ideas/1/code", {"a.py": "x = 'é\u2028'\r\n", "b/c.py": ""})
    contents.put("ideas/1/idea.json", {FILE: "{}"})
    contents.put("ideas/1/code", {"a.py": "y"})
    for reader in (contents, TrustedCopies(path)):
        assert set(reader.names) == {"ideas/1/code", "ideas/1/idea.json"}
        assert reader.get("ideas/1/code") == {"a.py": "y"}
        assert reader.get("ideas/1/idea.json") == {FILE: "{}"}
        assert reader.get("ideas/2/code") is None
        assert reader.is_complete


def test_what_cannot_be_copied_has_no_copy(tmp_path: Path) -> None:
    contents = TrustedCopies(tmp_path / "folder" / "contents.jsonl")
    assert not contents.is_complete
    (tmp_path / "folder").mkdir()
    contents = TrustedCopies(tmp_path / "folder" / "contents.jsonl")
    contents.put("a", {FILE: "1"})
    shutil.rmtree(tmp_path / "folder")  # as a full disk
    contents.put("a", {FILE: "2"})
    assert contents.get("a") is None
    assert not contents.is_complete


def test_paths_below_the_root_are_told_as_keys(own_root: Path, tmp_path: Path) -> None:
    own_root.mkdir()
    (tmp_path / "link").symlink_to(own_root)
    assert vault.told(own_root / "a" / "b.py") == "a/b.py"
    assert vault.told(tmp_path / "link" / "a") == "a"
    assert vault.told(tmp_path / "else") == str(tmp_path / "else")
    assert vault.path_of(vault.told(own_root / "a" / "b.py")) == own_root / "a" / "b.py"


@pytest.mark.parametrize(
    "line", ["null", "[]", '{"name": []', "[" * 99_999, '{"name": "a", "files": 3']
)
def test_a_damaged_line_is_no_copy(line: str, tmp_path: Path) -> None:
    (tmp_path / "contents.jsonl").write_text(f"{line}\n")
    contents = TrustedCopies(tmp_path / "contents.jsonl")
    assert contents.get("a") is None
    contents.put("b", {FILE: "text"})
    assert contents.get("b") == {FILE: "text"}
