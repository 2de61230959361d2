"""The user's request for an import, and the definition of an importer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from hpcscientist.importers.draft import RecipeDraft
from hpcscientist.importers.source import TaskFiles
from hpcscientist.records.trial import Direction


@dataclass(frozen=True, slots=True)
class ImportRequest:
    """A task and the user's options; None leaves the choice to the importer.

    `metric` is the primary metric, with its `direction`. `scorer` is the user's score.py, which
    reads the file `predictions`; `data` is a folder that the task reads. `seconds` is the limit of
    a full trial. `recipe` names the recipe to build on, `level` the amount of instruction.
    `self_reported`: use the task's own numbers even if a shipped scorer exists.
    """

    source: TaskFiles
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
    """A kind of task. `read` fills in a draft of a recipe; it executes no code of the task.

    `read` raises RecipeError if the source is not such a task, and calls `draft.refuse` if the task
    cannot become a recipe. `options` are the fields of the request that it uses besides the source.
    """

    name: str
    says: str
    read: Callable[[ImportRequest, RecipeDraft], None]
    options: frozenset[str] = frozenset()
