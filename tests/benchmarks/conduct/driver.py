"""What a driver asks of the disk and of its processor for each trial: whole campaigns of scripted
ideas and trials, as for `bench makespan`. What the trials' workers do is not counted.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.makespan import Script, campaign
from hpcscientist.bench.figure import Figure
from hpcscientist.files.rundir import RunPaths
from hpcscientist.history import journal
from hpcscientist.records.events import TrialEnded

SYNCS = 2.0  # at most, for a trial
_SCRIPT = Script(latency_s=0.05, pilot_s=0.05, full_s=0.1)


@dataclass(slots=True)
class _Meter:
    """Counts fsyncs and CPU seconds of this process while it is `on`."""

    syncs: int = 0
    cpu_s: float = 0.0

    @contextmanager
    def on(self) -> Iterator[None]:
        fsync, begin = os.fsync, time.process_time()

        def counted(descriptor: int) -> None:
            self.syncs += 1
            fsync(descriptor)

        os.fsync = counted  # type: ignore[assignment]
        try:
            yield
        finally:
            os.fsync = fsync
            self.cpu_s += time.process_time() - begin


def costs(ideas: int) -> list[Figure]:
    """Run a campaign of so many ideas; return its fsyncs and its CPU milliseconds a trial."""
    meter = _Meter()
    with tempfile.TemporaryDirectory(prefix="hpcsci-bench-") as folder:
        asyncio.run(campaign(Path(folder), ideas, _SCRIPT, meter.on))
        events = journal.events(RunPaths(Path(folder) / "run").journal)
        trials = sum(isinstance(event, TrialEnded) for event in events)
    return [
        _figure(f"fsyncs a trial, {ideas} ideas", meter.syncs / trials, "", SYNCS),
        _figure(
            f"driver's CPU time a trial, {ideas} ideas", 1000 * meter.cpu_s / trials, "ms", None
        ),
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
