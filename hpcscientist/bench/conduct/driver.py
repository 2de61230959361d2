"""What a driver asks of the disk and of its processor for each trial: whole campaigns of scripted
ideas and trials, as for `bench makespan`. What the trials' workers do is not counted.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from hpcscientist.bench.figure import Figure
from hpcscientist.bench.makespan import Script, campaign
from hpcscientist.bench.scripted import ScriptedBackend
from hpcscientist.files.rundir import RunPaths
from hpcscientist.history import journal
from hpcscientist.records.events import TrialEnded
from hpcscientist.records.trial import TrialReport, TrialSpec

SYNCS = 2.0  # at most, for a trial
_SCRIPT = Script(latency_s=0.05, pilot_s=0.05, full_s=0.1)


@dataclass(slots=True)
class _Meter:
    """Counts fsyncs and CPU seconds of this process while it is `on`."""

    syncs: int = 0
    apart_s: float = 0.0  # of the processor, for what workers do

    @contextmanager
    def on(self) -> Iterator[None]:
        fsync = os.fsync

        def counted(descriptor: int) -> None:
            self.syncs += 1
            fsync(descriptor)

        os.fsync = counted  # type: ignore[assignment]
        try:
            yield
        finally:
            os.fsync = fsync

    @contextmanager
    def apart(self) -> Iterator[None]:
        """Leave out what is done meanwhile."""
        syncs, begin = self.syncs, time.process_time()
        try:
            yield
        finally:
            self.syncs = syncs
            self.apart_s += time.process_time() - begin


def costs(ideas: int) -> list[Figure]:
    """Run a campaign of so many ideas; return its fsyncs and its CPU milliseconds a trial."""
    meter = _Meter()

    class Backend(ScriptedBackend):
        def write(self, trial: TrialSpec, report: TrialReport) -> None:
            with meter.apart():
                super().write(trial, report)

    def backend(paths: RunPaths, slots: int, seconds: Mapping[str, float]) -> ScriptedBackend:
        return Backend(paths, slots, seconds)

    with tempfile.TemporaryDirectory(prefix="hpcsci-bench-") as folder:
        begin = time.process_time()
        with meter.on():
            asyncio.run(campaign(Path(folder), ideas, _SCRIPT, backend))
        cpu_s = time.process_time() - begin - meter.apart_s
        events = journal.events(RunPaths(Path(folder) / "run").journal)
        trials = sum(isinstance(event, TrialEnded) for event in events)
    return [
        _figure(f"fsyncs a trial, {ideas} ideas", meter.syncs / trials, "", SYNCS),
        _figure(f"driver's CPU time a trial, {ideas} ideas", 1000 * cpu_s / trials, "ms", None),
    ]


def _figure(name: str, value: float, unit: str, target: float | None) -> Figure:
    return Figure(
        name=name,
        value=value,
        unit=unit,
        compared_with=None,
        ratio=None,
        target=target,
        spread=0.0,
        runs=1,
    )
