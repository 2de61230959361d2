"""A run from beginning to end: the gate, the suites side by side or alone, the table."""

from __future__ import annotations

import fcntl
import json
import subprocess
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from . import rooms
from .catalogue import Suite, longest_first, suite_of
from .leftovers import Workplace
from .records import NOT_RUN, Case, Result, Try
from .retrying import ServicesFailed, run_cases
from .rooms import Room, RoomFailed
from .services import environment
from .side_by_side import Tell, run_jobs
from .suite_run import SuiteRun
from .table import Report, progress

_GATE_S = 7200
_GATE_ENDS_S = 60


@dataclass
class Session:
    """Everything of one run. `only`: a part of the names of the cases that are wanted.

    `at_once`: how many suites run side by side, where they may.
    """

    repository: Path
    work: Workplace
    report: Report
    only: str = ""
    at_once: int = 1
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

    def suite(self, suite: Suite, tell: Tell) -> None:
        """Run a suite and tell what comes of it: "say", "result", "problem", "note"."""
        run = SuiteRun(suite, self.work, self.repository, self.report.folder / "logs")
        tell("say", f"[{self.minutes:3d} min] {suite.name}: {suite.holds}")
        names: list[str] = []
        done: set[str] = set()
        try:
            try:
                run.open()
            except ServicesFailed as failure:
                tell("problem", f"{suite.name} could not run: {failure}")
                tell("say", f"[{self.minutes:3d} min] {suite.name} COULD NOT RUN: {failure}")
                return
            names = self._names(suite, run, tell)
            for count, result in enumerate(run_cases(suite.name, names, run), 1):
                tell("result", asdict(result))
                done.add(result.case)
                tell("say", progress(count, len(names), self.minutes, result))
        except BaseException:
            stopped = (Try(NOT_RUN, reason="stopped before its end"),)
            for name in names:
                if name not in done:
                    tell("result", asdict(Result(suite.name, name, stopped)))
            raise
        finally:
            try:
                run.close()
            except (RoomFailed, ServicesFailed) as failure:
                tell("problem", f"{suite.name}: {failure}")

    def _names(self, suite: Suite, run: SuiteRun, tell: Tell) -> list[str]:
        mine = [c.name for c in self._cases(run, tell) if suite_of(c.file, c.markers) == suite.name]
        if not mine:
            tell("problem", f"{suite.name}: no test belongs to it")
        return [name for name in mine if self.only in name]

    def _cases(self, run: SuiteRun, tell: Tell) -> list[Case]:
        """All marked tests, as the first suite that asks has found them."""
        with (self.work.folder / "cases.json").open("a+") as kept:
            fcntl.flock(kept, fcntl.LOCK_EX)
            kept.seek(0)
            text = kept.read()
            if text:
                return [Case(name, file, tuple(marks)) for name, file, marks in json.loads(text)]
            cases, unread = run.collect()
            for problem in unread:
                tell("problem", problem)
            json.dump([(case.name, case.file, case.markers) for case in cases], kept)
            return cases

    def hear(self, kind: str, value: Any) -> None:
        """Heed what a suite tells."""
        if kind == "say":
            self.say(value)
            return
        if kind == "result":
            tries = tuple(Try(**each) for each in value["tries"])
            self.report.results.append(Result(value["suite"], value["case"], tries))
        else:
            {"problem": self.report.problems, "note": self.report.notes}[kind].append(value)
        self.report.save()

    def run(self, suites: Sequence[Suite], with_gate: bool) -> None:
        """Run what was asked for: the gate, suites side by side, then those that must be alone."""
        if with_gate:
            self.gate()
        order = {suite.name: number for number, suite in enumerate(suites)}
        try:
            for alone in (False, True):
                these = longest_first([suite for suite in suites if suite.alone is alone])
                jobs = [(suite.name, partial(self.suite, suite)) for suite in these]
                run_jobs(jobs, 1 if alone else self.at_once, self.hear)
        finally:
            self.report.results.sort(key=lambda result: order[result.suite])
        if self.only and not self.report.results:
            self.report.problems.append(f"no case's name contains {self.only!r}")
