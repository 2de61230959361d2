from __future__ import annotations

import asyncio
import errno
import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpcscientist.errors import DiskFull, EndpointError, ReplyError, RunDirectoryError
from hpcscientist.files.rundir import RunPaths
from hpcscientist.history.journal import Journal
from hpcscientist.models.answers import prompt_hash
from hpcscientist.models.playbook import read_run
from hpcscientist.models.recorded import RecordedModel
from hpcscientist.records.base import MOST
from hpcscientist.records.events import NoteTaken
from hpcscientist.records.model_calls import Message, ModelReply, ModelRequest


class Counting:
    """A model whose replies are numbered, so that a replay can be told from a new call."""

    name = "counting"

    def __init__(self, number: int = 0) -> None:
        self.number, self.closed = number, 0
        self.gate = asyncio.Event()
        self.gate.set()
        self.fails = False

    async def probe(self) -> None:
        pass

    async def complete(self, request: ModelRequest) -> ModelReply:
        await self.gate.wait()
        if self.fails:
            raise EndpointError("down")
        self.number += 1
        return ModelReply(
            text=f"é\n{request.subject} {request.key} #{self.number}",
            model=self.name,
            prompt_tokens=3,
            completion_tokens=4,
            tokens_estimated=True,
            latency_s=0.25,
            reasoning=f"so #{self.number}",
            finish="length",
        )

    async def close(self) -> None:
        self.closed += 1


def request(ordinal: int = 1, idea: int = 1, repair: int = 0) -> ModelRequest:
    return ModelRequest(
        subject=f"idea-{idea:04d}",
        stage="debug",
        ordinal=ordinal,
        repair=repair,
        messages=(Message(role="system", content="s"), Message(role="user", content="ü")),
    )


def recorded(inner: Counting, root: Path, heard: list[str] | None = None) -> RecordedModel:
    def on_reply(asked: ModelRequest, reply: ModelReply, time: int) -> None:
        if heard is not None:
            heard.append(f"{asked.key}: {reply.text}")

    return RecordedModel(inner, RunPaths(root), on_reply)


def chat(root: Path, idea: int = 1) -> Path:
    return RunPaths(root).idea(f"idea-{idea:04d}").chat


async def test_a_line_holds_the_whole_call(tmp_path: Path) -> None:
    await recorded(Counting(), tmp_path).complete(request(2, repair=1))
    line = json.loads(chat(tmp_path).read_text())
    assert line.pop("time") > 1e9
    assert line == {
        "key": "debug/2/repair1",
        "stage": "debug",
        "ordinal": 2,
        "draft": 0,
        "repair": 1,
        "prompt": [{"role": "system", "content": "s"}, {"role": "user", "content": "ü"}],
        "reply": "é\nidea-0001 debug/2/repair1 #1",
        "model": "counting",
        "prompt_tokens": 3,
        "completion_tokens": 4,
        "tokens_estimated": True,
        "latency_s": 0.25,
        "reasoning": "so #1",
        "finish": "length",
        "question": prompt_hash(request().messages),
    }


async def test_recorded_replies_are_replayed(tmp_path: Path) -> None:
    inner, heard = Counting(), list[str]()
    model = recorded(inner, tmp_path, heard)
    first = [await model.complete(request(n)) for n in (1, 2, 3)]
    assert [await model.complete(request(n)) for n in (1, 2, 3)] == first
    anew = recorded(inner, tmp_path, heard)
    assert [await anew.complete(request(n)) for n in (3, 2, 1)] == first[::-1]
    assert inner.number == 3
    assert len(heard) == 9


def edited(one: ModelRequest) -> ModelRequest:
    changed = Message(role="user", content="ü, as it was edited")
    return one.model_copy(update={"messages": (one.messages[0], changed)})


async def test_a_reply_answers_its_own_question_alone(tmp_path: Path) -> None:
    inner, times = Counting(), list[tuple[str, int]]()

    def opened() -> RecordedModel:
        return RecordedModel(
            inner, RunPaths(tmp_path), lambda _, reply, time: times.append((reply.text[-2:], time))
        )

    await opened().complete(request())
    anew = opened()
    await anew.complete(edited(request()))
    assert inner.number == 2, "the reply to another question was taken for an answer"
    await anew.complete(request())
    for one in (request(), edited(request())):
        await opened().complete(one)
    assert inner.number == 2
    assert times == [("#1", 1), ("#2", 2), ("#1", 1), ("#1", 1), ("#2", 2)]
    hashes = {ref.prompt_sha256 for ref in opened().prompts("idea-0001")}
    assert hashes == {prompt_hash(edited(request()).messages)}


