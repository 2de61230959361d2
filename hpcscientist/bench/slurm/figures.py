"""`hpcsci bench slurm`: defines its figures and measures them."""

from __future__ import annotations

import os
import re
import shlex
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from hpcscientist.bench.figure import Figure, RunCosts, TimedCall, measure
from hpcscientist.bench.slurm import instant, ours
from hpcscientist.bench.slurm.ground import SlurmGround, marked
from hpcscientist.campaign.dispatcher import make_batch
from hpcscientist.errors import SchedulerError, UsageError
from hpcscientist.execution.backends.slurm import batches, submit
from hpcscientist.execution.backends.slurm.commands import Slurm
from hpcscientist.execution.backends.slurm.sweep import live_jobs
from hpcscientist.execution.sandbox import container, host
from hpcscientist.execution.sandbox.container import BEGUN
from hpcscientist.ports import Tell
from hpcscientist.records.site import Site
from hpcscientist.records.trial import Isolation, TrialSpec
from hpcscientist.results.compact import compact

# Measures the driver's processor time and memory as the number of trials grows.
#
# Trials are scored as soon as their array task starts, so that only the driver is measured. All
# of its work is real: journal, trial folders, arrays, squeue and sacct calls, reading result
# files.


GROWTH = 1.0  # relative to linear growth
_DRIVER_DEADLINE_S = 1.0  # expected seconds of a trial: short, so that many share an array task
_PACKED_FROM = 1000


def driver_figures(root: Path, site: Site, sizes: Sequence[int]) -> list[Figure]:
    """Drive each number of trials in its own process, below a folder that nodes see.

    A thousand trials or more are packed; fewer get an array task each. Raises CalledProcessError if
    one fails; the reason is on stderr.
    """
    taken = {}
    for size in sizes:
        with marked(site) as mark:
            arguments = (str(root), mark, site.model_dump_json(), size)
            taken[size] = measure({"": TimedCall(drive_trials, arguments)}, runs=1)[""]
    return compare_driver(taken)


def drive_trials(root: str, mark: str, site: str, trials: int) -> None:
    """Drive trials to their end. `mark` is the campaign's id, `site` the profile as JSON."""
    profile = Site.model_validate_json(site)
    if trials < _PACKED_FROM:
        slurm = profile.slurm.model_copy(update={"pack_s": 0.0})
        profile = profile.model_copy(update={"slurm": slurm})
    ground = SlurmGround(Path(root) / f"driver-{trials}", mark, profile, seconds=0.0)
    ground.prepare()
    ours.run(ground, ground.specs(trials, _DRIVER_DEADLINE_S), module=instant.MODULE)


def compare_driver(taken: Mapping[int, RunCosts]) -> list[Figure]:
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


# Runs a bare `sbatch --array` of the same commands, with which trials are compared.
#
# Each array task runs the exact container command of a trial and nothing else: no worker, no
# limits, no scoring. It requests the same resources from Slurm, and may write to the same
# places.


_TASK = "@TASK@"
_LOOK_S, _ASK_S = 0.05, 15.0


def run_bare(
    ground: SlurmGround, specs: Sequence[TrialSpec], slurm: Slurm, limit_s: float
) -> float:
    """Run one array task per trial; return the seconds from before `sbatch` to the end of the last.

    Raises SchedulerError if one fails, or if they have not ended within `limit_s`.
    """
    make_places(ground, len(specs))
    path = ground.root / "bare.sh"
    begin = time.perf_counter()
    path.write_text(bare_script(ground, specs, command(ground, specs[0])))
    slurm.run("sbatch", str(path))
    done, asked, is_over = _done(ground), begin, False
    while len(os.listdir(done)) < len(specs):  # noqa: PTH208 (speed)
        now = time.perf_counter()
        if is_over or now - begin > limit_s:
            raise SchedulerError(_said(ground, len(specs)))
        if now - asked > _ASK_S:
            asked, is_over = now, not live_jobs(slurm, ground.campaign_id)
        time.sleep(_LOOK_S)
    seconds = time.perf_counter() - begin
    if any(file.read_text().strip() != "0" for file in done.iterdir()):
        raise SchedulerError(_said(ground, len(specs)))
    return seconds


