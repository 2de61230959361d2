"""An idea's chat.jsonl: one line for each call, in the order in which the replies came."""

from __future__ import annotations

import hmac
import os
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple, NoReturn

from pydantic import ValidationError

from hpcscientist.errors import DiskFull, RunDirectoryError
from hpcscientist.files import log, vault
from hpcscientist.files.atomic import NO_SPACE, write_atomic
from hpcscientist.files.handed import LARGEST_TEXT, open_regular
from hpcscientist.models.answers import prompt_hash
from hpcscientist.records.base import NumberOdds, Record, bounded
from hpcscientist.records.idea import PromptRef
from hpcscientist.records.model_calls import Message, ModelReply

_SEAL = b',"seal":"'


class ChatLine(Record):
    """One line of chat.jsonl. `time` is when the reply came, seconds since the epoch.

    `question` is the hash of the prompt before it was shortened for the model's context: each
    driver learns anew how much of it fits. `task` is the input of an action, as JSON of its record,
    on the action's first call.
    """

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
    draft: int = 0  # lines of earlier versions lack this and the fields below
    reasoning: str = ""
    finish: str = ""
    question: str | None = None
    task: str | None = None
    odds: tuple[NumberOdds, ...] | None = None
    seal: str | None = None  # signature of the line without this field


