"""Run trials as steps inside an existing allocation, one `srun` per trial.

The steps overlap with those that serve the models: they share the allocation's CPUs, memory and
GPUs, and Slurm makes none of them wait. So this backend limits how many run at once (`slots`) and
picks the node: the one with the fewest trials. Each trial has its GPUs to itself, and shares none
with a model server.

Nothing outlives the driver for long: when its job ends, Slurm ends the steps. If a killed driver
left a step in the same job, that step is ended before its trial is started again.
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
from hpcscientist.execution.backends.slurm import commands
from hpcscientist.execution.backends.slurm.commands import Slurm
from hpcscientist.files.atomic import NO_SPACE, read_tail
from hpcscientist.files.rundir import RunPaths, TrialPaths
from hpcscientist.records.site import Site
from hpcscientist.records.trial import Answer, Batch, Ended, EndState, Limits, TrialSpec, run_of
from hpcscientist.system import processes

# The GPUs that a trial may use on a node: some of those kept for trials, each for one at a time.
#
# Slurm cannot assign them: overlapping steps all get the same GPUs. So a trial's step gets all that
# the job has on its node, and CUDA_VISIBLE_DEVICES shows it only its own.


@dataclass(frozen=True, slots=True)
class NodeGpus:
    """GPUs per node of a job: `held` in total, the last `kept` for trials, the rest for serving."""

    held: int = 0
    kept: int = 0


NO_GPUS = NodeGpus()


class GpuPool:
    """The GPUs for trials by node, as positions among those that the job holds there."""

    def __init__(self, nodes: Sequence[str], gpus: NodeGpus) -> None:
        self._gpus = gpus
        self._free = {node: list(range(gpus.held - gpus.kept, gpus.held)) for node in nodes}

    def with_room(self, nodes: Collection[str], count: int) -> list[str]:
        """Return which of `nodes` have `count` free GPUs. Raises SchedulerRefused if none ever can.

        If no more trials run at once than the kept GPUs allow, some node always qualifies.
        """
        if count > self._gpus.kept:
            raise SchedulerRefused(
                f"serving.trials_inside: a trial needs {count} GPUs, and {self._gpus.kept} of each "
                "node are kept for trials; raise gpus in the site profile's [controller]"
            )
        return [node for node in nodes if len(self._free[node]) >= count]

    def take(self, node: str, count: int) -> tuple[int, ...]:
        """Take GPUs of a node that has `count` free."""
        free = self._free[node]
        taken, free[:] = tuple(free[:count]), free[count:]
        return taken

    def give_back(self, node: str, taken: Collection[int]) -> None:
        """Release the GPUs that a trial had."""
        self._free[node] = sorted({*self._free[node], *taken})


def shown(taken: Sequence[int], held: int) -> str:
    """Return the start of a shell line that shows only these GPUs to the rest; "" for none.

    It keeps Slurm's own numbers of the GPUs, if Slurm set them.
    """
    if not taken:
        return ""
    numbers = ",".join(map(str, range(held)))
    fields = ",".join(str(place + 1) for place in taken)
    strict = "-s " if held > 1 else ""  # -s: print nothing, not the whole line, for a list of one
    listed = f'$(echo "${{CUDA_VISIBLE_DEVICES:-{numbers}}}" | cut {strict}-d, -f{fields})'
    # Number GPUs by bus, as the model servers on the other GPUs do.
    order = 'CUDA_DEVICE_ORDER="${CUDA_DEVICE_ORDER:-PCI_BUS_ID}"'
    return f"export {order} CUDA_VISIBLE_DEVICES={listed}; "


# The command that starts a trial as a step of a running job.


@dataclass(frozen=True, slots=True)
class JobAllocation:
    """A running job and its nodes, by Slurm's names."""

    job_id: str
    nodes: tuple[str, ...]
    gpus: NodeGpus = NO_GPUS


def find_allocation(slurm: Slurm, job_id: str, gpus: NodeGpus = NO_GPUS) -> JobAllocation:
    """Ask Slurm for a running job's nodes. Raises SchedulerError, also if it has none."""
    listed = slurm.run("squeue", "--noheader", f"--jobs={job_id}", "--format=%N").strip()
    if not listed:
        raise SchedulerRefused(f"job {job_id} has no nodes: it does not run")
    names = slurm.run("scontrol", "show", "hostnames", listed).split()
    return JobAllocation(job_id, tuple(names), gpus)


def command(
    site: Site, allocation: JobAllocation, node: str, limits: Limits, name: str, line: str
) -> list[str]:
    """Return the command that runs a shell line as a step on a node.

    The worker's own memory is added to the candidate's, as in an array.
    """
    memory = limits.memory_mb + site.slurm.memory_margin_mb
    asked = {
        "mem": f"--mem={memory}M",
        "mem-per-cpu": f"--mem-per-cpu={-(-memory // limits.cpus)}M",
        "none": "",
    }[site.slurm.memory]
    # Without --gres a step sees all GPUs of its job. `shown` limits a trial to its own ones.
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
    """Return the shell line that runs a step's worker; `before`: what the shell does first."""
    python = site.slurm.python or shlex.quote(sys.executable)
    words = shlex.join([str(trial), str(run), str(folder)])
    return f"{before}exec {python} -P -u -m {module} {words}"