async def test_how_much_of_a_prompt_fits_is_no_part_of_the_question(tmp_path: Path) -> None:
    """A driver learns anew how its server counts; what was shortened for it stays answered."""
    inner = Counting()

    def asked(sent: str) -> ModelRequest:
        message = Message(role="user", content=sent)
        return request().model_copy(update={"messages": (message,), "question": "of the whole"})

    await recorded(inner, tmp_path).complete(asked("shortened a little"))
    await recorded(inner, tmp_path).complete(asked("shortened a lot"))
    assert inner.number == 1
    model = recorded(inner, tmp_path)
    (ref,) = model.prompts("idea-0001")
    assert ref.prompt_sha256 == prompt_hash(asked("shortened a little").messages)


async def test_a_question_that_is_as_it_was_before_is_named_again(tmp_path: Path) -> None:
    model = recorded(Counting(), tmp_path)
    for one in (request(), edited(request()), request()):
        await model.complete(one)
    (ref,) = model.prompts("idea-0001")
    assert ref.prompt_sha256 == prompt_hash(request().messages)


async def test_a_reply_of_an_earlier_version_answers_its_call_whatever_is_asked(
    tmp_path: Path,
) -> None:
    inner = Counting()
    first = await recorded(inner, tmp_path).complete(request())
    line = json.loads(chat(tmp_path).read_text())
    del line["question"]
    chat(tmp_path).write_text(json.dumps(line) + "\n")
    assert await recorded(inner, tmp_path).complete(edited(request())) == first
    assert inner.number == 1


async def test_an_action_goes_on_with_the_task_it_began_with(tmp_path: Path) -> None:
    first = Message(role="user", content="as it was")

    def begun(model: RecordedModel) -> Message | None:
        return model.begun("idea-0001", "debug/1", Message)

    model = recorded(Counting(), tmp_path)
    assert begun(model) is None
    model.begin("idea-0001", "debug/1", first)
    assert begun(model) is None, "nothing was asked yet"
    await model.complete(request())
    await model.complete(request(2))
    assert begun(model) == first
    lines = [json.loads(line) for line in chat(tmp_path).read_text().splitlines()]
    assert ["task" in line for line in lines] == [True, False]
    anew = recorded(Counting(), tmp_path)
    assert begun(anew) == first
    assert anew.begun("idea-0001", "debug/2", Message) is None
    assert anew.begun("idea-0002", "debug/1", Message) is None

    lines[0]["task"] = '{"of": "another version"}'
    chat(tmp_path).write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(RunDirectoryError, match=rf"{chat(tmp_path)}: .*debug/1 .*\bversion\b"):
        begun(recorded(Counting(), tmp_path))


async def test_no_event_is_on_the_disk_before_the_replies_that_led_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal(tmp_path / "journal.jsonl", lambda event: None)
    model = recorded(Counting(), tmp_path)
    journal.wait_for(model.settle)
    go_on, synced = threading.Event(), list[str]()
    sync = os.fsync

    def slow(descriptor: int) -> None:
        name = Path(f"/proc/self/fd/{descriptor}").readlink().name
        if name == "chat.jsonl":
            go_on.wait()
        sync(descriptor)
        synced.append(name)

    monkeypatch.setattr(os, "fsync", slow)
    for ordinal in (1, 2, 3):  # replies are used while the disk is busy
        assert (await model.complete(request(ordinal))).text.endswith(f"#{ordinal}")
    assert synced == []
    threading.Timer(0.05, go_on.set).start()
    journal.record(NoteTaken(name="a", text="b"))
    assert synced[:4] == ["chat.jsonl"] * 3 + ["journal.jsonl"]
    await model.close()
    journal.close()


async def test_no_event_follows_a_reply_that_the_disk_did_not_take(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal(tmp_path / "journal.jsonl", lambda event: None)
    model = recorded(Counting(), tmp_path)
    journal.wait_for(model.settle)

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "full")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        await model.complete(request(1))
        with pytest.raises(DiskFull):
            model.settle()
    await model.complete(request(2))  # its own line is written
    with pytest.raises(DiskFull):
        journal.record(NoteTaken(name="a", text="b"))
    assert (tmp_path / "journal.jsonl").read_bytes() == b""
    with pytest.raises(DiskFull):
        await model.close()


async def test_the_reply_is_in_its_file_before_it_is_heard_of(tmp_path: Path) -> None:
    def on_reply(asked: ModelRequest, reply: ModelReply, time: int) -> None:
        assert json.loads(chat(tmp_path).read_text())["reply"] == reply.text

    await RecordedModel(Counting(), RunPaths(tmp_path), on_reply).complete(request())


