"""A run from beginning to end: the gate, the suites one after the other, the table."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from . import rooms
from .leftovers import Workplace
from .plan import Suite, suite_of
from .records import NOT_RUN, Case, Result, Try
from .retrying import ServicesFailed, run_cases
from .rooms import Room, RoomFailed
from .services import environment
from .suite_run import SuiteRun
from .table import Report, progress

_GATE_S = 7200
_GATE_ENDS_S = 60


@dataclass
class Session:
    """Everything of one run. `only`: a part of the names of the cases that are wanted."""

    repository: Path
    work: Workplace
    report: Report
    only: str = ""
    _cases: list[Case] | None = None
    _began: float = field(default_factory=time.monotonic)

    @property
    def minutes(self) -> int:
        """Since the beginning."""
        return int(time.monotonic() - self._began) // 60

    def say(self, text: str) -> None:
        """Tell what happens, at once."""
        print(text, flush=True)

    def gate(self) -> None:
        """Run .ci/run, with all tests on the oldest versions; red is a problem, suites follow."""
        output = self.report.folder / "logs" / "gate.txt"
        self.say(f"[{self.minutes:3d} min] gate: .ci/run, its output in {output}")
        home = self.work.folder / "gate-home"
        home.mkdir()
        begin = time.monotonic()
        room = Room(None)
        try:
            self.work.owns(room.first)
            line: list[str | Path] = ["bash", self.repository / ".ci" / "run"]
            variables = environment(home) | {"HPCTEST_LOWEST": "all"}
            process = room.start(line, self.repository, variables, output)
            try:
                code = process.wait(_GATE_S)
            except subprocess.TimeoutExpired:
                code = 124
            finally:
                rooms.stop(process, _GATE_ENDS_S)
        finally:
            room.close()
        seconds = time.monotonic() - begin
        told = f"gate: .ci/run ended {code} after {seconds:.0f} s"
        (self.report.notes if code == 0 else self.report.problems).append(told)
        self.say(f"[{self.minutes:3d} min] {told}")

    def suite(self, suite: Suite) -> None:
        """Run a suite; whatever comes of it is in the report."""
        run = SuiteRun(suite, self.work, self.repository, self.report.folder / "logs")
        self.say(f"[{self.minutes:3d} min] {suite.name}: {suite.holds}")
        names: list[str] = []
        done: set[str] = set()
        try:
            try:
                run.open()
            except ServicesFailed as failure:
                self.report.problems.append(f"{suite.name} could not run: {failure}")
                self.say(f"[{self.minutes:3d} min] {suite.name} COULD NOT RUN: {failure}")
                return
            names = self._names(suite, run)
            for count, result in enumerate(run_cases(suite.name, names, run), 1):
                self.report.results.append(result)
                done.add(result.case)
                self.say(progress(count, len(names), self.minutes, result))
                self.report.save()
        except BaseException:
            stopped = (Try(NOT_RUN, reason="stopped before its end"),)
            left = [name for name in names if name not in done]
            self.report.results += [Result(suite.name, name, stopped) for name in left]
            raise
        finally:
            self._close(run)
            self.report.save()

    def _names(self, suite: Suite, run: SuiteRun) -> list[str]:
        if self._cases is None:
            self._cases, unread = run.collect()
            self.report.problems += unread
        mine = [c.name for c in self._cases if suite_of(c.file, c.markers) == suite.name]
        if not mine and not suite.may_be_empty:
            self.report.problems.append(f"{suite.name}: no test belongs to it")
        elif not mine:
            self.report.notes.append(f"{suite.name}: holds no test yet")
        return [name for name in mine if self.only in name]

    def _close(self, run: SuiteRun) -> None:
        try:
            run.close()
        except (RoomFailed, ServicesFailed) as failure:
            self.report.problems.append(f"{run.suite.name}: {failure}")

    def run(self, suites: Sequence[Suite], with_gate: bool) -> None:
        """Run what was asked for, in order."""
        if with_gate:
            self.gate()
        for suite in suites:
            self.suite(suite)
        if self.only and not self.report.results:
            self.report.problems.append(f"no case's name contains {self.only!r}")
