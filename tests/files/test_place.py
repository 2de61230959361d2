"""Paths as people write them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hpcscientist.errors import UsageError
from hpcscientist.files.handed import expanded, resolved


def test_a_home_folder_that_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/somewhere")
    assert expanded("~/x") == Path("/somewhere/x")
    assert expanded("x/~") == Path("x/~")


def test_a_home_folder_that_is_not_there() -> None:
    with pytest.raises(UsageError, match=r"^~nobody-of-this-name/x: .*\bHOME$"):
        expanded("~nobody-of-this-name/x")


def test_a_user_without_home_and_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container that is started as an arbitrary user."""
    monkeypatch.delenv("HOME")
    monkeypatch.setattr(os, "getuid", lambda: 2_000_000_000)
    with pytest.raises(UsageError, match="set HOME"):
        expanded("~/.config")


def test_a_link_that_leads_to_itself(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to("link")
    assert resolved(link / "x") == resolved(tmp_path) / "link" / "x"
    link.unlink()
    link.symlink_to("elsewhere")
    assert resolved(link) == resolved(tmp_path) / "elsewhere"
