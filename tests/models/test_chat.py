"""The record of one idea's calls, while a thread writes to it."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from hpcscientist.files import vault
from hpcscientist.models import chat as recording
from hpcscientist.models.chat import Call, Chat
from hpcscientist.records.model_calls import Message


@pytest.fixture
def campaign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A campaign whose key seals what is recorded."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    vault.make_campaign_key("digits-1")
    return "digits-1"


def a_call(key: str) -> Call:
    return Call(
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


async def test_a_line_that_is_written_while_all_is_read_anew_is_known_once(
    tmp_path: Path, campaign: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "idea-0001" / "chat.jsonl"
    chat = Chat(path, campaign)
    await chat.append(a_call("first"))
    path.write_bytes(path.read_bytes().replace(b"the reply", b"a reply!!"))
    append, is_written, go_on = recording._append, threading.Event(), threading.Event()

    def waiting(path: Path, line: bytes) -> int:
        start = append(path, line)
        is_written.set()
        go_on.wait()
        return start

    monkeypatch.setattr(recording, "_append", waiting)
    writing = asyncio.create_task(chat.append(a_call("second")))
    await asyncio.to_thread(is_written.wait)
    go_on.set()
    assert chat.reply("first", 1) is None
    assert await writing == 1
    found = chat.reply("second", chat.asked("second", "second"))
    assert found is not None
    assert found.text == "the reply to second"
    assert chat.asked("first", "first") == 0
    assert [ref.key for ref in chat.prompts(("",))] == ["second"]
