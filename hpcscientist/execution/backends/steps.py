"""Trials as steps inside an allocation that is held anyway, one `srun` a trial.

Steps overlap with those that serve the models: they share its CPUs, memory and GPUs, and Slurm
makes none of them wait. So how many run at once is ours to bound (`slots`), and so is the node:
the one with the fewest trials. GPUs are given to one trial at a time, and none of the engines'.

Nothing outlives the driver for long: when its job ends, Slurm ends the steps. What a driver that
was killed left in the same job is ended before its trial is started again.
"""

from __future__ import annotations

import asyncio
import contextlib
import shlex
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from hpcscientist.config.partitions import of_controller
from hpcscientist.errors import DiskFull, SchedulerError, SchedulerRefused
from hpcscientist.execution import folders, presence, scratch
from hpcscientist.execution.backends.process_backend import ProcessBackend
from hpcscientist.execution.backends.slots import Slots
from hpcscientist.execution.backends.slurm import naming
from hpcscientist.execution.backends.slurm.commands import Slurm
from hpcscientist.files.atomic import NO_SPACE, read_tail
from hpcscientist.files.rundir import RunPaths, TrialPaths
from hpcscientist.records.site import Site
from hpcscientist.records.trial import Answer, Batch, Ended, EndState, Limits, TrialSpec, run_of
from hpcscientist.system import processes

# Which GPUs of a node a trial may use: of those that are kept for trials, each for one at a time.
#
# Slurm cannot say: steps that overlap are all given the same GPUs. So a trial's step is given all
# that the job has on its node, and shown its own alone.


@dataclass(frozen=True, slots=True)
class NodeGpus:
    """GPUs that a job holds of each of its nodes; serving has the first, trials the last `kept`."""

    held: int = 0
    kept: int = 0


NO_GPUS = NodeGpus()


class Pool:
    """The GPUs for trials, node by node, by their places among those that the job holds."""

    def __init__(self, nodes: Sequence[str], gpus: NodeGpus) -> None:
        self._gpus = gpus
        self._free = {node: list(range(gpus.held - gpus.kept, gpus.held)) for node in nodes}

    def with_room(self, nodes: Collection[str], count: int) -> list[str]:
        """Return those of some nodes that have so many free. Raises SchedulerRefused if none can.

        With as many trials at once as the kept GPUs hold, there always is such a node of all.
        """
        if count > self._gpus.kept:
            raise SchedulerRefused(
                f"serving.trials_inside: a trial needs {count} GPUs, and {self._gpus.kept} of each "
                "node are kept for trials; raise gpus in the site profile's [controller]"
            )
        return [node for node in nodes if len(self._free[node]) >= count]

    def take(self, node: str, count: int) -> tuple[int, ...]:
        """Take GPUs of a node that has so many free."""
        free = self._free[node]
        taken, free[:] = tuple(free[:count]), free[count:]
        return taken

    def give_back(self, node: str, taken: Collection[int]) -> None:
        """Return what a trial had."""
        self._free[node] = sorted({*self._free[node], *taken})


def shown(taken: Sequence[int], held: int) -> str:
    """Return the beginning of a shell's line that shows what follows these GPUs alone; "" for none.

    Slurm's own numbers of them are kept, where it gave some.
    """
    if not taken:
        return ""
    numbers = ",".join(map(str, range(held)))
    fields = ",".join(str(place + 1) for place in taken)
    strict = "-s " if held > 1 else ""  # where there are fewer than asked for: none
    listed = f'$(echo "${{CUDA_VISIBLE_DEVICES:-{numbers}}}" | cut {strict}-d, -f{fields})'
    # By the numbers of the bus, as the engines on the other GPUs have it.
    order = 'CUDA_DEVICE_ORDER="${CUDA_DEVICE_ORDER:-PCI_BUS_ID}"'
    return f"export {order} CUDA_VISIBLE_DEVICES={listed}; "


# The command that starts a trial as a step of a job that runs.


@dataclass(frozen=True, slots=True)
class Allocation:
    """A job that runs and its nodes, by Slurm's names."""

    job_id: str
    nodes: tuple[str, ...]
    gpus: NodeGpus = NO_GPUS


def find_allocation(slurm: Slurm, job_id: str, gpus: NodeGpus = NO_GPUS) -> Allocation:
    """Ask Slurm for a running job's nodes. Raises SchedulerError, also when it has none."""
    listed = slurm.run("squeue", "--noheader", f"--jobs={job_id}", "--format=%N").strip()
    if not listed:
        raise SchedulerRefused(f"job {job_id} has no nodes: it does not run")
    names = slurm.run("scontrol", "show", "hostnames", listed).split()
    return Allocation(job_id, tuple(names), gpus)


