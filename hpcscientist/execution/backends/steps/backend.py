"""Trials as steps inside an allocation that is held anyway, one `srun` a trial.

Steps overlap with those that serve the models: they share its CPUs, memory and GPUs, and Slurm
makes none of them wait. So how many run at once is ours to bound (`slots`), and so is the node:
the one with the fewest trials. GPUs are given to one trial at a time, and none of the engines'.

Nothing outlives the driver for long: when its job ends, Slurm ends the steps. What a driver that
was killed left in the same job is ended before its trial is started again.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from pathlib import Path

from hpcscientist.execution import folders, presence, scratch
from hpcscientist.execution.backends.process_backend import ProcessBackend
from hpcscientist.execution.backends.slots import Slots
from hpcscientist.execution.backends.slurm import naming
from hpcscientist.execution.backends.slurm.commands import Slurm
from hpcscientist.execution.backends.steps.command import Allocation, command, worker_line
from hpcscientist.execution.backends.steps.gpus import Pool, shown
from hpcscientist.execution.backends.steps.process import Step
from hpcscientist.files.rundir import RunPaths, TrialPaths
from hpcscientist.records.runs import Answer, Batch, Ended, EndState, run_of
from hpcscientist.records.site import Site
from hpcscientist.records.trial import TrialSpec
from hpcscientist.system import processes

_POLL_S = 0.1
_SLACK_S = 120.0  # our own deadlines come first; this is for a worker that hangs


class StepsBackend(ProcessBackend):
    """Runs at most `slots` trials at once, first come first served; see `ports.backend`.

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
                await asyncio.sleep(_POLL_S)
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
            await asyncio.sleep(_POLL_S)