# One `srun` as a process of the driver: its start, its end, its folder.
#
# The worker writes its step's number into the folder. `scancel` asks it to stop, because `srun`
# turns a SIGTERM that it receives into a SIGKILL for its step.

STEP_FILE = "step"  # in a step's folder: JOB.STEP, written by the worker
_LOG = "log"
_LOG_TAIL = 16 * 1024

_POLL_S = 0.1
_PATIENCE_S = 10.0  # how long a worker has to stop before it is killed
_REMIND_S = 2.0


class SrunStep:
    """One `srun` and its folder with its output, and its step's number once the worker runs."""

    def __init__(self, folder: Path, slurm: Slurm) -> None:
        self._folder, self._slurm = folder, slurm
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def went_well(self) -> bool:
        """Return whether it ended with exit code 0."""
        return self._process is not None and self._process.poll() == 0

    def start(self, command: Sequence[str]) -> None:
        """Start srun, unaffected by the terminal's Ctrl-C.

        Raises DiskFull, OSError and SchedulerRefused (no srun here).
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
        """Return whether srun is alive."""
        return self._process is not None and self._process.poll() is None

    def said(self) -> str:
        """Return the end of the output of srun and the worker."""
        return read_tail(self._folder / _LOG, _LOG_TAIL) or "nothing"

    async def ended(self, longest_s: float) -> None:
        """Wait until the step ends; stop it after `longest_s` seconds."""
        until = time.monotonic() + longest_s
        while self.runs():
            if time.monotonic() > until:
                await self.stop()
                return
            await asyncio.sleep(_POLL_S)
        if self._process is not None and self._process.returncode < 0:
            await self._signal("KILL")  # srun was killed, but its step may still run

    async def stop(self) -> None:
        """End the step: ask the worker to stop, then kill it if it does not."""
        begin = time.monotonic()
        reminded = float("-inf")
        while self.runs():
            now = time.monotonic()
            if now - begin > 2 * _PATIENCE_S and self._process is not None:
                self._process.kill()  # Slurm does not answer; the step ends with the job
            elif now - reminded > _REMIND_S:
                reminded = now
                await self._signal("TERM" if now - begin < _PATIENCE_S else "KILL")
            await asyncio.sleep(_POLL_S)

    async def end_former(self) -> None:
        """End what a killed driver left of this run in the same allocation."""
        if self._folder.exists():
            await self._signal("KILL")
            folders.remove(self._folder)

    async def _signal(self, name: str) -> None:
        try:
            number = (self._folder / STEP_FILE).read_text().strip()
        except OSError:
            number = ""
        if number:
            with contextlib.suppress(SchedulerError):  # it has ended, or we signal again
                await asyncio.to_thread(self._slurm.run, "scancel", f"--signal={name}", number)
        elif self._process is not None and self.runs():
            self._process.terminate()  # no worker yet: srun ends its step at once


_TURN_S = 0.1
_SLACK_S = 120.0  # beyond the worker's own deadlines, for a worker that hangs


class StepsBackend(ProcessBackend):
    """Runs at most `slots` trials at once, first come, first served; see `ports`.

    A step runs `python -m MODULE TRIAL_FOLDER RUN STEP_FOLDER`, with `module` for MODULE.
    """

    def __init__(
        self,
        paths: RunPaths,
        site: Site,
        allocation: JobAllocation,
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
        self._gpus = GpuPool(allocation.nodes, allocation.gpus)
        self._avoided: frozenset[str] = frozenset()

    async def submit(self, batch: Batch) -> Answer:
        """Start the trials of a batch; see `ports.Backend`."""
        self._avoided = frozenset(batch.avoid)
        return await super().submit(batch)

    async def follow(self, trial: TrialSpec) -> Ended:
        """Run a trial as a step, after ending what was left of it. See `ProcessBackend`."""
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
        step = SrunStep(folder, self._slurm)
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
        """Remove what a step left on this node; on other nodes Slurm ends its processes."""
        if not paths.result.exists():
            processes.end_marked(trial.provenance.campaign_id, trial.trial_id)
            scratch.remove_of(paths)
        folders.remove(folder)

    def _least_busy(self, gpus: int) -> str:
        """Return the node with the fewest trials; avoided nodes only if there is no other."""
        nodes = self._allocation.nodes
        if gpus:
            nodes = tuple(self._gpus.with_room(nodes, gpus))
        good = [node for node in nodes if node not in self._avoided] or list(nodes)
        return min(good, key=lambda node: self._busy[node])

    def _command(
        self, trial: TrialSpec, folder: Path, node: str, gpus: tuple[int, ...]
    ) -> list[str]:
        name = commands.job_name(self._campaign_id, trial.trial_id)
        root = self._paths.trial(trial.trial_id).root.absolute()
        before = shown(gpus, self._allocation.gpus.held)
        line = worker_line(self._site, self._module, root, trial.run, folder, before)
        return command(self._site, self._allocation, node, trial.limits, name, line)

    async def _seen(self, paths: TrialPaths, step: SrunStep) -> None:
        """Wait for the result of a worker that ended well: another node wrote it, so it may lag."""
        until = time.monotonic() + self._site.watch.visible_s
        while step.went_well and not paths.result.exists() and time.monotonic() < until:
            list(paths.root.iterdir())  # makes some network file systems refresh the folder
            await asyncio.sleep(_TURN_S)
