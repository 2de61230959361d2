"""Figures for this machine, measured in fresh child processes.

A child imports what it measures before its clock starts, so a figure is about the work and not
about start-up (the benchmark `startup` measures that). The other modules of this folder define the
figures.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass

_CHILD = "hpcscientist.bench.child"
_WHAT = ("seconds", "cpu_s", "peak_mb")


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured figure beside what it is compared with; contract 1.

    `value` is the median of `runs` runs in `unit` (for memory: the maximum), `spread` the largest
    minus the smallest run. `ratio` is `value` divided by the compared value. `target` is the
    highest acceptable `ratio` (or `value` if there is no ratio), or the lowest if `at_least`. None
    if there is nothing to compare with.
    """

    name: str
    value: float
    unit: str
    compared_with: str | None
    ratio: float | None
    target: float | None
    spread: float
    runs: int
    at_least: bool = False

    @property
    def is_met(self) -> bool:
        """Whether the target was reached; true without a target."""
        if self.target is None:
            return True
        reached = self.value if self.ratio is None else self.ratio
        return reached >= self.target if self.at_least else reached <= self.target


@dataclass(frozen=True, slots=True)
class TimedCall:
    """A module-level function and its arguments, which must survive JSON.

    If it returns a function, only that function is measured, not the call itself.
    """

    function: Callable[..., object]
    arguments: tuple[str | int | float, ...] = ()


@dataclass(frozen=True, slots=True)
class RunCosts:
    """The cost of each run of a call: seconds, processor seconds, peak memory in MiB."""

    seconds: tuple[float, ...]
    cpu_s: tuple[float, ...]
    peak_mb: tuple[float, ...]

    @property
    def median(self) -> float:
        """The median of the runs, in seconds."""
        return statistics.median(self.seconds)

    @property
    def spread(self) -> float:
        """The largest minus the smallest run, in seconds."""
        return max(self.seconds) - min(self.seconds)


def measure(calls: Mapping[str, TimedCall], runs: int = 3) -> dict[str, RunCosts]:
    """Run each call `runs` times, each time in a fresh child process.

    The calls take turns, so that other load on the machine affects all of them alike. Raises
    CalledProcessError if a call fails; its traceback is on stderr.
    """
    taken: dict[str, list[dict[str, float]]] = {name: [] for name in calls}
    for _ in range(runs):
        for name, call in calls.items():
            taken[name].append(_run(call))
    return {
        name: RunCosts(*(tuple(run[what] for run in of) for what in _WHAT))
        for name, of in taken.items()
    }


def as_json(figures: list[Figure]) -> str:
    """Return the figures as the JSON array of contract 1, which does not include `at_least`."""
    rows = [asdict(figure) for figure in figures]
    for row in rows:
        del row["at_least"]
    return json.dumps(rows, indent=2) + "\n"


def _run(call: TimedCall) -> dict[str, float]:
    target = f"{call.function.__module__}:{call.function.__qualname__}"
    command = [sys.executable, "-m", _CHILD, target, json.dumps(call.arguments)]
    # The function may be in a package that only this process has on its path.
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    reply = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, text=True, env=environment
    ).stdout
    taken = json.loads(reply.splitlines()[-1])
    return {what: float(taken[what]) for what in _WHAT}
