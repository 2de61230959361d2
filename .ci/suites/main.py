"""The command line of `.ci/full`: what is asked for, how it is stopped, how it ends."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from . import leftovers, plan
from .leftovers import Busy, Workplace
from .services import environment
from .session import Session
from .table import Report

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stopped(BaseException):
    """A signal asked for the end."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


def main(arguments: Sequence[str], repository: Path) -> int:
    """Run what is asked for: 0 green, 1 red, 2 asked wrongly, 128 and more: stopped."""
    given = _parser().parse_args(arguments)
    if given.list:
        print(plan.listing())
        return 0
    try:
        suites = plan.chosen(given.suites)
    except plan.UnknownSuite as unknown:
        return _refuse(str(unknown))
    if os.geteuid() != 0:
        return _refuse("only root can bring up a cluster: run it with sudo")
    os.umask(0o022)
    for number in _SIGNALS:
        signal.signal(number, _stop)
    if not given.suites and not given.only:
        return _run(given, suites, repository, with_gate=True)
    return _run(given, suites, repository, with_gate=False)


def _run(
    given: argparse.Namespace, suites: Sequence[plan.Suite], repository: Path, with_gate: bool
) -> int:
    stamp = time.strftime("%Y%m%dT%H%M%S")
    folder = Path(given.logs or repository / "scratch" / "full" / stamp).resolve()
    (folder / "logs").mkdir(parents=True, exist_ok=True)
    report = Report(folder, _commit(repository))
    if _git(repository, "status", "--porcelain", "--untracked-files=no"):
        report.notes.append("what is not committed was not tried")
    work: Workplace | None = None
    code = 0
    try:
        # A signal waits until the folder is known, so that it is removed.
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        try:
            work = Workplace.claim(leftovers.BASE, lambda: _devcluster(repository, "down"))
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
        if any(suite.has_cluster for suite in suites) and lives(_devcluster(repository, "status")):
            raise Busy("a development cluster is up on this machine: slurm/devcluster down first")
        Session(repository, work, report, given.only).run(suites, with_gate)
    except Busy as busy:
        return _refuse(str(busy))
    except Stopped as stopped:
        report.problems.append(f"stopped by {stopped}")
        code = 128 + stopped.number
    finally:
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_IGN)  # half done would leave something behind
        if work is not None:
            try:
                work.remove()
            except Busy as busy:
                report.problems.append(str(busy))
    report.save()
    (folder / "table.txt").write_text(report.table(whole=True) + "\n")
    print(report.table(whole=False), flush=True)
    return code or int(report.red)


def lives(status: str) -> bool:
    """Whether any part of a development cluster runs, from what its `status` tells.

    None of an earlier run's does: they end with it. So it is somebody's who works with it.
    """
    return any(line.split()[1:2] == ["ok"] for line in status.splitlines())


def _devcluster(repository: Path, command: str) -> str:
    """Run a command of slurm/devcluster and return what it says; how it ends does not matter."""
    return subprocess.run(
        [str(repository / "slurm" / "devcluster"), command],
        env=environment(Path("/")),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    ).stdout


def _stop(number: int, _frame: FrameType | None) -> None:
    for each in _SIGNALS:
        signal.signal(each, signal.SIG_IGN)  # one is enough, and cleaning up takes its time
    raise Stopped(number)


def _refuse(words: str) -> int:
    print(f".ci/full: {words}", file=sys.stderr)
    return 2


def _commit(repository: Path) -> str:
    return _git(repository, "rev-parse", "--short=10", "HEAD")


def _git(repository: Path, *arguments: str) -> str:
    line = ["git", "-C", str(repository), *arguments]
    return subprocess.run(line, capture_output=True, text=True, check=False).stdout.strip()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=".ci/full",
        description="The gate, then every suite on real daemons; or the suites that are named.",
    )
    parser.add_argument("suites", nargs="*", metavar="SUITE", help="a suite's name; see --list")
    parser.add_argument("--list", action="store_true", help="say which suites there are")
    parser.add_argument("--logs", metavar="DIR", help="where logs go (scratch/full/TIME)")
    only = "run only the cases whose name contains TEXT, and no gate"
    parser.add_argument("--only", metavar="TEXT", default="", help=only)
    return parser
