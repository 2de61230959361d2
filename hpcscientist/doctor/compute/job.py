"""A tiny job that examines a compute node: submitted as trials are, waited for, cleaned up."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from hpcscientist.doctor.compute.records import NodeReport
from hpcscientist.errors import SchedulerRefused, SchedulerSilent
from hpcscientist.execution.backends.slurm import submit
from hpcscientist.execution.backends.slurm.batches import ArrayRecord
from hpcscientist.execution.backends.slurm.commands import Slurm, unshadowed
from hpcscientist.execution.backends.slurm.sweep import sweep_jobs
from hpcscientist.execution.backends.slurm.watching.ledger import Phase, can_never_run
from hpcscientist.execution.backends.slurm.watching.queue import QueueRow, queued
from hpcscientist.files.rundir import TrialPaths
from hpcscientist.records.site import Site
from hpcscientist.records.trial import RunId

# The folder that the doctor and a compute node share; one class knows its paths.


@dataclass(frozen=True, slots=True)
class DoctorFolder:
    """A temporary folder on the file system where campaigns would lie."""

    root: Path

    @property
    def request(self) -> Path:
        """What the node is asked; written here."""
        return self.root / "request.json"

    @property
    def report(self) -> Path:
        """What the node found; its existence means that it is done."""
        return self.root / "report.json"

    @property
    def taken(self) -> Path:
        """A file made here, which the node tries to make exclusively."""
        return self.root / "taken"

    @property
    def script(self) -> Path:
        """What `sbatch` was given."""
        return self.root / "job.sh"

    @property
    def data(self) -> Path:
        """The rehearsal's public data."""
        return self.root / "data"

    @property
    def labels(self) -> Path:
        """What the rehearsal's candidate must not see."""
        return self.root / "labels"

    def rehearsal(self, network: str) -> TrialPaths:
        """The folder of one trial of the rehearsal."""
        return TrialPaths(self.root / f"rehearsal-{network}")

    def said(self) -> str:
        """Return the end of what the job printed; empty where there is nothing (yet)."""
        lines: list[str] = []
        for log in sorted(self.root.glob("*.out")):
            lines += log.read_text(encoding="utf-8", errors="replace").splitlines()
        return next((line.strip() for line in reversed(lines) if line.strip()), "")


MODULE = "hpcscientist.doctor.compute.probe"
_LOOK_S, _ASK_S = 0.2, 3.0  # at the shared folder; at the queue
_SEEN_S = 5.0
_MINUTES, _MEMORY_MB = 5, 1024
_SWEEP_S = 60.0
_GIVE = (
    "give what your site wants by --account, --partition, --qos, --constraint or a --site profile"
)


@dataclass(frozen=True, slots=True)
class JobResult:
    """What came of the job. `report` is None where there is none, `said` is why then.

    `is_lacking`: more patience would not have helped. Seconds: `taken_s` from sbatch to the
    report, `hidden_s` between the node's writing of it and our seeing it, by two clocks.
    """

    said: str = ""
    mend: str = ""
    is_lacking: bool = False
    taken_s: float = 0.0
    hidden_s: float = 0.0
    report: NodeReport | None = None


def script(site: Site, folder: DoctorFolder, gpus: int) -> str:
    """Return the job's script: an array of one task, as a trial's would be."""
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

    Whatever happens, no job of ours is in the queue afterwards, Ctrl-C included. Raises
    OSError when the folder cannot be written.
    """
    text = script(site, folder, gpus)
    folder.script.write_text(text)
    try:
        try:
            slurm.submit(str(folder.script), environment=unshadowed(os.environ, text))
        except SchedulerSilent:
            if not queued(slurm, folder.root.name):  # it may have been made all the same
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
        """How long a report may be hidden; not long where the job's own log is seen."""
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
                mend="see that this Python and package lie where nodes can use them, or set "
                "python, modules or setup in the site profile's [slurm]",
                is_lacking=True,
            )
        return JobResult(
            said=f"the job ended ({how}) and nothing of it is seen in {self.folder.root.parent}",
            mend="give a --run-dir on a file system that login and compute nodes share",
            is_lacking=True,
        )

    def _stuck(self, row: QueueRow) -> JobResult:
        return JobResult(
            said=f"the job would wait for ever: {row.reason}",
            mend=_GIVE,
            is_lacking=True,
        )

    def _late(self, row: QueueRow) -> JobResult:
        if row.phase is Phase.WAITING:
            return JobResult(
                said=f"did not start within {self.wait_s:g} s ({row.reason}); it was cancelled",
                mend="try again with a longer --wait, or another --partition",
            )
        said = self.folder.said() or "it has said nothing"
        return JobResult(
            said=f"ran on {row.node}, but did not end within {self.wait_s:g} s: {said}",
            mend="try again with a longer --wait; a node or a file system may be slow",
        )
