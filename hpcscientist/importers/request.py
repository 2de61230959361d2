"""What a user asks of an import, and what an importer is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from hpcscientist.importers.draft import Draft
from hpcscientist.importers.source import Source
from hpcscientist.records.trial import Direction


@dataclass(frozen=True, slots=True)
class Request:
    """A task, and what the user says of it; None where that is left to the importer.

    `metric` decides, in `direction`. `scorer` is a score.py of the user's own, which is given the
    file `predictions`; `data` is a folder that the task reads. `seconds` of a full trial.
    `recipe` names the one to build on, `level` how much of the instruction is given.
    `self_reported`: take the task's own numbers even where a shipped scorer is known.
    """

    source: Source
    metric: str | None = None
    direction: Direction | None = None
    scorer: Path | None = None
    predictions: str | None = None
    data: Path | None = None
    seconds: float | None = None
    recipe: str | None = None
    level: int = 1
    self_reported: bool = False
    run_source: bool = False


@dataclass(frozen=True, slots=True)
class Format:
    """A kind of task. `read` fills a draft of a recipe in; it executes nothing of the task.

    It raises RecipeError for what is no such task, and has the draft refuse what is one that cannot
    be a recipe. `options` are those of the request that it looks at beside the source.
    """

    name: str
    says: str
    read: Callable[[Request, Draft], None]
    options: frozenset[str] = frozenset()