def command(
    site: Site, allocation: Allocation, node: str, limits: Limits, name: str, line: str
) -> list[str]:
    """Return the command that runs a line of the shell as a step on a node.

    The worker's own memory comes on top of the candidate's, as in an array.
    """
    memory = limits.memory_mb + site.slurm.memory_margin_mb
    asked = {
        "mem": f"--mem={memory}M",
        "mem-per-cpu": f"--mem-per-cpu={-(-memory // limits.cpus)}M",
        "none": "",
    }[site.slurm.memory]
    # Without a request of its own a step sees all GPUs of its job; which are its own, see `gpus`.
    held = of_controller(site).gres.format(gpus=allocation.gpus.held)
    gres = f"--gres={held}" if limits.gpus else "--gres=none"
    options = [
        f"--jobid={allocation.job_id}",
        f"--job-name={name}",
        "--overlap",
        "--exact",
        "--nodes=1",
        "--ntasks=1",
        f"--nodelist={node}",
        f"--cpus-per-task={limits.cpus}",
        asked,
        gres if allocation.gpus.held else "",
        "--mpi=none",
        "--input=none",
        "--export=ALL",
        "--propagate=NONE",
        "--chdir=/",
    ]
    return ["srun", *(option for option in options if option), "/bin/sh", "-c", line]


def worker_line(
    site: Site, module: str, trial: Path, run: int, folder: Path, before: str = ""
) -> str:
    """Return the line of the shell that is a step's worker; `before`: what the shell does first."""
    python = site.slurm.python or shlex.quote(sys.executable)
    words = shlex.join([str(trial), str(run), str(folder)])
    return f"{before}exec {python} -P -u -m {module} {words}"


# One `srun` as a process of the driver: its start, its end, its folder.
#
# The worker writes its step's number into the folder, and it is asked to stop by `scancel`,
# because `srun` turns a SIGTERM of its own into a SIGKILL for its step.

STEP_FILE = "step"  # in a step's folder: JOB.STEP, written by the worker
_LOG = "log"
_LOG_TAIL = 16 * 1024

_POLL_S = 0.1
_PATIENCE_S = 10.0  # for a worker that was asked to stop; then it is killed
_REMIND_S = 2.0


class Step:
    """One `srun`, with its folder: what it says, and its step's number once the worker runs."""

    def __init__(self, folder: Path, slurm: Slurm) -> None:
        self._folder, self._slurm = folder, slurm
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def went_well(self) -> bool:
        """Whether it ended with exit code 0."""
        return self._process is not None and self._process.poll() == 0

    def start(self, command: Sequence[str]) -> None:
        """Start it, apart from the terminal's Ctrl-C. Raises DiskFull, OSError and
        SchedulerRefused (no srun here).
        """
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with (self._folder / _LOG).open("wb") as log:
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
        except FileNotFoundError as error:
            raise SchedulerRefused(
                "there is no srun on PATH: load your site's Slurm module, or leave "
                "serving.trials_inside out"
            ) from error
        except OSError as error:
            if error.errno in NO_SPACE:
                raise DiskFull(f"no space to start a step in {self._folder}: make room") from error
            raise

    def runs(self) -> bool:
        """Tell whether srun is alive."""
        return self._process is not None and self._process.poll() is None

    def said(self) -> str:
        """The end of what srun and the worker printed."""
        return read_tail(self._folder / _LOG, _LOG_TAIL) or "nothing"

    async def ended(self, longest_s: float) -> None:
        """Wait for its end; a worker that hangs for longer is stopped."""
        until = time.monotonic() + longest_s
        while self.runs():
            if time.monotonic() > until:
                await self.stop()
                return
            await asyncio.sleep(_POLL_S)
        if self._process is not None and self._process.returncode < 0:
            await self._signal("KILL")  # srun was killed; its step need not be

    async def stop(self) -> None:
        """End the step: the worker is asked first, and killed after a while."""
        begin = time.monotonic()
        reminded = float("-inf")
        while self.runs():
            now = time.monotonic()
            if now - begin > 2 * _PATIENCE_S and self._process is not None:
                self._process.kill()  # Slurm does not answer; the job's end ends the step
            elif now - reminded > _REMIND_S:
                reminded = now
                await self._signal("TERM" if now - begin < _PATIENCE_S else "KILL")
            await asyncio.sleep(_POLL_S)

    async def end_former(self) -> None:
        """End what a driver that was killed left of this run in the same allocation."""
        if self._folder.exists():
            await self._signal("KILL")
            folders.remove(self._folder)

    async def _signal(self, name: str) -> None:
        try:
            number = (self._folder / STEP_FILE).read_text().strip()
        except OSError:
            number = ""
        if number:
            with contextlib.suppress(SchedulerError):  # it has ended, or we ask again
                await asyncio.to_thread(self._slurm.run, "scancel", f"--signal={name}", number)
        elif self._process is not None and self.runs():
            self._process.terminate()  # no worker yet: srun ends its step at once