async def test_concurrent_calls(tmp_path: Path) -> None:
    inner = Counting()
    model = recorded(inner, tmp_path)
    inner.gate.clear()
    asked = [request(ordinal, idea) for idea in (1, 2, 3) for ordinal in (1, 2, 3)]
    calls = asyncio.gather(*(model.complete(one) for one in asked * 2))
    await asyncio.sleep(0)
    inner.gate.set()
    replies = await calls
    assert inner.number == 9  # two calls of one key are paid for once
    assert replies[:9] == replies[9:]
    for idea in (1, 2, 3):
        assert len(chat(tmp_path, idea).read_text().splitlines()) == 3
    anew = recorded(inner, tmp_path)
    assert [await anew.complete(one) for one in asked] == replies[:9]


async def test_of_replies_that_come_together_each_has_its_consequences_first(
    tmp_path: Path,
) -> None:
    model = recorded(Counting(), tmp_path)
    happened: list[str] = []

    async def follow(idea: int, steps: int) -> None:
        for _ in range(steps):
            await asyncio.sleep(0)
        happened.append(f"trial of {idea}")

    async def pursue(idea: int) -> None:
        await model.complete(request(idea=idea))
        happened.append(f"reply to {idea}")
        following.append(asyncio.create_task(follow(idea, 10)))

    following: list[asyncio.Task[None]] = []
    await asyncio.gather(*(pursue(idea) for idea in (1, 2, 3)))
    await asyncio.gather(*following)
    told = [f"{what} {idea}" for idea in (1, 2, 3) for what in ("reply to", "trial of")]
    assert happened == told


async def test_a_reply_that_waits_for_its_turn_is_not_lost(tmp_path: Path) -> None:
    """What is on the disk is told, too: its tokens are counted."""
    heard = list[str]()
    model = recorded(Counting(), tmp_path, heard)
    calls = [asyncio.create_task(model.complete(request(idea=idea))) for idea in (1, 2)]
    await calls[0]
    assert not calls[1].done()
    calls[1].cancel()
    with pytest.raises(asyncio.CancelledError):
        await calls[1]
    assert [told[-2:] for told in heard] == ["#1", "#2"]
    again = await recorded(Counting(10), tmp_path).complete(request(idea=2))
    assert again.text.endswith("#2")


async def test_a_failed_or_cancelled_call_leaves_nothing_and_can_be_made_again(
    tmp_path: Path,
) -> None:
    inner = Counting()
    model = recorded(inner, tmp_path)
    inner.fails = True
    with pytest.raises(EndpointError):
        await model.complete(request())
    inner.fails = False
    inner.gate.clear()
    call = asyncio.create_task(model.complete(request()))
    await asyncio.sleep(0)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert not chat(tmp_path).exists()
    inner.gate.set()
    assert (await model.complete(request())).text.endswith("#1")


async def test_close_closes_the_inner_model(tmp_path: Path) -> None:
    inner = Counting()
    await recorded(inner, tmp_path).close()
    assert inner.closed == 1


async def _torn(root: Path, cut: Callable[[int], int]) -> int:
    """Record three calls, keep `cut(size)` bytes, ask again; return how many were repeated."""
    inner = Counting()
    model = recorded(inner, root)
    first = [await model.complete(request(n)) for n in (1, 2, 3)]
    whole = chat(root).read_bytes()
    kept = whole[: cut(len(whole))]
    chat(root).write_bytes(kept)
    lines = kept.count(b"\n")
    again = Counting(number=10)
    replies = [await recorded(again, root).complete(request(n)) for n in (1, 2, 3)]
    assert replies[:lines] == first[:lines]
    assert again.number - 10 == 3 - lines
    stored = [json.loads(line) for line in chat(root).read_bytes().split(b"\n")[:-1]]
    assert [line["reply"] for line in stored] == [reply.text for reply in replies]
    return again.number - 10


@settings(max_examples=60, deadline=None)
@given(st.floats(0, 1))
def test_torn_at_any_byte(share: float) -> None:
    with TemporaryDirectory() as folder:
        assert asyncio.run(_torn(Path(folder), lambda size: round(size * share))) >= 0


@pytest.mark.parametrize(("back", "repeated"), [(0, 0), (1, 1), (2, 1)])
async def test_torn_at_the_last_bytes(tmp_path: Path, back: int, repeated: int) -> None:
    assert await _torn(tmp_path, lambda size: size - back) == repeated


async def test_a_last_line_of_zeros_is_torn_too(tmp_path: Path) -> None:
    await recorded(Counting(), tmp_path).complete(request(1))
    whole = chat(tmp_path).read_bytes()
    chat(tmp_path).write_bytes(whole + b"\0" * 100 + b"\n")
    assert (await recorded(Counting(5), tmp_path).complete(request(2))).text.endswith("#6")
    assert chat(tmp_path).read_bytes().startswith(whole + b'{"key"')


