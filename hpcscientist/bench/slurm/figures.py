"""`hpcsci bench slurm`: defines its figures and measures them."""

from __future__ import annotations

import os
import statistics
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from hpcscientist.bench.figure import Figure
from hpcscientist.bench.slurm import bare, driver, ours
from hpcscientist.bench.slurm.ground import Ground, marked
from hpcscientist.errors import UsageError
from hpcscientist.execution.backends.slurm.commands import Slurm
from hpcscientist.ports import Tell
from hpcscientist.records.site import Site
from hpcscientist.results.compact import compact


@dataclass(frozen=True, slots=True)
class Sweep:
    """Trials whose makespan is compared with a bare array's; `target` is the highest good ratio."""

    name: str
    trials: int
    seconds: float
    target: float


SWEEPS = {
    "long": Sweep("makespan", 100, 10.0, 1.15),
    "short": Sweep("makespan, packed", 400, 1.0, 1.0),
}
SIZES = (50, 500, 5000)
PARTS = (*SWEEPS, "driver")

COMMANDS = 0.3  # scheduler commands, relative to one sbatch per trial
INODES = 0.05  # relative to those before compaction

_DEADLINE_S = 120.0  # a trial's: long enough that no slow trial is ended
_PATIENCE_S = 900.0  # an array's, in addition to the time of its trials in sequence


@dataclass(frozen=True, slots=True)
class Options:
    """What to measure, and where. `folder` is on a file system that every node sees.

    `trials` overrides the number of trials of both sweeps (None: their own).
    """

    folder: Path
    site: Site
    image: str | None = None
    parts: tuple[str, ...] = PARTS
    trials: int | None = None
    sizes: tuple[int, ...] = SIZES
    runs: int = 1


def figures(options: Options, tell: Tell = lambda text: None) -> list[Figure]:
    """Measure, and leave neither jobs nor files behind.

    Raises UsageError if there is no Slurm, SchedulerError and CampaignError if something fails on
    it, OSError if `folder` cannot be written.
    """
    slurm = Slurm.of(options.site)
    if not slurm.is_there() or not slurm.answers():
        raise UsageError("no Slurm answers here; slurm/devcluster up starts one to try things on")
    found = []
    with tempfile.TemporaryDirectory(prefix="hpcsci-bench-", dir=options.folder) as place:
        root = Path(place)
        root.chmod(0o755)
        for part in options.parts:
            if part in SWEEPS:
                sweep = SWEEPS[part]
                sweep = replace(sweep, trials=options.trials or sweep.trials)
                found += measure_sweep(options, root / part, sweep, tell)
            else:
                tell(f"the driver, at {', '.join(map(str, options.sizes))} trials")
                found += driver.figures(root, options.site, sorted(options.sizes))
    return found


def measure_sweep(options: Options, root: Path, sweep: Sweep, tell: Tell) -> list[Figure]:
    """Run a bare array and our trials in turn, and return their figures.

    Before the clock starts, each side runs one trial. So its files are in the page cache, and the
    backend knows how long trials take, as in a campaign.
    """
    plain, own, commands, inodes = [], [], [], []
    count = sweep.trials + 1
    for number in range(options.runs):
        tell(f"{sweep.trials} trials of {sweep.seconds:g} s, as a bare array")
        plain.append(_bare(options, root / f"bare-{number}", sweep))
        tell(f"{sweep.trials} trials of {sweep.seconds:g} s, as a campaign's")
        with _ground(options, root / f"ours-{number}", sweep.seconds) as ground:
            first, *rest = ground.specs(count, _DEADLINE_S)
            ran = ours.run(ground, rest, [first])
            own.append(ran.seconds)
            commands.append(100 * ran.commands / count)
            loose = count_entries(ground.run.root)
            compact(ground.run)
            inodes.append((loose / count, count_entries(ground.run.root) / count))
    kind = "commands" if options.image is None else "container commands"
    what = f"{sweep.trials} trials of {sweep.seconds:g} s"
    before, after = (statistics.median(counts) for counts in zip(*inodes, strict=True))
    return [
        _figure(
            f"{sweep.name}, {what}",
            *(own, "s", f"bare sbatch --array of the same {kind}"),
            *(statistics.median(plain), sweep.target),
        ),
        _figure(
            f"scheduler commands per 100 trials, {what}",
            *(commands, "commands", "one sbatch a trial", 100.0, COMMANDS),
        ),
        _figure(
            f"inodes left per trial, {what}",
            *([after], "inodes", "before compaction", before, INODES),
        ),
    ]


def count_entries(folder: Path) -> int:
    """Return the number of files and folders below a folder."""
    return sum(len(folders) + len(files) for _, folders, files in os.walk(folder))


def _bare(options: Options, root: Path, sweep: Sweep) -> float:
    slurm, limit_s = Slurm.of(options.site), sweep.trials * sweep.seconds + _PATIENCE_S
    for name, count in (("first", 1), ("all", sweep.trials)):
        with _ground(options, root / name, sweep.seconds) as ground:
            seconds = bare.run(ground, ground.specs(count, _DEADLINE_S), slurm, limit_s)
    return seconds


@contextmanager
def _ground(options: Options, root: Path, seconds: float) -> Iterator[Ground]:
    with marked(options.site) as mark:
        ground = Ground(root, mark, options.site, seconds, options.image)
        ground.prepare()
        yield ground


def _figure(
    name: str, values: list[float], unit: str, words: str, other: float, target: float
) -> Figure:
    value = statistics.median(values)
    return Figure(
        name=name,
        value=value,
        unit=unit,
        compared_with=f"{words}: {other:.4g} {unit}",
        ratio=value / other,
        target=target,
        spread=max(values) - min(values),
        runs=len(values),
    )
