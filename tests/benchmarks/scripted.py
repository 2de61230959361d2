"""A language model of fixed latency and a backend of fixed trial lengths, for `makespan`.

Both are adapters of the real ports and write what the real ones write, so that the loop
that is measured is the one that users run: conductor, journal, chat records, result files.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from hpcscientist.execution.backends.process_backend import ProcessBackend
from hpcscientist.files.rundir import RunPaths
from hpcscientist.records.model_calls import ModelReply, ModelRequest
from hpcscientist.records.trial import (
    Ended,
    EndState,
    Scored,
    TrialReport,
    TrialSpec,
    Usage,
    run_of,
)
from hpcscientist.results import store

_WORKERS = 2
_WRITING_S = 0.02  # is enough for a result file


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
        word = request.subject.replace("-", "")
        return {
            "title": f"Scripted {word}",
            "hypothesis": word,
            "method": word,
            "experiment_plan": word,
            "summary": " ".join(f"{word}{letter}" for letter in "abcdefgh"),
        }

    def _code(self, request: ModelRequest) -> dict[str, object]:
        text = f"{self._reference}\nIDEA = {request.subject!r}\nprint(IDEA)\n"
        return {
            "note": "a name",
            "edits": [{"file": self._entry, "search": None, "replace": text}],
        }


@contextmanager
def workers() -> Iterator[Executor]:
    """Yield processes, up already, in which trials' workers write what they leave: what that costs
    is none of the driver's.
    """
    with ProcessPoolExecutor(_WORKERS, mp_context=get_context("spawn")) as processes:
        nothing = Path(os.devnull)  # and reading it imports what writing needs
        for up in [processes.submit(store.read_table, nothing) for _ in range(_WORKERS)]:
            up.result()
        yield processes


class ScriptedBackend(ProcessBackend):
    """Trials that last as long as they are told, on a number of slots, first come first served.

    What their workers do at their end, which is a part of that, is done by `processes`.
    """

    def __init__(
        self, paths: RunPaths, slots: int, seconds: Mapping[str, float], processes: Executor
    ) -> None:
        super().__init__(slots)
        self._paths, self._seconds, self._processes = paths, seconds, processes

    async def follow(self, trial: TrialSpec) -> Ended:
        """Let a trial last its time; at its end its result file is written."""
        self.began(trial)
        loop, begin = asyncio.get_running_loop(), time.time()
        until = loop.time() + self._seconds[trial.budget]
        await asyncio.sleep(until - loop.time() - _WRITING_S)
        # Values differ by seed and not by idea: nothing here should look like a finding.
        value = (trial.seed % 1000) / 1000
        report = TrialReport(
            trial_id=trial.trial_id,
            run=trial.run,
            outcome=Scored(metrics={metric.name: value for metric in trial.metrics}),
            usage=Usage(started_at=begin, ended_at=time.time()),
        )
        write = partial(store.write_result, self._paths.trial(trial.trial_id), trial, report)
        await loop.run_in_executor(self._processes, write)
        await asyncio.sleep(until - loop.time())
        return Ended(run_of(trial), EndState.ENDED, ended_at=time.time(), began_at=begin)
