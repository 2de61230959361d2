"""`benchmarks one_idea`: how much of the package one idea passes through, from launch to its end.

A recorded idea of the quickstart is launched in this process, and each function of the package that
the driver enters is noted, in all of its threads. It counts code that a reader meets, and no time.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any
from unittest.mock import patch

import hpcscientist
from hpcscientist.bench.figure import Figure
from hpcscientist.campaign.dispatcher import Dispatcher
from hpcscientist.campaign.waiting import WaitedRun
from hpcscientist.execution.backends import local
from hpcscientist.execution.backends.process_backend import ProcessBackend
from hpcscientist.records.trial import Answer, Batch

ROOT = Path(hpcscientist.__file__).parent
MODULES = 300
"""The most modules that one idea should pass."""
CALLS = 6
"""The most calls from an action to the process that it starts, of those that are on the stack."""


@dataclass(slots=True)
class Trace:
    """What was entered: functions by their code, and how deep the stack of the package was where a
    trial was handed to the dispatcher, by that to the backend, and started by that.
    """

    functions: set[CodeType] = field(default_factory=set)
    acted: int = 0
    submitted: int = 0
    started: int = 0

    @property
    def modules(self) -> set[str]:
        """The modules of the package that anything was entered of."""
        files = (c.co_filename for c in self.functions if c.co_name != "<module>")
        return {file for file in files if file.endswith(".py")}  # templates are compiled, too

    @property
    def calls(self) -> int:
        """The calls from an action to the process of its trial, on the stacks of three tasks."""
        return self.acted + self.submitted + self.started

    def enter(self, frame: FrameType, event: str, argument: Any) -> None:
        """Note a call; what `sys.setprofile` takes."""
        if event == "call" and frame.f_code.co_filename.startswith(str(ROOT)):
            self.functions.add(frame.f_code)


def figures() -> list[Figure]:
    """Trace an idea and return what it passes."""
    trace = Trace()
    with tempfile.TemporaryDirectory() as folder, _tracing(trace):
        hpcscientist.launch(
            ideas=1, model="playbook", run_dir=str(Path(folder, "run")), allow_unsandboxed=True
        )
    everything = sum(1 for path in ROOT.rglob("*.py") if path.name != "__init__.py")
    return [
        _figure("modules that one idea passes", len(trace.modules), "modules", everything, MODULES),
        _figure("functions that one idea passes", len(trace.functions), "functions"),
        _figure("calls from an action to its process", trace.calls, "calls", None, CALLS),
    ]


@contextmanager
def _tracing(trace: Trace) -> Iterator[None]:
    """Note what is entered, and how deep the stack is where trials are handed on."""
    put, submit = Dispatcher._put, ProcessBackend.submit

    def spied_put(self: Dispatcher, entry: WaitedRun) -> None:
        trace.acted = max(trace.acted, _depth())
        put(self, entry)

    async def spied_submit(self: ProcessBackend, batch: Batch) -> Answer:
        trace.submitted = max(trace.submitted, _depth())
        return await submit(self, batch)

    class SpiedJob(subprocess.Popen[bytes]):
        def __init__(self, *arguments: Any, **named: Any) -> None:
            trace.started = max(trace.started, _depth())
            super().__init__(*arguments, **named)

    with (
        patch.object(Dispatcher, "_put", spied_put),
        patch.object(ProcessBackend, "submit", spied_submit),
        patch.object(local, "Job", SpiedJob),
    ):
        sys.setprofile(trace.enter)
        threading.setprofile(trace.enter)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)


def _depth() -> int:
    """Count the package's frames that this task has on the stack."""
    count, frame = 0, sys._getframe(2)
    found: FrameType | None = frame
    while found is not None and not found.f_code.co_filename.endswith("asyncio/events.py"):
        count += found.f_code.co_filename.startswith(str(ROOT))
        found = found.f_back
    return count


def _figure(
    name: str, value: int, unit: str, against: int | None = None, target: int | None = None
) -> Figure:
    compared = None if against is None else f"all {against} of the package"
    return Figure(
        name=name,
        value=value,
        unit=unit,
        compared_with=compared,
        ratio=None,
        target=target,
        spread=0,
        runs=1,
    )
