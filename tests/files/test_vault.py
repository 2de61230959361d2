from __future__ import annotations

import errno
from pathlib import Path

import pytest

from hpcscientist.errors import RunDirectoryError
from hpcscientist.files import vault


@pytest.fixture(autouse=True)
def own_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(vault.ROOT_VARIABLE, str(tmp_path / "root"))
    return tmp_path / "root"


def test_a_folder_of_labels_is_found_by_its_key(own_root: Path) -> None:
    labels = own_root / "digits-abc" / "validation"
    assert vault.key_of(labels) == "digits-abc/validation"
    assert vault.path_of("digits-abc/validation") == labels


def test_key_is_secret_and_made_once(own_root: Path) -> None:
    assert vault.campaign_key("c") is None
    vault.make_campaign_key("c")
    key = vault.campaign_key("c")
    assert key is not None
    assert len(key) == 64
    assert (own_root / "keys" / "c").stat().st_mode & 0o077 == 0
    with pytest.raises(FileExistsError):
        vault.make_campaign_key("c")
    vault.forget_campaign_key("c")
    assert vault.campaign_key("c") is None


def test_two_campaigns_have_two_keys() -> None:
    vault.make_campaign_key("a")
    vault.make_campaign_key("b")
    assert vault.campaign_key("a") != vault.campaign_key("b")


def test_a_key_that_is_gone_is_no_leave_to_go_without(own_root: Path) -> None:
    vault.make_campaign_key("c")
    vault.require_campaign_key("c")
    vault.forget_campaign_key("c")
    with pytest.raises(RunDirectoryError, match=r"/keys/c: .*; restore .*\bpaths\.private\b"):
        vault.require_campaign_key("c")


def test_a_key_that_was_not_written_to_its_end_is_none(own_root: Path) -> None:
    vault.make_campaign_key("c")
    (own_root / "keys" / "c").write_text("")
    assert vault.campaign_key("c") is None, "an empty key would seal, for anybody"


def test_a_stale_handle_is_no_missing_key(own_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No file system here gives ESTALE, so the call that would is replaced."""
    vault.make_campaign_key("c")
    read, stale = Path.read_bytes, [True, True]

    def read_bytes(path: Path) -> bytes:
        if stale and stale.pop():
            raise OSError(errno.ESTALE, "Stale file handle", str(path))
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", read_bytes)
    assert vault.campaign_key("c") is not None
    vault.make_campaign_key("d")
    stale.extend([True] * 9)
    with pytest.raises(OSError, match="stale"):
        vault.campaign_key("d")
    stale.clear()
    assert vault.campaign_key("d") is not None, "what was not known is asked for again"


def test_a_key_that_may_not_be_read_is_no_missing_key(own_root: Path) -> None:
    own_root.mkdir()
    (own_root / "keys").write_text("a file where a folder should be")
    with pytest.raises(NotADirectoryError):
        vault.campaign_key("c")
