"""The command line of `.ci/full`: what is asked for, how it is stopped, how it ends."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from types import FrameType

from . import catalogue, leftovers
from .leftovers import Busy, Workplace
from .services import cluster_variables, environment
from .session import Session
from .side_by_side import SIGNALS, Stopped
from .table import Report

# Below it two clusters with their campaigns, or one with an engine, have too little.
_ENOUGH_MEMORY = 16 * 10**9


def main(arguments: Sequence[str], repository: Path) -> int:
    """Run what is asked for: 0 green, 1 red, 2 asked wrongly, 128 and more: stopped."""
    given = _parser().parse_args(arguments)
    if given.list:
        print(catalogue.listing())
        return 0
    try:
        suites = catalogue.chosen(given.suites)
    except catalogue.UnknownSuite as unknown:
        return _refuse(str(unknown))
    if os.geteuid() != 0:
        return _refuse("only root can bring up a cluster: run it with sudo")
    os.umask(0o022)
    for number in SIGNALS:
        signal.signal(number, _stop)
    if not given.suites and not given.only:
        return _run(given, suites, repository, with_gate=True)
    return _run(given, suites, repository, with_gate=False)


def _run(
    given: argparse.Namespace, suites: Sequence[catalogue.Suite], repository: Path, with_gate: bool
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
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        try:
            work = Workplace.claim(leftovers.BASE, partial(_end_clusters, repository))
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        at_once = given.side_by_side
        Session(repository, work, report, given.only, at_once).run(suites, with_gate)
    except Busy as busy:
        return _refuse(str(busy))
    except Stopped as stopped:
        report.problems.append(f"stopped by {stopped}")
        code = 128 + stopped.number
    finally:
        for number in SIGNALS:
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


def _end_clusters(repository: Path, earlier: Path) -> None:
    """Take down the clusters of an earlier run's suites, what lies outside its folder, too."""
    for folder in sorted(earlier.glob("*/cluster*")):
        subprocess.run(
            [str(repository / "slurm" / "devcluster"), "down"],
            env=environment(Path("/")) | cluster_variables(folder, "hpcsci-full"),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=300,
        )


def _stop(number: int, _frame: FrameType | None) -> None:
    for each in SIGNALS:
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
    usual = 2 if os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") > _ENOUGH_MEMORY else 1
    beside = (
        f"how many suites run at once, where they may ({usual} on this machine); 1: in sequence"
    )
    parser.add_argument("--side-by-side", metavar="N", type=_count, default=usual, help=beside)
    parser.add_argument("--only", metavar="TEXT", default="", help=only)
    return parser


def _count(word: str) -> int:
    if not word.isdigit() or int(word) < 1:
        raise argparse.ArgumentTypeError("give a number from 1")
    return int(word)
