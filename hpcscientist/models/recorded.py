"""The record of calls: each idea's chat.jsonl, and the replay from it.

A reply is on the disk before anybody acts on it, so a campaign that is taken up again asks
for nothing twice. Only the driver writes; there are no locks between processes.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from pydantic import ValidationError

from hpcscientist.errors import DiskFull, ReplyError, RunDirectoryError
from hpcscientist.files.atomic import sync_folder
from hpcscientist.files.rundir import RunPaths
from hpcscientist.files.space import NO_SPACE
from hpcscientist.files.text import one_line
from hpcscientist.ports.model import Model
from hpcscientist.records.base import Record
from hpcscientist.records.bounds import bounded
from hpcscientist.records.idea import PromptRef
from hpcscientist.records.model import Message, ModelReply, ModelRequest


class Call(Record):
    """One line of chat.jsonl. `time` is when the reply came, seconds since the epoch."""

    key: str
    stage: str
    ordinal: int
    repair: int
    prompt: tuple[Message, ...]
    reply: str
    model: str
    prompt_tokens: int
    completion_tokens: int
    tokens_estimated: bool
    latency_s: float
    time: float
    reasoning: str = ""  # lines of earlier versions lack these two
    finish: str = ""


class RecordedModel:
    """A model whose every reply is recorded, and replayed where it is known.

    Concurrent calls are safe, also for one idea; two for one key are paid for once.
    Besides what the inner model raises, it raises DiskFull and RunDirectoryError, and ReplyError
    for a reply that cannot be recorded: that costs its idea, never the campaign.
    """

    def __init__(
        self,
        inner: Model,
        paths: RunPaths,
        on_reply: Callable[[ModelRequest, ModelReply], None],
    ) -> None:
        self._inner, self._paths, self._on_reply = inner, paths, on_reply
        self._chats: dict[str, _Chat] = {}
        self._locks: dict[tuple[str, str], asyncio.Lock] = {}

    @property
    def name(self) -> str:
        """The inner model's name."""
        return self._inner.name

    async def probe(self) -> None:
        """Ask the inner model whether it can be asked."""
        await self._inner.probe()

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Return the recorded reply, or ask the inner model and record its reply first."""
        call = (request.idea_id, request.key)
        try:
            async with self._locks.setdefault(call, asyncio.Lock()):
                chat = self._chat(request.idea_id)
                reply = chat.reply(request.key)
                if reply is None:
                    reply = await self._inner.complete(request)
                    chat.append(_line(request, reply))
            self._on_reply(request, reply)
        except (ValueError, ArithmeticError) as error:  # pydantic's errors are ValueErrors
            raise ReplyError(
                f"{request.idea_id}: the reply to {request.key} cannot be recorded: "
                f"{one_line(str(error))}"
            ) from error
        return reply

    def prompts(self, idea_id: str, keys: tuple[str, ...] = ("",)) -> tuple[PromptRef, ...]:
        """Return the calls recorded under an id whose keys begin so, in the order of replies."""
        return self._chat(idea_id).prompts(keys)

    async def close(self) -> None:
        """Close the inner model. Idempotent."""
        await self._inner.close()

    def _chat(self, idea_id: str) -> _Chat:
        if idea_id not in self._chats:
            self._chats[idea_id] = _Chat(self._paths.idea(idea_id).chat)
        return self._chats[idea_id]


class _Chat:
    """One chat.jsonl. Knows where each reply is; keeps neither texts nor handles."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._places: dict[str, tuple[int, int]] = {}
        try:
            self._load()
        except FileNotFoundError:
            pass
        except OSError as error:
            _raise(path, error)

    def reply(self, key: str) -> ModelReply | None:
        """Return the recorded reply to a call, if there is one."""
        if key not in self._places:
            return None
        call = self._read(key)
        return ModelReply(
            text=call.reply,
            reasoning=call.reasoning,
            finish=call.finish,
            model=call.model,
            prompt_tokens=bounded(call.prompt_tokens),  # as earlier versions took any
            completion_tokens=bounded(call.completion_tokens),
            tokens_estimated=call.tokens_estimated,
            latency_s=call.latency_s,
        )

    def _read(self, key: str) -> Call:
        start, length = self._places[key]
        try:
            with self._path.open("rb") as file:
                file.seek(start)
                return Call.model_validate_json(file.read(length))
        except OSError as error:
            _raise(self._path, error)
        except ValidationError as error:
            raise RunDirectoryError(
                f"{self._path} was changed while the campaign ran; `hpcsci resume` reads it anew"
            ) from error

    def prompts(self, keys: tuple[str, ...]) -> tuple[PromptRef, ...]:
        """Return what led to each recorded reply whose key begins with one of `keys`."""
        refs = []
        for key in self._places:
            if not key.startswith(keys):
                continue
            call = self._read(key)
            text = json.dumps([message.model_dump() for message in call.prompt])
            refs.append(
                PromptRef(
                    chat=self._path.parent.name,
                    key=key,
                    prompt_sha256=hashlib.sha256(text.encode()).hexdigest(),
                    model=call.model,
                )
            )
        return tuple(refs)

    def append(self, call: Call) -> None:
        """Write one line through to the disk, wholly or not at all."""
        line = call.model_dump_json().encode() + b"\n"
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            start = _append(self._path, line)
        except OSError as error:
            _raise(self._path, error)
        self._places[call.key] = (start, len(line))

    def _load(self) -> None:
        content, start = self._path.read_bytes(), 0
        while start < len(content):
            end = content.find(b"\n", start) + 1
            try:
                key = Call.model_validate_json(content[start:end]).key if end else None
            except ValidationError as error:
                if end < len(content):
                    number = content.count(b"\n", 0, start) + 1
                    raise RunDirectoryError(
                        f"{self._path}:{number}: no record of a call; delete the line "
                        "and `hpcsci resume` asks the model again"
                    ) from error
                key = None
            if key is None:  # the last line was torn when the driver ended
                os.truncate(self._path, start)
                return
            self._places.setdefault(key, (start, end - start))
            start = end


def _line(request: ModelRequest, reply: ModelReply) -> Call:
    return Call(
        key=request.key,
        stage=request.stage,
        ordinal=request.ordinal,
        repair=request.repair,
        prompt=request.messages,
        reply=reply.text,
        model=reply.model,
        prompt_tokens=reply.prompt_tokens,
        completion_tokens=reply.completion_tokens,
        tokens_estimated=reply.tokens_estimated,
        latency_s=reply.latency_s,
        time=time.time(),
        reasoning=reply.reasoning,
        finish=reply.finish,
    )


def _append(path: Path, line: bytes) -> int:
    """Append and fsync; return where the line starts. After an OSError the file is as before."""
    new = not path.exists()
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        start = os.fstat(descriptor).st_size
        try:
            rest = memoryview(line)
            while rest:
                rest = rest[os.write(descriptor, rest) :]
            os.fsync(descriptor)
        except OSError:
            os.ftruncate(descriptor, start)
            raise
    finally:
        os.close(descriptor)
    if new:
        sync_folder(path.parent)
    return start


def _raise(path: Path, error: OSError) -> NoReturn:
    if error.errno in NO_SPACE:
        raise DiskFull(
            f"{path}: no space left for a model's reply; free some, then `hpcsci resume`"
        ) from error
    raise RunDirectoryError(
        f"{path}: {error.strerror or error}; see that the run directory can be read and written"
    ) from error