def _said(ground: SlurmGround, count: int) -> str:
    """Return a message about an array that failed."""
    good = [file for file in _done(ground).iterdir() if file.read_text().strip() == "0"]
    logs = (file.read_text(errors="replace") for file in sorted(ground.root.glob("*.out")))
    lines = [line for log in logs for line in log.splitlines() if line and BEGUN not in line]
    return (
        f"{count - len(good)} of {count} tasks of the bare array did not end well: "
        f"{lines[-1] if lines else 'they said nothing'}; is {ground.root.parent} on a file system "
        "that nodes share? `hpcsci doctor` says what is lacking"
    )


def bare_script(ground: SlurmGround, specs: Sequence[TrialSpec], command: Sequence[str]) -> str:
    """Return the array's script; `@TASK@` in `command` is the task's number."""
    tasks = [[spec] for spec in specs]
    batch = batches.record_of(ground.campaign_id, ground.run.trials, make_batch(tasks), time.time())
    stamp = [str(_done(ground) / _TASK)]
    line = f"{shell(command)}; echo $? >{shell(stamp)}"
    return submit.array_script(ground.site, batch, ground.root, line)


def shell(command: Sequence[str]) -> str:
    """Return a command as a shell line in which `@TASK@` is the task's number."""
    return re.sub(_TASK, "'\"$SLURM_ARRAY_TASK_ID\"'", " ".join(map(_quoted, command)))


def _quoted(word: str) -> str:
    return "'" + word.replace("'", "'\"'\"'") + "'" if _TASK in word else shlex.quote(word)


def command(ground: SlurmGround, spec: TrialSpec, number: str = _TASK) -> list[str]:
    """Return a trial's own command, in the folder with this number."""
    here = place_of(ground, number)
    out, work = here / "out", here / "work"
    if spec.isolation is Isolation.NONE:
        values = host.settings(spec, str(work))
        given = (f"{name}={value}" for name, value in sorted(values.items()))
        return ["env", *given, *host.command(spec, ground.code, out)]
    places = container.Places(str(ground.image), ground.code, ground.data, out, work)
    return container.apptainer_command(spec, places, {}, is_root=os.geteuid() == 0)


def make_places(ground: SlurmGround, count: int) -> None:
    """Create the folders that a trial's worker would create, before the clock starts."""
    _done(ground).mkdir()
    for number in range(count):
        for name in ("out", "work"):
            (place_of(ground, str(number)) / name).mkdir(parents=True)
    if os.geteuid() == 0 and ground.image is not None:
        container.hand_over((ground.root / "bare",))


def place_of(ground: SlurmGround, number: str) -> Path:
    """Return one of the folders that `make_places` creates."""
    return ground.root / "bare" / number


def _done(ground: SlurmGround) -> Path:
    return ground.root / "done"


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
class SlurmOptions:
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


def figures(options: SlurmOptions, tell: Tell = lambda text: None) -> list[Figure]:
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
                found += driver_figures(root, options.site, sorted(options.sizes))
    return found


def measure_sweep(options: SlurmOptions, root: Path, sweep: Sweep, tell: Tell) -> list[Figure]:
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


def _bare(options: SlurmOptions, root: Path, sweep: Sweep) -> float:
    slurm, limit_s = Slurm.of(options.site), sweep.trials * sweep.seconds + _PATIENCE_S
    for name, count in (("first", 1), ("all", sweep.trials)):
        with _ground(options, root / name, sweep.seconds) as ground:
            seconds = run_bare(ground, ground.specs(count, _DEADLINE_S), slurm, limit_s)
    return seconds


@contextmanager
def _ground(options: SlurmOptions, root: Path, seconds: float) -> Iterator[SlurmGround]:
    with marked(options.site) as mark:
        ground = SlurmGround(root, mark, options.site, seconds, options.image)
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
