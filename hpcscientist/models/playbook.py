"""The playbook adapter: replays recorded replies, for every stage.

The replies come from a file (one JSON object a line; recipes/README.md describes the format), or
from the run directory of a campaign that asked a model.
"""

from __future__ import annotations

import asyncio
import re
import shutil
from collections.abc import Collection
from pathlib import Path

from pydantic import ValidationError

from hpcscientist.errors import ModelSpecError, PlaybookExhausted, ReplyError
from hpcscientist.files.handed import read_regular
from hpcscientist.files.text import one_line
from hpcscientist.models.answers import estimate_tokens
from hpcscientist.records.model_calls import (
    LARGEST,
    Call,
    ModelReply,
    ModelRequest,
    PlaybookEntry,
    unknown_stage,
)

_MANY = 10_000
_NUMBER = re.compile(r"[0-9]+\Z")


class PlaybookModel:
    """Answers from a playbook. An answer depends only on the call's key."""

    def __init__(self, path: Path, stages: Collection[str] | None = None) -> None:
        """Read and check a file or a run directory. Raises ModelSpecError with file and line.

        `stages` are the stages that it may hold replies for; None allows any, including those of
        papers.
        """
        self._path = path
        self._entries = _entries(path, stages)

    @property
    def name(self) -> str:
        """`playbook:` and the name of the file or folder."""
        return f"playbook:{self._path.name}"

    def ideas(self, stage: str = "") -> tuple[int, ...]:
        """Return the numbers of the ideas that have replies, sorted and without 0.

        With `stage`, only ideas that have a reply of that stage.
        """
        entries = self._entries
        return tuple(sorted({n for n, of, *_ in entries if stage in ("", of)} - {0}))

    def stages(self) -> frozenset[str]:
        """Return the stages that have any reply."""
        return frozenset(stage for _, stage, *_ in self._entries)

    @property
    def idle(self) -> int:
        """How many more requests it would answer at once: many if it holds drafts, else 0."""
        return _MANY if any(draft for _, _, _, draft, _ in self._entries) else 0

    async def probe(self) -> None:
        """Do nothing: the file was read and checked already."""

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Return the recorded reply to a request.

        Raises PlaybookExhausted for an idea after the last recorded one, ReplyError for a missing
        reply.
        """
        await asyncio.sleep(0)  # as with any model, other tasks may run, and cancel this one
        found = _NUMBER.search(request.subject)
        number = int(found.group()) if found else 0
        call = (number, request.stage, request.ordinal, request.draft, request.repair)
        entry = self._entries.get(call)
        if entry is None:
            over = number > max(idea for idea, *_ in self._entries)
            raise (PlaybookExhausted if over else ReplyError)(
                f"{self._path} holds no reply for {request.subject}, stage {request.key}; "
                "ask for fewer ideas, add the reply, or give another --model"
            )
        asked, answer = "".join(m.content for m in request.messages), entry.answer
        prompt, completion = entry.prompt_tokens, entry.completion_tokens
        return ModelReply(
            text=answer,
            reasoning=entry.reasoning,
            finish=entry.finish,
            model=self.name,
            prompt_tokens=estimate_tokens(asked) if prompt is None else prompt,
            completion_tokens=estimate_tokens(answer) if completion is None else completion,
            tokens_estimated=entry.tokens_estimated or prompt is None or completion is None,
            latency_s=0.0,
            odds=entry.odds,
        )

    async def close(self) -> None:
        """Do nothing: no file is open."""


def copy(source: Path, target: Path) -> None:
    """Write a playbook's replies to a file; `source` is a file or a run directory.

    Raises ModelSpecError and OSError.
    """
    if not source.is_dir():
        shutil.copyfile(source, target)
        return
    with target.open("w", encoding="utf-8") as file:
        for entry in _recorded(source, papers=False).values():
            file.write(entry.model_dump_json(exclude_defaults=True) + "\n")


def _entries(path: Path, stages: Collection[str] | None = None) -> dict[Call, PlaybookEntry]:
    return _recorded(path, papers=stages is None) if path.is_dir() else _read(path, stages)


def _recorded(folder: Path, *, papers: bool) -> dict[Call, PlaybookEntry]:
    # Imported here because the record of calls imports more than a playbook needs.
    from hpcscientist.models.replay import read_run  # noqa: PLC0415

    return {entry.call: entry for entry in read_run(folder, papers=papers)}


def _read(path: Path, stages: Collection[str] | None) -> dict[Call, PlaybookEntry]:
    if path.exists() and not path.is_file():
        raise ModelSpecError(
            f"{path}: cannot be read, for it is no regular file; give playbook:FILE"
        )
    try:
        lines = read_regular(path, LARGEST).split(b"\n")
    except OSError as error:
        raise ModelSpecError(
            f"{path}: the playbook cannot be read ({error.strerror}); give playbook:FILE"
        ) from error
    entries: dict[Call, PlaybookEntry] = {}
    places: dict[Call, int] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            entry = PlaybookEntry.model_validate_json(line)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = ".".join(str(part) for part in first["loc"])
            problem = f"{where}: {first['msg']}" if where else first["msg"]
            raise ModelSpecError(f"{path}:{number}: {one_line(problem)}") from error
        if stages is not None and entry.stage not in stages:
            raise ModelSpecError(f"{path}:{number}: {unknown_stage(entry.stage, stages)}")
        if entry.call in entries:
            raise ModelSpecError(
                f"{path}:{number}: the reply for idea {entry.idea}, stage {entry.stage}, ordinal "
                f"{entry.ordinal}, repair {entry.repair} is in line {places[entry.call]} already"
            )
        entries[entry.call], places[entry.call] = entry, number
    if not entries:
        raise ModelSpecError(f"{path}: the playbook is empty; write one JSON object a line")
    return entries