_TURN_S = 0.1
_SLACK_S = 120.0  # our own deadlines come first; this is for a worker that hangs


class StepsBackend(ProcessBackend):
    """Runs at most `slots` trials at once, first come first served; see `ports`.

    `module` is what a step runs: `python -m MODULE TRIAL_FOLDER RUN STEP_FOLDER`.
    """

    def __init__(
        self,
        paths: RunPaths,
        site: Site,
        allocation: Allocation,
        campaign_id: str,
        module: str,
        *,
        slots: int,
    ) -> None:
        super().__init__(slots)
        self._paths, self._site, self._allocation = paths, site, allocation
        self._campaign_id, self._module = campaign_id, module
        self._slurm = Slurm.of(site)
        self._slots = Slots(slots)
        self._busy: Counter[str] = Counter()
        self._gpus = Pool(allocation.nodes, allocation.gpus)
        self._avoided: frozenset[str] = frozenset()

    async def submit(self, batch: Batch) -> Answer:
        """Start the trials of a batch; see the port."""
        self._avoided = frozenset(batch.avoid)
        return await super().submit(batch)

    async def follow(self, trial: TrialSpec) -> Ended:
        """Run a trial as a step; what was left of it is ended before. See `ProcessBackend`."""
        paths = self._paths.trial(trial.trial_id)
        folder = (self._paths.submission / f"{trial.trial_id}-{trial.run}").absolute()
        await self._slots.take()
        try:
            node = self._least_busy(trial.limits.gpus)
        except BaseException:
            self._slots.give_back()
            raise
        self._busy[node] += 1
        gpus = self._gpus.take(node, trial.limits.gpus)
        step = Step(folder, self._slurm)
        said = ""
        try:
            await step.end_former()
            before = presence.read(paths)
            step.start(self._command(trial, folder, node, gpus))
            while step.runs() and presence.read(paths) == before:  # noqa: ASYNC110 (a file)
                await asyncio.sleep(_TURN_S)
            self.began(trial)
            await step.ended(trial.limits.deadline_s + trial.limits.scorer_s + _SLACK_S)
            await self._seen(paths, step)
            if not paths.result.exists():
                said = step.said()
        except BaseException:
            await step.stop()
            raise
        finally:
            self._clear_up(trial, paths, folder)
            self._busy[node] -= 1
            self._gpus.give_back(node, gpus)
            self._slots.give_back()
        return Ended(
            run_of(trial),
            EndState.ENDED,
            ended_at=time.time(),
            began_at=presence.began(paths, trial.run),
            node=node,
            said=said,
        )

    def _clear_up(self, trial: TrialSpec, paths: TrialPaths, folder: Path) -> None:
        """Remove what a step left here; on other nodes Slurm ends what it started."""
        if not paths.result.exists():
            processes.end_marked(trial.provenance.campaign_id, trial.trial_id)
            scratch.remove_of(paths)
        folders.remove(folder)

    def _least_busy(self, gpus: int) -> str:
        """The node with the fewest trials, of those that are not to be avoided if there are any."""
        nodes = self._allocation.nodes
        if gpus:
            nodes = tuple(self._gpus.with_room(nodes, gpus))
        good = [node for node in nodes if node not in self._avoided] or list(nodes)
        return min(good, key=lambda node: self._busy[node])

    def _command(
        self, trial: TrialSpec, folder: Path, node: str, gpus: tuple[int, ...]
    ) -> list[str]:
        name = naming.job_name(self._campaign_id, trial.trial_id)
        root = self._paths.trial(trial.trial_id).root.absolute()
        before = shown(gpus, self._allocation.gpus.held)
        line = worker_line(self._site, self._module, root, trial.run, folder, before)
        return command(self._site, self._allocation, node, trial.limits, name, line)

    async def _seen(self, paths: TrialPaths, step: Step) -> None:
        """Wait for the result of a worker that ended well: another node wrote it."""
        until = time.monotonic() + self._site.watch.visible_s
        while step.went_well and not paths.result.exists() and time.monotonic() < until:
            list(paths.root.iterdir())  # makes some network file systems look again
            await asyncio.sleep(_TURN_S)
