"""One suite: its services, and its cases in a sequence of pytest processes."""

from __future__ import annotations

import contextlib
import json
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import logs, rooms
from .catalogue import Suite
from .leftovers import Workplace
from .records import FAILED, HUNG, Case, Try
from .retrying import ServicesFailed
from .rooms import Room
from .services import Services

_POLL_S = 0.2
# Beyond a case's own limit: pytest-timeout ends it then, with every thread's stack.
_MARGIN_S = 120
# Without a case that runs: pytest collects, or takes down what cases shared.
_SILENT_S = 900


@dataclass
class SuiteRun:
    """A suite at work in a folder below `work`; logs go to `logs_folder`/SUITE."""

    suite: Suite
    work: Workplace
    repository: Path
    logs_folder: Path
    services: Services = field(init=False)
    _room: Room | None = None
    _count: int = 0  # of pytest processes

    @property
    def folder(self) -> Path:
        """Where the suite's clone, home and temporary files lie."""
        return self.work.folder / self.suite.name

    def open(self) -> None:
        """Make clone, environment and services. Raises ServicesFailed."""
        self.folder.mkdir()
        self.logs.mkdir(parents=True, exist_ok=True)
        cache = self.work.folder / "cache"
        cache.mkdir(exist_ok=True)
        self._enter(network=True)  # for what is installed
        assert self._room is not None
        output = self.logs / "services.txt"
        self.services = Services(self.folder, cache, output, self.suite.needs, self._room)
        self.services.prepare(self.repository)
        self.fresh()

    @property
    def logs(self) -> Path:
        """Where this suite's logs are kept."""
        return self.logs_folder / self.suite.name

    def fresh(self) -> None:
        """End everything and bring it up anew. Raises ServicesFailed."""
        self._leave()
        self._enter()
        self.services.down()
        self.services.up()

    def close(self) -> None:
        """End everything. Raises RoomFailed."""
        self._leave()
        if hasattr(self, "services") and self.suite.has_cluster:
            # What a cluster that was killed made outside the room is seen from a new one.
            self._enter()
            self.services.down()
            self._leave()

    def _enter(self, network: bool = False) -> None:
        # A cluster's ports and bridges are its suite's own; other suites may fetch something.
        network = network or not self.suite.has_cluster
        try:
            self._room = Room(self.folder, network)
        except rooms.RoomFailed as failure:
            raise ServicesFailed(str(failure)) from None
        self.work.owns(self._room.first)
        if hasattr(self, "services"):
            self.services.room = self._room

    def _leave(self) -> None:
        room, self._room = self._room, None
        if room is None:
            return
        try:
            if hasattr(self, "services"):
                self.services.down()
        finally:
            room.close()

    def collect(self) -> tuple[list[Case], list[str]]:
        """Return all marked tests, and what could not be read, a line each."""
        events: list[dict[str, Any]] = []
        process, file, _ = self._start(None, ["--collect-only", "-qq", "tests"])
        try:
            process.wait(_SILENT_S)
        except subprocess.TimeoutExpired:
            return [], [f"pytest --collect-only does not end within {_SILENT_S} s"]
        finally:
            rooms.stop(process)
        events = [json.loads(line) for line in _lines(file)]
        found = [
            Case(each["case"], each["file"], tuple(each["markers"]))
            for each in events
            if each["event"] == "found"
        ]
        unread = [each["file"] for each in events if each["event"] == "unreadable"]
        return found, [f"{name} cannot be read: see {self.logs}" for name in unread]

    def run(self, cases: Sequence[str], which: str) -> Iterator[tuple[str, Try]]:
        """Run cases in one pytest and yield what comes of each (see retrying.Pytest)."""
        files = list(dict.fromkeys(name.partition("::")[0] for name in cases))
        limit = f"timeout={self.suite.limit_s}"
        process, events, output = self._start(list(cases), ["-v", "-o", limit, *files])
        try:
            yield from self._follow(process, events, output, which)
        finally:
            rooms.stop(process)

    def _start(
        self, cases: list[str] | None, arguments: list[str]
    ) -> tuple[subprocess.Popen[bytes], Path, Path]:
        assert self._room is not None
        self._count += 1
        events, request = (self.folder / f"{name}-{self._count}" for name in ("events", "request"))
        events.touch()
        asked = {"events": str(events), "cases": cases, "logs": self.services.log_folders}
        request.write_text(json.dumps(asked))
        output = self.logs / f"pytest-{self._count}.txt"
        recorder = self.services.clone / ".ci" / "suites" / "recorder.py"
        line: list[str | Path] = [self.services.python, "-P", recorder, request]
        line += ["--full", "-p", "no:cacheprovider", *arguments]
        process = self._room.start(line, self.services.clone, self.services.env, output)
        return process, events, output

    def _follow(
        self, process: subprocess.Popen[bytes], file: Path, output: Path, which: str
    ) -> Iterator[tuple[str, Try]]:
        begun: dict[str, Any] | None = None
        last: tuple[str, Try] | None = None
        read, deadline = 0, time.monotonic() + _SILENT_S
        while True:
            ended = process.poll() is not None
            lines = _lines(file)
            for line in lines[read:]:
                event = json.loads(line)
                if last is not None:
                    yield last
                    last = None
                if event["event"] == "begin":
                    begun = event
                    deadline = time.monotonic() + _limit_of(event, self.suite)
                elif event["event"] == "end":
                    last = event["case"], self._ended(event, begun, which)
                    begun, deadline = None, time.monotonic() + _SILENT_S
            read = len(lines)
            if last is not None and not last[1].good:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(_MARGIN_S)  # it fixes what its fixtures broke
                rooms.stop(process)
                yield last
                return
            hung = time.monotonic() > deadline
            if ended or hung:
                break
            time.sleep(_POLL_S)
        words = "hung" if hung else f"pytest ended ({process.returncode})"
        if begun is not None:
            rooms.stop(process)
            outcome = HUNG if hung else FAILED
            yield begun["case"], self._died(begun, which, outcome, words, output)
        elif last is not None and (hung or process.returncode != 0):
            # It took down what cases shared: the last one's try is not good then.
            why = f"{words} after the last case: see {output}"
            yield last[0], Try(HUNG if hung else FAILED, last[1].seconds, why, last[1].log)
        elif last is not None:
            yield last

    def _ended(self, event: dict[str, Any], begun: dict[str, Any] | None, which: str) -> Try:
        folder = self._log_folder(event["case"], which)
        (folder / "pytest.txt").write_text(event["text"])
        logs.cut(_positions(begun), _positions(event), folder)
        return Try(event["outcome"], event["seconds"], event["reason"], str(folder))

    def _died(
        self,
        begun: dict[str, Any],
        which: str,
        outcome: str,
        words: str,
        output: Path,
    ) -> Try:
        folder = self._log_folder(begun["case"], which)
        with output.open("rb") as said:
            said.seek(begun["said"])
            (folder / "pytest.txt").write_bytes(said.read())
        logs.cut(_positions(begun), logs.positions(self.services.log_folders), folder)
        seconds = time.monotonic() - begun["at"]
        return Try(outcome, seconds, f"{words} in the middle of it", str(folder))

    def _log_folder(self, case: str, which: str) -> Path:
        folder = self.logs / logs.folder_name(case) / which
        folder.mkdir(parents=True, exist_ok=True)
        return folder


def _limit_of(begun: dict[str, Any], suite: Suite) -> float:
    """How long a case that has begun may take, in seconds, before its pytest is ended."""
    return float(begun["limit_s"] or suite.limit_s) + _MARGIN_S


def _positions(event: dict[str, Any] | None) -> dict[str, logs.Position]:
    found = (event or {}).get("logs", {})
    return {name: (inode, size) for name, (inode, size) in found.items()}


def _lines(file: Path) -> list[str]:
    """The whole lines of a file that another process appends to."""
    text = file.read_text()
    return text[: text.rfind("\n") + 1].splitlines()
