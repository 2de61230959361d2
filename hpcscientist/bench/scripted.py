"""A language model of fixed latency and a backend of fixed trial lengths, for `makespan`.

Both are adapters of the real ports and write what the real ones write, so that the loop
that is measured is the one that users run: conductor, journal, chat records, result files.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Collection, Mapping, Sequence

from hpcscientist.execution.backends.crowd import Crowd
from hpcscientist.execution.backends.told import Told
from hpcscientist.files.rundir import RunPaths
from hpcscientist.records.model import ModelReply, ModelRequest
from hpcscientist.records.outcome import Scored
from hpcscientist.records.runs import (
    Accepted,
    Answer,
    Batch,
    Capacity,
    Change,
    Ended,
    EndState,
    Intent,
    RunId,
    Started,
    run_of,
)
from hpcscientist.records.trial import TrialReport, TrialSpec, Usage
from hpcscientist.results import store

_IDLE_S = 3600.0


class ScriptedModel:
    """Proposes ideas that have nothing in common, and sets a name of its own as their code."""

    def __init__(self, latency_s: float, entry: str, reference: str) -> None:
        self._latency_s = latency_s
        self._entry = entry
        self._reference = reference

    @property
    def name(self) -> str:
        """The model's name."""
        return "scripted"

    async def probe(self) -> None:
        """Always there."""

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Answer after the fixed latency."""
        await asyncio.sleep(self._latency_s)
        reply = self._propose(request) if request.stage == "propose" else self._code(request)
        return ModelReply(
            text=json.dumps(reply),
            model=self.name,
            prompt_tokens=1000,
            completion_tokens=200,
            tokens_estimated=False,
            latency_s=self._latency_s,
        )

    async def close(self) -> None:
        """Nothing to release."""

    def _propose(self, request: ModelRequest) -> dict[str, object]:
        word = request.idea_id.replace("-", "")
        return {
            "title": f"Scripted {word}",
            "hypothesis": word,
            "method": word,
            "experiment_plan": word,
            "summary": " ".join(f"{word}{letter}" for letter in "abcdefgh"),
        }

    def _code(self, request: ModelRequest) -> dict[str, object]:
        text = f"{self._reference}\nIDEA = {request.idea_id!r}\n"
        return {
            "note": "a name",
            "edits": [{"file": self._entry, "search": None, "replace": text}],
        }


class ScriptedBackend:
    """Trials that last as long as they are told, on a number of slots, first come first served."""

    outlives_driver = False
    gather_s = 0.0

    def __init__(self, paths: RunPaths, slots: int, seconds: Mapping[str, float]) -> None:
        self._paths = paths
        self._slots = slots
        self._seconds = seconds
        self._told = Told()
        self._crowd = Crowd(self._follow, self._told)

    async def adopt(self, intents: Sequence[Intent]) -> Collection[RunId]:
        """Nothing is ever left."""
        return ()

    async def capacity(self, like: TrialSpec) -> Capacity:
        """Say how many slots are free."""
        room = self._slots - len(self._crowd)
        return Capacity(room=room, batch_max=1, at_once=self._slots, pause_s=_IDLE_S)

    async def submit(self, batch: Batch) -> Answer:
        """Start a trial."""
        for element in batch.elements:
            for spec in element:
                self._crowd.start(spec)
        return Accepted()

    async def changes(self) -> Sequence[Change]:
        """Wait for something to tell."""
        return await self._told.take()

    async def cancel(self, runs: Collection[RunId]) -> None:
        """Stop trials."""
        await self._crowd.cancel(runs)

    async def sweep(self) -> None:
        """Stop all trials."""
        await self._crowd.close()

    async def close(self) -> None:
        """Nothing runs outside this process."""

    async def _follow(self, spec: TrialSpec) -> Ended:
        self._told.tell(Started(run_of(spec)))
        begin = time.time()
        await asyncio.sleep(self._seconds[spec.budget])
        # Values differ by seed and not by idea: nothing here should look like a finding.
        value = (spec.seed % 1000) / 1000
        report = TrialReport(
            trial_id=spec.trial_id,
            run=spec.run,
            outcome=Scored(metrics={metric.name: value for metric in spec.metrics}),
            usage=Usage(started_at=begin, ended_at=time.time()),
        )
        store.write_result(self._paths.trial(spec.trial_id), spec, report)
        return Ended(run_of(spec), EndState.ENDED, ended_at=time.time(), began_at=begin)
