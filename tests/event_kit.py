"""Journal events with defaults, for tests that need only some of their fields."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.campaigns.tampering import reseal

from hpcscientist.records.events import DriverStarted, IdeaProposed, TrialQueued
from hpcscientist.records.idea import Arm
from hpcscientist.records.trial import Stage


def driver_started(generation: int = 1, host: str = "h", pid: int = 1) -> DriverStarted:
    """Return the start of a driver."""
    return DriverStarted(
        generation=generation,
        host=host,
        pid=pid,
        package_version="0",
        package_hash="",
        python="3",
    )


def idea_proposed(number: int = 1, title: str = "t", arm: Arm = "model") -> IdeaProposed:
    """Return the proposal of an idea in the first round."""
    return IdeaProposed(
        idea_id=f"idea-{number:04d}",
        number=number,
        round=1,
        title=title,
        parent_ids=(),
        arm=arm,
        summary=f"summary of {title}",
        knobs=None if arm == "model" else {"x": number},
        shown=(),
        idea_hash=f"{number:064x}",
    )


def trial_queued(
    trial_id: str, idea_id: str, stage: Stage, seed: int = 1, run: int = 1
) -> TrialQueued:
    """Return a queued trial of an idea's first version."""
    return TrialQueued(
        trial_id=trial_id,
        idea_id=idea_id,
        attempt=1,
        stage=stage,
        seed=seed,
        run=run,
        generation=1,
    )


def rewrite(path: Path, keep: Callable[[dict[str, Any]], bool]) -> list[dict[str, Any]]:
    """Rewrite a journal as if only some of its lines had been written; return these lines.

    `keep` is called with each line as JSON, and may change it.
    """
    lines = [json.loads(text) for text in path.read_bytes().splitlines()]
    kept = [line for line in lines if keep(line)]
    for number, line in enumerate(kept, 1):
        line["n"] = number
    reseal(path, kept)
    return kept
