"""Measures the driver's processor time and memory as the number of trials grows.

Trials are scored as soon as their array task starts, so that only the driver is measured. All of
its work is real: journal, trial folders, arrays, squeue and sacct calls, reading result files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from hpcscientist.bench.figure import Call, Figure, Measured, measure
from hpcscientist.bench.slurm import instant, ours
from hpcscientist.bench.slurm.ground import Ground, marked
from hpcscientist.records.site import Site

GROWTH = 1.0  # relative to linear growth
_DEADLINE_S = 1.0  # expected seconds of a trial: short, so that many share an array task
_PACKED_FROM = 1000


def figures(root: Path, site: Site, sizes: Sequence[int]) -> list[Figure]:
    """Drive each number of trials in its own process, below a folder that nodes see.

    A thousand trials or more are packed; fewer get an array task each. Raises CalledProcessError if
    one fails; the reason is on stderr.
    """
    taken = {}
    for size in sizes:
        with marked(site) as mark:
            arguments = (str(root), mark, site.model_dump_json(), size)
            taken[size] = measure({"": Call(drive, arguments)}, runs=1)[""]
    return compare(taken)


def drive(root: str, mark: str, site: str, trials: int) -> None:
    """Drive trials to their end. `mark` is the campaign's id, `site` the profile as JSON."""
    profile = Site.model_validate_json(site)
    if trials < _PACKED_FROM:
        slurm = profile.slurm.model_copy(update={"pack_s": 0.0})
        profile = profile.model_copy(update={"slurm": slurm})
    ground = Ground(Path(root) / f"driver-{trials}", mark, profile, seconds=0.0)
    ground.prepare()
    ours.run(ground, ground.specs(trials, _DEADLINE_S), module=instant.MODULE)


def compare(taken: Mapping[int, Measured]) -> list[Figure]:
    """Return the figures of each number of trials, compared with linear growth from the previous
    one.
    """
    cpu = {size: measured.cpu_s[0] for size, measured in taken.items()}
    memory = {size: measured.peak_mb[0] for size, measured in taken.items()}
    return [*_growth("CPU time", "s", cpu), *_growth("peak memory", "MiB", memory)]


def _growth(name: str, unit: str, values: Mapping[int, float]) -> Iterator[Figure]:
    before: tuple[int, float] | None = None
    for size, value in values.items():
        figure = Figure(f"driver's {name}, {size} trials", value, unit, None, None, None, 0.0, 1)
        yield figure if before is None else _beside(figure, size, *before)
        before = size, value


def _beside(figure: Figure, size: int, smaller: int, value: float) -> Figure:
    linear = value * size / smaller
    return replace(
        figure,
        compared_with=f"linear growth from {smaller} trials: {linear:.4g} {figure.unit}",
        ratio=figure.value / linear,
        target=GROWTH,
    )