class Chat:
    """One chat.jsonl. Keeps the position of each reply, but neither texts nor file handles.

    With a `campaign_id`, every line is signed with that campaign's key. A line without a valid
    signature was written by candidate code; it is removed, and its call is asked again.
    """

    def __init__(self, path: Path, campaign_id: str = "") -> None:
        self._path = path
        self._campaign_id = campaign_id if vault.has_key(campaign_id) else ""
        self._begin()

    def _begin(self) -> None:
        self._places: dict[str, list[_Place]] = {}  # by key, in the order of the requests
        self._acted: dict[str, int] = {}  # by key, the request whose reply was used last
        self._tasks: set[str] = set()
        try:
            if self._campaign_id:
                self._take_out()
            self._load()
        except FileNotFoundError:
            pass
        except OSError as error:
            _raise(self._path, error)

    def asked(self, key: str, question: str) -> int:
        """Return which request of a call asked this question, counted from 1; 0 if none did.

        Lines of earlier versions have no question and match any.
        """
        places = enumerate(self._places.get(key, []), 1)
        return next((time for time, place in places if place.question in (question, None)), 0)

    def reply(self, key: str, asked: int) -> ModelReply | None:
        """Return the recorded reply to request number `asked` of a call; None if it is gone."""
        call = self._read(self._places[key][asked - 1])
        if call is None:
            return None
        self._acted[key] = asked
        return ModelReply(
            text=call.reply,
            reasoning=call.reasoning,
            finish=call.finish,
            model=call.model,
            prompt_tokens=bounded(call.prompt_tokens),  # earlier versions accepted any count
            completion_tokens=bounded(call.completion_tokens),
            tokens_estimated=call.tokens_estimated,
            latency_s=call.latency_s,
            odds=call.odds or (),
        )

    def task(self, key: str) -> str | None:
        """Return the input of the action that began with a call; the last, if several did."""
        if key not in self._tasks:
            return None
        calls = [self._read(place) for place in reversed(self._places[key])]
        return next((call.task for call in calls if call and call.task is not None), None)

    def _read(self, place: _Place) -> ChatLine | None:
        """Return a call. If its line is gone, read the whole file anew and return None.

        Raises RunDirectoryError instead if lines are unsigned: then the driver's own lines cannot
        be recognized.
        """
        try:
            with open_regular(self._path) as file:
                file.seek(place.start)
                text = file.read(place.length)
            if not self._campaign_id or self._is_ours(text):
                return ChatLine.model_validate_json(text)
        except OSError as error:
            if not self._campaign_id:
                _raise(self._path, error)
        except ValidationError as error:
            if not self._campaign_id:
                raise RunDirectoryError(
                    f"{self._path} was changed while the campaign ran; `hpcsci resume` reads it "
                    "anew"
                ) from error
        self._begin()
        return None

    def _is_ours(self, text: bytes) -> bool:
        body, _, seal = text.rstrip(b"\n").rpartition(_SEAL)
        return hmac.compare_digest(seal, self._seal(body + b"}") + b'"}')

    def _seal(self, body: bytes) -> bytes:
        whose = f"{self._path.parent.name}\n".encode()  # a line is not valid for another idea
        return vault.seal(self._campaign_id, whose + body).encode()

    def _take_out(self) -> None:
        """Keep the driver's lines in their order, and remove everything else at this path."""
        kept, changed = list[bytes](), False
        try:
            with open_regular(self._path, follow=False) as file:
                for text in iter(lambda: file.readline(LARGEST_TEXT), b""):
                    if self._is_ours(text):
                        kept.append(text)
                    else:
                        changed = changed or text.endswith(b"\n")  # else the line was torn
        except FileNotFoundError:
            return
        except OSError:
            changed = True
        if changed:
            if self._path.is_dir() and not self._path.is_symlink():
                shutil.rmtree(self._path)
            write_atomic(self._path, b"".join(kept))

    def prompts(self, keys: tuple[str, ...]) -> tuple[PromptRef, ...]:
        """Return references to the calls whose reply was used, for keys that begin so."""
        refs = []
        for key, places in self._places.items():
            if key.startswith(keys):
                call = self._read(places[self._acted.get(key, len(places)) - 1])
                if call is None:
                    return ()
                ref = PromptRef(
                    chat=self._path.parent.name,
                    key=key,
                    prompt_sha256=prompt_hash(call.prompt),
                    model=call.model,
                )
                refs.append(ref)
        return tuple(refs)

    def append(self, call: ChatLine) -> tuple[int, Callable[[], None]]:
        """Write one line, wholly or not at all.

        Returns how many times the call was asked so far, this time included, and a function that
        waits until the line is on the disk and then closes the file. It must be called, in any
        thread. It raises DiskFull and RunDirectoryError, as this method does.
        """
        line = call.model_dump_json(exclude_none=True).encode()
        if self._campaign_id:
            line = b'%b%b%b"}' % (line[:-1], _SEAL, self._seal(line))
        line += b"\n"
        try:
            descriptor, start = _append(self._path, line)
        except OSError as error:
            _raise(self._path, error)
        self._note(call, start, len(line))
        asked = self._acted[call.key] = len(self._places[call.key])
        return asked, partial(_sync, self._path, descriptor)

    def _note(self, call: ChatLine, start: int, length: int) -> None:
        places = self._places.setdefault(call.key, [])
        places.append(_Place(call.question, start, length))
        if call.task is not None:
            self._tasks.add(call.key)

    def _load(self) -> None:
        start = 0
        try:
            with open_regular(self._path) as file:
                for call, end in log.read(file, ChatLine.model_validate_json):
                    self._note(call, start, end - start)
                    start = end
                torn = file.seek(0, os.SEEK_END) > start
        except log.DamagedLine as error:
            raise RunDirectoryError(
                f"{self._path}:{error.number}: no record of a call; delete the line "
                "and `hpcsci resume` asks the model again"
            ) from error
        if torn:  # a driver ended while it wrote the last line
            os.truncate(self._path, start)


class _Place(NamedTuple):
    """The position of a line in chat.jsonl, and the question that it answers; None matches any."""

    question: str | None
    start: int
    length: int


def _append(path: Path, line: bytes) -> tuple[int, int]:
    """Append a line; return the open file and where the line starts.

    After an OSError the file is as before. The directory entry is not synced here. A power cut may
    therefore lose the file until a later result is written durably beside it; before that, nothing
    depends on its replies.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        return descriptor, log.append(descriptor, line, durable=False)
    except BaseException:
        os.close(descriptor)
        raise


def _sync(path: Path, descriptor: int) -> None:
    try:
        os.fsync(descriptor)
    except OSError as error:
        _raise(path, error)
    finally:
        os.close(descriptor)


def _raise(path: Path, error: OSError) -> NoReturn:
    if error.errno in NO_SPACE:
        raise DiskFull(
            f"{path}: no space left for a model's reply; free some, then `hpcsci resume`"
        ) from error
    raise RunDirectoryError(
        f"{path}: {error.strerror or error}; see that the run directory can be read and written"
    ) from error
