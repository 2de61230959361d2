"""Reads a campaign's recorded replies as a playbook that answers the same calls again."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from hpcscientist.errors import ModelSpecError
from hpcscientist.files import log
from hpcscientist.files.handed import open_regular
from hpcscientist.files.rundir import RunPaths
from hpcscientist.models.chat import ChatLine
from hpcscientist.records.base import bounded
from hpcscientist.records.idea import CAMPAIGN_ID, SURVEY_ID
from hpcscientist.records.model_calls import PlaybookEntry

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
