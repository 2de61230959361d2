"""The inbox of an array task: further trials that it is given while it runs.

Slurm takes a second or more to start an array task, and Python half a second. A task whose trials
are short therefore waits a moment for further ones before it ends.

An inbox is a folder of numbered messages. A message is written once, by whoever is first: the
driver, with trials; or the task, without any, which closes the inbox. So the task looks at every
trial that it was given, and a trial that came too late was not given to it.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from hpcscientist.files.handed.regular import read_regular
from hpcscientist.records.base import Record
from hpcscientist.records.runs import RunId

# How often a task looks for a message: at first, at last, and how fast that changes. Seconds.
_FIRST_S, _LAST_S, _SLOWER = 0.03, 0.5, 1.2


class Message(Record):
    """Trials for a task, and the batch that the journal knows them by. Without any: closed."""

    batch_id: str = ""
    runs: tuple[RunId, ...] = ()


_CLOSED = Message()


@dataclass(frozen=True, slots=True)
class Inbox:
    """The inbox in a folder, which need not exist yet. Messages are numbered from 1."""

    root: Path

    def write(self, number: int, message: Message) -> bool:
        """Write a message; return false if there is one already, or if it cannot be written."""
        path = self._path(number)
        temporary = self.root / f".{secrets.token_hex(8)}.tmp"
        try:
            self.root.mkdir(exist_ok=True)  # without parents: a batch that was removed stays away
            temporary.write_text(message.model_dump_json())
            try:
                os.link(temporary, path)  # unlike a rename it fails where there is one
            except FileExistsError:
                # A network file system that repeats a request finds what the first one made.
                return message.runs != () and self.read(number) == message
            finally:
                temporary.unlink()
        except OSError:
            return False
        return True

    def read(self, number: int) -> Message | None:
        """Return a message; None where there is none. One that cannot be read closes the inbox."""
        try:
            return Message.model_validate_json(read_regular(self._path(number)))
        except FileNotFoundError:
            return None
        except (OSError, ValidationError):
            return _CLOSED

    def close(self, number: int = 1) -> list[Message]:
        """Close the inbox behind its last message; return the messages from `number` on."""
        found: list[Message] = []
        while not self.write(number, _CLOSED):
            message = self.read(number)
            if message is None or not message.runs:  # closed, or nobody can write here
                break
            found.append(message)
            number += 1
        return found

    def take(self, number: int, until: float, linger_s: float) -> Message | None:
        """Return a message, as the task that it is for; None once the inbox is closed.

        Waits `linger_s` for it. The inbox is closed then, or at `until` (by `time.monotonic`).
        """
        give_up = min(until, time.monotonic() + linger_s)
        pause = _FIRST_S
        while time.monotonic() < give_up:
            if (message := self._look(number)) is not None:
                break
            time.sleep(pause)
            pause = min(pause * _SLOWER, _LAST_S)
        else:
            message = next(iter(self.close(number)), None)
        return message if message is not None and message.runs else None

    def given(self, until: float, linger_s: float) -> Iterator[RunId]:
        """Yield the trials that a task is given; see `take`."""
        number = 1
        while (message := self.take(number, until, linger_s)) is not None:
            yield from message.runs
            number += 1

    def _look(self, number: int) -> Message | None:
        # Listing a folder makes a network file system look at it again.
        try:
            os.listdir(self.root)  # noqa: PTH208
        except OSError:
            return None
        return self.read(number)

    def _path(self, number: int) -> Path:
        return self.root / f"{number}.json"