async def test_a_broken_line_in_the_middle_is_not_passed_over(tmp_path: Path) -> None:
    model = recorded(Counting(), tmp_path)
    await model.complete(request(1))
    await model.complete(request(2))
    first, second, _ = chat(tmp_path).read_bytes().split(b"\n")
    chat(tmp_path).write_bytes(first + b"\n{}\n" + second + b"\n")
    with pytest.raises(RunDirectoryError, match=r"chat\.jsonl:2: "):
        await recorded(Counting(), tmp_path).complete(request(1))


async def test_a_file_changed_underneath(tmp_path: Path) -> None:
    model = recorded(Counting(), tmp_path)
    await model.complete(request(1))
    chat(tmp_path).write_text("{}\n")
    with pytest.raises(RunDirectoryError, match="was changed"):
        await model.complete(request(1))


@pytest.mark.parametrize("after", [0, 7])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
async def test_a_write_that_fails_leaves_the_record_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int, code: int
) -> None:
    inner = Counting()
    model = recorded(inner, tmp_path)
    await model.complete(request(1))
    whole = chat(tmp_path).read_bytes()
    write, parts = os.write, [after] if after else []

    def failing(descriptor: int, data: bytes) -> int:
        if not parts:
            raise OSError(code, os.strerror(code))
        return write(descriptor, data[: parts.pop()])

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", failing)
        expected = RunDirectoryError if code == errno.EIO else DiskFull
        with pytest.raises(expected, match=r"chat\.jsonl"):
            await model.complete(request(2))
    assert chat(tmp_path).read_bytes() == whole
    assert (await model.complete(request(2))).text.endswith("#3")
    assert len(chat(tmp_path).read_text().splitlines()) == 2


async def test_a_run_directory_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "ideas").write_text("a file where a folder should be")
    with pytest.raises(RunDirectoryError, match=r"chat\.jsonl"):
        await recorded(Counting(), tmp_path).complete(request())


async def test_a_record_that_cannot_be_read(tmp_path: Path) -> None:
    chat(tmp_path).mkdir(parents=True)
    with pytest.raises(RunDirectoryError, match=r"chat\.jsonl"):
        await recorded(Counting(), tmp_path).complete(request())


async def test_lines_of_earlier_versions_are_replayed(tmp_path: Path) -> None:
    first = await recorded(Counting(), tmp_path).complete(request())
    line = json.loads(chat(tmp_path).read_text())
    del line["reasoning"], line["finish"]
    chat(tmp_path).write_text(json.dumps(line) + "\n")
    again = await recorded(Counting(5), tmp_path).complete(request())
    assert again == first.model_copy(update={"reasoning": "", "finish": ""})


async def test_a_reply_that_cannot_be_recorded_costs_its_idea_alone(tmp_path: Path) -> None:
    class Odd(Counting):
        async def complete(self, request: ModelRequest) -> ModelReply:
            good = await super().complete(request)
            return ModelReply.model_validate(good.model_dump() | {"prompt_tokens": -1})

    model = RecordedModel(Odd(), RunPaths(tmp_path), lambda *_: None)
    with pytest.raises(ReplyError, match=r"^idea-0001: .*debug/1 .*recorded: .*\bprompt_tokens\b"):
        await model.complete(request())

    def overflows(request: ModelRequest, reply: ModelReply, asked: int) -> None:
        raise OverflowError("too large")

    model = RecordedModel(Counting(), RunPaths(tmp_path), overflows)
    with pytest.raises(ReplyError, match=r"debug/2 .*recorded: too large$"):
        await model.complete(request(2))


async def test_counts_that_an_earlier_version_took_are_bounded(tmp_path: Path) -> None:
    heard: list[ModelReply] = []
    model = RecordedModel(Counting(), RunPaths(tmp_path), lambda *_: None)
    await model.complete(request())
    chat = RunPaths(tmp_path).idea("idea-0001").chat
    line = json.loads(chat.read_text()) | {"prompt_tokens": 10**30, "completion_tokens": 10**19}
    chat.write_text(json.dumps(line) + "\n")
    again = RecordedModel(Counting(), RunPaths(tmp_path), lambda _, reply, __: heard.append(reply))
    await again.complete(request())
    assert [(reply.prompt_tokens, reply.completion_tokens) for reply in heard] == [(MOST, MOST)]
    assert [(e.prompt_tokens, e.completion_tokens) for e in read_run(tmp_path)] == [(MOST, MOST)]
