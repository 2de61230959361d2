"""The record of one idea's calls."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from hpcscientist.errors import DiskFull
from hpcscientist.files import vault
from hpcscientist.models.chat import Chat, ChatLine
from hpcscientist.records.model_calls import Message


@pytest.fixture
def campaign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A campaign whose key seals what is recorded."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    vault.make_campaign_key("digits-1")
    return "digits-1"


def a_call(key: str) -> ChatLine:
    return ChatLine(
        key=key,
        stage="propose",
        ordinal=1,
        repair=0,
        prompt=(Message(role="user", content="?"),),
        reply=f"the reply to {key}",
        model="m",
        prompt_tokens=1,
        completion_tokens=1,
        tokens_estimated=False,
        latency_s=0.0,
        time=0.0,
        question=key,
    )


def test_lines_that_somebody_changed_are_asked_again_and_later_ones_are_known(
    tmp_path: Path, campaign: str
) -> None:
    path = tmp_path / "idea-0001" / "chat.jsonl"
    chat = Chat(path, campaign)
    for key in ("first", "second"):
        asked, sync = chat.append(a_call(key))
        assert asked == 1
        sync()
    path.write_bytes(path.read_bytes().replace(b"the reply to first", b"a reply!! to first"))
    assert chat.reply("first", 1) is None
    found = chat.reply("second", chat.asked("second", "second"))
    assert found is not None
    assert found.text == "the reply to second"
    assert chat.asked("first", "first") == 0
    assert [ref.key for ref in chat.prompts(("",))] == ["second"]


def test_syncing_closes_the_file_also_where_the_disk_fails(
    tmp_path: Path, campaign: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(descriptor: int) -> None:
        synced.append(descriptor)
        raise OSError(errno.ENOSPC, "full")

    synced: list[int] = []
    _, sync = Chat(tmp_path / "chat.jsonl", campaign).append(a_call("first"))
    monkeypatch.setattr(os, "fsync", failing)
    with pytest.raises(DiskFull):
        sync()
    with pytest.raises(OSError, match=f"Errno {errno.EBADF}"):
        os.fstat(synced[0])
