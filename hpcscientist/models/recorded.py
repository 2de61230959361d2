"""The record of calls: each subject's chat.jsonl, and the replay from it.

A reply is in its file before anybody uses it, so a resumed campaign asks nothing twice. Meanwhile
threads wait for the disk (`settle`), which takes 2 to 20 ms on shared file systems. The journal
waits for them, so no event is on the disk before the replies that led to it.

A recorded reply answers only the question it was asked. If a call's prompt has changed (another
version of the package, edited prompts), the call is asked again, and the earlier cost stays
counted. An action's input would differ from driver to driver. So the first line of an action's
calls stores its task, and a resumed action uses that. Only the driver writes; there are no locks
between processes.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol, TypeVar

from pydantic import ValidationError

from hpcscientist.errors import ReplyError, RunDirectoryError
from hpcscientist.files.rundir import IdeaPaths
from hpcscientist.files.text import one_line
from hpcscientist.models.answers import prompt_hash
from hpcscientist.models.chat import Chat, ChatLine
from hpcscientist.models.role_client import Roles
from hpcscientist.ports import Model
from hpcscientist.records.base import Record
from hpcscientist.records.idea import PromptRef
from hpcscientist.records.model_calls import ModelReply, ModelRequest, Role

T = TypeVar("T", bound=Record)

_SYNCING = 32  # replies that wait for the disk at once; a thread each
_TURNS = 16  # turns of the event loop: from a reply to its trial takes about ten


OnReply = Callable[[ModelRequest, ModelReply, int], None]
"""Called with each reply, and with how often its call was asked so far, this time included."""


class Folders(Protocol):
    """Where the calls of each id are recorded: a run directory's ideas, papers, or a review."""

    def idea(self, idea_id: str, /) -> IdeaPaths:
        """Return the folder with the id's chat.jsonl."""
        ...


class RecordedModel:
    """A model that records every reply, and replays the replies that it has.

    Concurrent calls are safe, also for one subject; two calls with one key are paid for once.
    Besides what the inner model raises, it raises DiskFull and RunDirectoryError, and ReplyError
    for a reply that cannot be recorded: that fails its idea, never the campaign.
    """

    def __init__(
        self,
        inner: Model,
        paths: Folders,
        on_reply: OnReply,
        campaign_id: str = "",
    ) -> None:
        """`campaign_id`: the campaign whose key signs all recorded lines; "" for unsigned lines."""
        self._inner, self._paths, self._on_reply = inner, paths, on_reply
        self._campaign_id = campaign_id
        self._chats: dict[str, Chat] = {}
        self._tasks: dict[tuple[str, str], str] = {}  # of actions without a first reply yet
        self._locks: dict[tuple[str, str], asyncio.Lock] = {}
        self._one = asyncio.Lock()
        self._threads = ThreadPoolExecutor(_SYNCING, thread_name_prefix="reply")
        self._syncing: list[Future[None]] = []

    @property
    def name(self) -> str:
        """The inner model's name."""
        return self._inner.name

    def idle(self, role: Role) -> int:
        """Return how many more requests the role's inner model would answer at once."""
        return self._inner.idle(role) if isinstance(self._inner, Roles) else 0

    async def probe(self) -> None:
        """Probe the inner model."""
        await self._inner.probe()

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Return the recorded reply, or ask the inner model and record its reply first."""
        call = (request.subject, request.key)
        try:
            async with self._locks.setdefault(call, asyncio.Lock()):
                chat = self._chat(request.subject)
                question = request.question or prompt_hash(request.messages)
                asked = chat.asked(request.key, question)
                known = chat.reply(request.key, asked) if asked else None
                if known is not None:
                    reply = known
                else:
                    reply = await self._inner.complete(request)
                    line = _line(request, reply, question, self._tasks.get(call))
                    asked = self._write(chat, line)
                self._tasks.pop(call, None)
                # Before the turn: a draft that nobody waits for any more was paid for, too.
                self._on_reply(request, reply, asked)
                if known is None:
                    await self._take_turn()
        except (ValueError, ArithmeticError) as error:  # pydantic's errors are ValueErrors
            raise ReplyError(
                f"{request.subject}: the reply to {request.key} cannot be recorded: "
                f"{one_line(str(error))}"
            ) from error
        return reply

    def begun(self, subject: str, key: str, kind: type[T]) -> T | None:
        """Return the task of an action that has begun, by its first call's key; None if it has not.

        Raises RunDirectoryError if a task of another version cannot be read.
        """
        task = self._chat(subject).task(key)
        if task is None:
            return None
        try:
            return kind.model_validate_json(task)
        except ValidationError as error:
            raise RunDirectoryError(
                f"{self._paths.idea(subject).chat}: what {key} was shown cannot be read by this "
                "version of hpcscientist; resume with the version that began the campaign"
            ) from error

    def begin(self, subject: str, key: str, task: Record) -> None:
        """Store the task of an action, to be written with its first call once that is answered."""
        self._tasks[subject, key] = task.model_dump_json()

    def prompts(self, subject: str, keys: tuple[str, ...] = ("",)) -> tuple[PromptRef, ...]:
        """Return the calls of a subject whose keys begin so, in the order of replies."""
        return self._chat(subject).prompts(keys)

    def settle(self) -> None:
        """Return when every reply so far is on the disk. Raises DiskFull and RunDirectoryError."""
        for writing in self._syncing:
            writing.result()

    async def close(self) -> None:
        """Close the inner model, and wait for the disk. Idempotent. Raises as `settle` does."""
        await self._inner.close()
        await asyncio.to_thread(self.settle)

    def _write(self, chat: Chat, line: ChatLine) -> int:
        asked, sync = chat.append(line)
        # One that failed stays: what depends on its reply must not be recorded later either.
        self._syncing = [one for one in self._syncing if not one.done() or one.exception()]
        self._syncing.append(self._threads.submit(sync))
        return asked

    async def _take_turn(self) -> None:
        """Wait until the work that follows from the reply before has begun.

        The driver's one thread checks each reply's results and writes them to disk. Without this
        wait, the first trial of several replies that come together would begin only after all are
        processed.
        """
        async with self._one:  # in the order of the replies
            for _ in range(_TURNS):
                await asyncio.sleep(0)

    def _chat(self, subject: str) -> Chat:
        if subject not in self._chats:
            self._chats[subject] = Chat(self._paths.idea(subject).chat, self._campaign_id)
        return self._chats[subject]


def _line(request: ModelRequest, reply: ModelReply, question: str, task: str | None) -> ChatLine:
    return ChatLine(
        key=request.key,
        stage=request.stage,
        ordinal=request.ordinal,
        draft=request.draft,
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
        question=question,
        task=task,
        odds=reply.odds or None,
    )
