"""Runs pytest and writes what happens to each case, as it happens, a line of JSON each.

    python -P recorder.py REQUEST [pytest's arguments]

REQUEST is a JSON file: `events` (where to write), `cases` (which to run, in this order; null:
collect alone), `logs` (folders whose files' ends are noted as a case begins and ends). After a
case that did not pass the session ends: the next one shall not meet what this one broke.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from suites import logs, records
from suites.catalogue import MARKERS

sys.path.pop(0)  # the tests import nothing from here
_MOST_TEXT = 500_000


class Recorder:
    """A plugin that selects the cases asked for and tells what came of them."""

    def __init__(self, request: dict[str, Any]) -> None:
        self._events = Path(request["events"])
        self._cases: list[str] | None = request["cases"]
        self._logs: list[str] = request["logs"]
        self._output = os.dup(1)  # pytest puts another file in its place while a case runs
        self._session: pytest.Session | None = None
        self._limits: dict[str, float] = {}
        self._reports: list[pytest.TestReport] = []
        self._began = 0.0

    def _tell(self, event: str, **fields: Any) -> None:
        line = json.dumps({"event": event, **fields}) + "\n"
        with self._events.open("a") as file:
            file.write(line)

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """Remember the session, to stop it."""
        self._session = session

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Tell of files that cannot be read."""
        if report.failed:
            self._tell("unreadable", file=report.nodeid, text=report.longreprtext)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        """Keep the cases that were asked for, in their order; or tell of all."""
        if self._cases is None:
            for item in items:
                markers = [name for name in MARKERS if item.get_closest_marker(name)]
                if markers:
                    self._tell(
                        "found", case=item.nodeid, file=item.nodeid.split("::")[0], markers=markers
                    )
            return
        there = {item.nodeid: item for item in items}
        items[:] = [there[name] for name in self._cases if name in there]
        usual = float(config.getini("timeout") or 0)
        for item in items:
            own = item.get_closest_marker("timeout")
            limit = (own.args or (own.kwargs.get("timeout"),))[0] if own else usual
            self._limits[item.nodeid] = float(limit or usual)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Tell that a case begins."""
        self._reports = []
        self._began = time.monotonic()
        ends, said = logs.positions(self._logs), os.fstat(self._output).st_size
        limit = self._limits.get(nodeid, 0.0)
        self._tell("begin", case=nodeid, at=self._began, limit_s=limit, logs=ends, said=said)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep what set-up, test and tear-down came to."""
        self._reports.append(report)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """Tell that a case has ended, and how; end the session unless it was well."""
        outcome, reason = judged(self._reports)
        text = "\n".join(map(_text, self._reports))[-_MOST_TEXT:]
        seconds, ends = time.monotonic() - self._began, logs.positions(self._logs)
        told = {"outcome": outcome, "reason": reason, "seconds": seconds, "text": text}
        self._tell("end", case=nodeid, logs=ends, **told)
        if outcome not in records.GOOD and self._session is not None:
            self._session.shouldstop = "a case did not pass"


def judged(reports: list[pytest.TestReport]) -> tuple[str, str]:
    """Return the outcome of a case and its reason in one line."""
    for report in reports:
        if report.failed:
            return records.FAILED, f"{_words(report)} ({report.when})"
    for report in reports:
        if report.skipped and not hasattr(report, "wasxfail"):
            reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else ""
            reason = reason.removeprefix("Skipped: ")
            return records.outcome_of_skip(reason), reason
    return records.PASSED, ""


def _words(report: pytest.TestReport) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    words = (crash.message if crash else report.longreprtext).strip().splitlines()
    return str(words[0])[:300] if words else "failed"


def _text(report: pytest.TestReport) -> str:
    head = f"===== {report.when}: {report.outcome}, {report.duration:.1f} s"
    sections = [f"----- {name}\n{text}" for name, text in report.sections]
    return "\n".join([head, report.longreprtext, *sections]).rstrip() + "\n"


def main() -> int:
    """Run pytest with the request that the first argument names."""
    request = json.loads(Path(sys.argv[1]).read_text())
    return int(pytest.main(sys.argv[2:], plugins=[Recorder(request)]))


if __name__ == "__main__":
    sys.exit(main())
