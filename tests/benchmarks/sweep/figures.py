"""`benchmarks sweep`: a campaign of very short trials, and what its driver takes meanwhile.

What one more idea takes of the driver may not grow with those before it, and the time in which
`status` and `results` read them all not more than in proportion.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from benchmarks.sweep import samples
from benchmarks.sweep.samples import Sample
from hpcscientist.bench.figure import Figure
from hpcscientist.config.settings import Settings
from hpcscientist.errors import HpcsciError
from hpcscientist.ports import Tell

MARKS = (30, 100, 300, 1000)
MEMORY_MB = 200.0
GROWTH = 1.25  # of what one more idea takes, against the first mark

RECIPE = Path(__file__).parent / "recipe"
_DRIVER = "benchmarks.sweep.driver"
_TIMES = 3  # as often a command is timed


class SweepFailed(HpcsciError):
    """The driver that was measured failed; its own words are on stderr."""


@dataclass(frozen=True, slots=True)
class Options:
    """A campaign of as many ideas as the last of `marks`, in `folder`; samples at each of them."""

    folder: Path
    settings: Settings
    marks: tuple[int, ...] = MARKS


def measure(options: Options, tell: Tell) -> list[Sample]:
    """Run the campaign, or go on with it, in a process of its own. Raises SweepFailed."""
    settings = options.settings.model_copy(
        update={"recipe": str(RECIPE), "model": "search", "ideas": max(options.marks)}
    )
    arguments = [str(options.folder), settings.model_dump_json(), json.dumps(options.marks)]
    tell(f"{settings.ideas} ideas below {options.folder}")
    path = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-m", _DRIVER, *arguments], check=False, env=path)
    if done.returncode:
        raise SweepFailed(
            f"the driver ended with {done.returncode}; give the same command again to go on"
        )
    return samples.read(options.folder)


def figures(taken: Sequence[Sample], marks: Sequence[int]) -> list[Figure]:
    """Return the figures of each mark, beside those of the first."""
    found = {sample.ideas: sample for sample in taken if sample.status_s is not None}
    reached = [found[mark] for mark in sorted(marks) if mark in found]
    rates = {now.ideas: _between(before, now) for before, now in _stretches(taken)}
    shown: list[Figure] = []
    for sample in reached:
        shown.append(_plain("driver's peak memory", sample, sample.peak_mb, "MiB", MEMORY_MB))
    for name, unit, which in (
        ("driver's CPU time an idea", "s", 0),
        ("driver's fsyncs an idea", "fsyncs", 1),
    ):
        values = {s.ideas: rates[s.ideas][which] for s in reached if s.ideas in rates}
        shown += _beside(name, unit, values)
    for name, times in (
        ("CPU time of `hpcsci status`", {s.ideas: s.status_s or 0.0 for s in reached}),
        ("CPU time of `hpcsci results`", {s.ideas: s.results_s or 0.0 for s in reached}),
    ):
        shown += _in_proportion(name, times)
    return shown


def table(shown: Sequence[Figure]) -> str:
    """Return the figures for people: a row each, a column a mark."""
    names = list(dict.fromkeys(_name(figure) for figure in shown))
    marks = list(dict.fromkeys(_mark(figure) for figure in shown))
    cells = {(_name(f), _mark(f)): f"{f.value:.4g}" for f in shown}
    units = {_name(figure): figure.unit for figure in shown}
    lines = [["ideas", *marks]]
    lines += [[f"{n} ({units[n]})", *(cells.get((n, m), "") for m in marks)] for n in names]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def _name(figure: Figure) -> str:
    return figure.name.rpartition(", ")[0]


def _mark(figure: Figure) -> str:
    return figure.name.rpartition(", ")[2].removesuffix(" ideas")


def _stretches(taken: Sequence[Sample]) -> Iterator[tuple[Sample, Sample]]:
    """The stretches between two samples of one driver: what another one took is not known."""
    return (
        (one, two)
        for one, two in pairwise(taken)
        if one.driver == two.driver and one.ideas < two.ideas
    )


def _between(before: Sample, now: Sample) -> tuple[float, float]:
    """CPU seconds and fsyncs an idea."""
    ideas = now.ideas - before.ideas
    return (now.cpu_s - before.cpu_s) / ideas, (now.fsyncs - before.fsyncs) / ideas


def _plain(name: str, sample: Sample, value: float, unit: str, target: float) -> Figure:
    return Figure(f"{name}, {sample.ideas} ideas", value, unit, None, None, target, 0.0, 1)


def _beside(name: str, unit: str, values: Mapping[int, float]) -> Iterator[Figure]:
    """What each idea takes, beside the first mark's."""
    first: tuple[int, float] | None = None
    for ideas, value in values.items():
        figure = Figure(f"{name}, {ideas} ideas", value, unit, None, None, None, 0.0, 1)
        if first is None:
            first = ideas, value
            yield figure
        else:
            said = f"at {first[0]} ideas: {first[1]:.4g} {unit}"
            yield _against(figure, said, first[1], GROWTH)


def _in_proportion(name: str, times: Mapping[int, float]) -> Iterator[Figure]:
    """What reading takes in all, beside growth in proportion from the mark before."""
    before: tuple[int, float] | None = None
    for ideas, value in times.items():
        figure = Figure(f"{name}, {ideas} ideas", value, "s", None, None, None, 0.0, _TIMES)
        if before is None:
            yield figure
        else:
            linear = before[1] * ideas / before[0]
            said = f"growth in proportion from {before[0]} ideas: {linear:.4g} s"
            yield _against(figure, said, linear, 1.0)
        before = ideas, value


def _against(figure: Figure, said: str, other: float, target: float) -> Figure:
    if not other:
        return figure
    return replace(figure, compared_with=said, ratio=figure.value / other, target=target)
