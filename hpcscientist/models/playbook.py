"""The playbook adapter: replays recorded replies, for every stage.

The replies come from a file (one JSON object a line; recipes/README.md describes the format), or
from the run directory of a campaign that asked a model.
"""

from __future__ import annotations

import asyncio
import re
import shutil
from collections.abc import Collection, Iterator
from itertools import chain
from pathlib import Path

from pydantic import ValidationError

from hpcscientist.errors import ModelSpecError, PlaybookExhausted, ReplyError
from hpcscientist.files import log
from hpcscientist.files.handed import open_regular, read_regular
from hpcscientist.files.rundir import RunPaths
from hpcscientist.files.text import one_line
from hpcscientist.models.answers import estimate_tokens
from hpcscientist.models.chat import ChatLine
from hpcscientist.records.base import bounded
from hpcscientist.records.idea import CAMPAIGN_ID, SURVEY_ID
from hpcscientist.records.model_calls import (
    LARGEST,
    Call,
    ModelReply,
    ModelRequest,
    PlaybookEntry,
    unknown_stage,
)

# Reads a campaign's recorded replies as a playbook that answers the same calls again.


_IDEA = re.compile(r"idea-([0-9]{4,})")


def read_run(folder: Path, *, papers: bool = False) -> list[PlaybookEntry]:
    """Return the recorded replies of a run directory, one per call; the survey's are idea 0.

    With `papers`, replies for papers are included. The campaign's own paper is idea 0 as well: its
    calls are of other kinds than the survey's. A torn last line is left out, as on resume. Raises
    ModelSpecError for a damaged line, and if there is no reply at all.
    """
    entries = list[PlaybookEntry]()
    found = recorded_calls(folder)
    for number, calls in chain(found, paper_calls(folder)) if papers else found:
        acted_on: dict[str, ChatLine] = {}
        for call in calls:
            # Of two replies to the same prompt keep the first, of two prompts of one call the last.
            if call.key not in acted_on or acted_on[call.key].prompt != call.prompt:
                acted_on[call.key] = call
        entries += [_entry(number, call) for call in acted_on.values()]
    if not entries:
        raise ModelSpecError(
            f"{folder}: holds no recorded reply (ideas/*/chat.jsonl); give playbook:DIR the run "
            "directory of a campaign that asked a model, or playbook:FILE"
        )
    return entries


def recorded_calls(folder: Path) -> Iterator[tuple[int, Iterator[ChatLine]]]:
    """Yield each idea's number with its recorded calls, in order; the survey's number is 0.

    Raises ModelSpecError for a damaged line and for a file that cannot be read.
    """
    paths = RunPaths(folder)
    yield 0, _calls(paths.idea(SURVEY_ID).chat)
    for number, idea_id in _numbered(folder / "ideas"):
        yield number, _calls(paths.idea(idea_id).chat)


def paper_calls(folder: Path) -> Iterator[tuple[int, Iterator[ChatLine]]]:
    """Yield the calls of each paper in a run directory, by idea number; 0 is the campaign's paper.

    Raises as `recorded_calls` does.
    """
    papers = RunPaths(folder).papers
    yield 0, _calls(papers.idea(CAMPAIGN_ID).chat)
    for number, idea_id in _numbered(papers.root):
        yield number, _calls(papers.idea(idea_id).chat)


def _numbered(folder: Path) -> Iterator[tuple[int, str]]:
    """Yield the number and id of each idea that has a folder in `folder`, in order."""
    try:
        names = [path.name for path in folder.iterdir()]
    except FileNotFoundError:
        names = []
    except OSError as error:
        raise _unreadable(folder, error) from error
    found = [(int(match[1]), name) for name in names if (match := _IDEA.fullmatch(name))]
    yield from sorted(found)


def _calls(path: Path) -> Iterator[ChatLine]:
    try:
        with open_regular(path) as file:
            for call, _ in log.read(file, ChatLine.model_validate_json):
                yield call
    except FileNotFoundError:
        return
    except OSError as error:
        raise _unreadable(path, error) from error
    except log.DamagedLine as error:
        raise ModelSpecError(
            f"{path}:{error.number}: no record of a call; delete the line, or give another playbook"
        ) from error


def _entry(number: int, call: ChatLine) -> PlaybookEntry:
    return PlaybookEntry(
        idea=number,
        stage=call.stage,
        ordinal=call.ordinal,
        draft=call.draft,
        repair=call.repair,
        text=call.reply,
        prompt_tokens=bounded(call.prompt_tokens),
        completion_tokens=bounded(call.completion_tokens),
        tokens_estimated=call.tokens_estimated,
        reasoning=call.reasoning,
        finish=call.finish,
        odds=call.odds or (),
    )


def _unreadable(path: Path, error: OSError) -> ModelSpecError:
    return ModelSpecError(
        f"{path}: the recorded replies cannot be read ({error.strerror}); give playbook:FILE, or "
        "a run directory that can be read"
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
                # Without its folder, the private root: candidates can read where this is recorded.
                f"{self._path.name} holds no reply for {request.subject}, stage {request.key}; "
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
    pass

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
