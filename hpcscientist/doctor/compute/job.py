"""The tiny job that examines a compute node: submits it like a trial, waits, and cleans up."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from dataclasses import dataclass

from pydantic import ValidationError

from hpcscientist.doctor.compute.records import DoctorFolder, NodeReport
from hpcscientist.errors import SchedulerRefused, SchedulerSilent
from hpcscientist.execution.backends.slurm import submit
from hpcscientist.execution.backends.slurm.batches import ArrayRecord
from hpcscientist.execution.backends.slurm.commands import Slurm, unshadowed
from hpcscientist.execution.backends.slurm.sweep import sweep_jobs
from hpcscientist.execution.backends.slurm.watching.queue import QueueRow, queued
from hpcscientist.execution.backends.slurm.watching.states import Phase, can_never_run
from hpcscientist.records.site import Site
from hpcscientist.records.trial import RunId

MODULE = "hpcscientist.doctor.compute.probe"
_LOOK_S, _ASK_S = 0.2, 3.0  # between looks at the shared folder; at the queue
_SEEN_S = 5.0
_MINUTES, _MEMORY_MB = 5, 1024
_SWEEP_S = 60.0
_GIVE = "give what your site needs: --account, --partition, --qos, --constraint or a --site profile"


@dataclass(frozen=True, slots=True)
class JobResult:
    """The result of the job: its `report`, or None with the reason in `said`.

    `is_lacking`: a longer wait would not have helped. Seconds: `taken_s` from sbatch to the
    report, `hidden_s` from the node's writing of the report until we saw it, by two clocks.
    """

    said: str = ""
    mend: str = ""
    is_lacking: bool = False
    taken_s: float = 0.0
    hidden_s: float = 0.0
    report: NodeReport | None = None


def script(site: Site, folder: DoctorFolder, gpus: int) -> str:
    """Return the job's script: an array of one task, like that of a trial."""
    batch = ArrayRecord(
        batch_id="probe",
        campaign_id=folder.root.name,
        trials_folder=str(folder.root),
        tasks=((RunId(trial_id="rehearsal", run=1),),),
        cpus=1,
        gpus=gpus,
        memory_mb=_MEMORY_MB,
        minutes=_MINUTES,
        created_at=time.time(),
    )
    return submit.script(site, batch, folder.root, MODULE)


def run(
    slurm: Slurm,
    site: Site,
    folder: DoctorFolder,
    gpus: int,
    wait_s: float,
    sleep: Callable[[float], object] = time.sleep,
) -> JobResult:
    """Submit the job and wait for its report, at most `wait_s` seconds.

    Always removes the job from the queue afterwards, also on Ctrl-C. Raises OSError when the
    folder cannot be written.
    """
    text = script(site, folder, gpus)
    folder.script.write_text(text)
    try:
        try:
            slurm.submit(str(folder.script), environment=unshadowed(os.environ, text))
        except SchedulerSilent:
            if not queued(slurm, folder.root.name):  # Slurm may have made the job all the same
                raise
        return _Watch(slurm, site, folder, wait_s, sleep).follow()
    except SchedulerRefused as error:
        return JobResult(
            said=f"Slurm refuses it: {error}",
            mend=_GIVE,
            is_lacking=True,
        )
    except SchedulerSilent as error:
        return JobResult(said=f"Slurm does not answer: {error}", mend="try again later")
    finally:
        with contextlib.suppress(SchedulerSilent, SchedulerRefused):
            sweep_jobs(slurm, folder.root.name, _SWEEP_S)


@dataclass
class _Watch:
    slurm: Slurm
    site: Site
    folder: DoctorFolder
    wait_s: float
    sleep: Callable[[float], object]

    def follow(self) -> JobResult:
        begin = asked = time.monotonic()
        ended: float | None = None
        row: QueueRow | None = None
        while True:
            now = time.monotonic()
            report = self._report()
            if report is not None:
                hidden_s = time.time() - report.written_at
                self._let_end()
                return JobResult(taken_s=now - begin, hidden_s=hidden_s, report=report)
            if ended is not None:
                if now - ended > self._patience_s():
                    return self._silent_end(row)
            elif now - asked >= _ASK_S:
                asked, row = now, self._row()
                if row is None or row.phase is Phase.ENDED:
                    ended = now
                elif row.phase is Phase.WAITING and can_never_run(row.reason, row.partition):
                    return self._stuck(row)
                elif now - begin > self.wait_s:
                    return self._late(row)
            self.sleep(_LOOK_S)

    def _patience_s(self) -> float:
        """Return how long the report may stay invisible: less if the job's log is visible."""
        visible_s = self.site.watch.visible_s
        return min(visible_s, _SEEN_S) if self.folder.said() else visible_s

    def _row(self) -> QueueRow | None:
        rows = queued(self.slurm, self.folder.root.name)
        return rows[0] if rows else None

    def _report(self) -> NodeReport | None:
        next(self.folder.root.iterdir(), None)  # makes NFS look again
        try:
            return NodeReport.model_validate_json(self.folder.report.read_bytes())
        except (FileNotFoundError, ValidationError):
            return None

    def _let_end(self) -> None:
        """Give the job a moment to end by itself, so that accounting says COMPLETED."""
        until = time.monotonic() + _ASK_S
        while time.monotonic() < until:
            row = self._row()
            if row is None or row.phase is Phase.ENDED:
                return
            self.sleep(_LOOK_S)

    def _silent_end(self, row: QueueRow | None) -> JobResult:
        how = f"{row.state} on {row.node or 'no node'}" if row else "it left the queue"
        said = self.folder.said()
        if said:
            return JobResult(
                said=f"the job ended ({how}) without a report: {said}",
                mend="install this Python and package where nodes can use them, or set "
                "python, modules or setup in the site profile's [slurm]",
                is_lacking=True,
            )
        return JobResult(
            said=f"the job ended ({how}) and left no file in {self.folder.root.parent}",
            mend="give a --run-dir on a file system that login and compute nodes share",
            is_lacking=True,
        )

    def _stuck(self, row: QueueRow) -> JobResult:
        return JobResult(
            said=f"the job would wait forever: {row.reason}",
            mend=_GIVE,
            is_lacking=True,
        )

    def _late(self, row: QueueRow) -> JobResult:
        if row.phase is Phase.WAITING:
            return JobResult(
                said=f"did not start within {self.wait_s:g} s ({row.reason}); it was cancelled",
                mend="try again with a longer --wait, or another --partition",
            )
        said = self.folder.said() or "it has printed nothing"
        return JobResult(
            said=f"ran on {row.node}, but did not end within {self.wait_s:g} s: {said}",
            mend="try again with a longer --wait; the node or the file system may be slow",
        )
