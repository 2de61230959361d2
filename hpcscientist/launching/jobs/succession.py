"""Exactly one continuation in the queue while a controller job drives, and none afterwards."""

from __future__ import annotations

import os
import threading
import time

from hpcscientist.errors import SchedulerError, SchedulerSilent
from hpcscientist.execution.backends.slurm.commands import Slurm
from hpcscientist.execution.backends.slurm.jobs import controller_job, sweep
from hpcscientist.execution.backends.slurm.jobs.controller_job import ControllerJob
from hpcscientist.files.rundir import RunPaths
from hpcscientist.ports.telling import Tell

# Seconds: after a refusal or silence; between looks whether somebody has cancelled it; how long
# Slurm may stay silent when it is to be cancelled.
RETRY_S, LOOK_S, PATIENCE_S = 60.0, 900.0, 120.0
_PAUSE_S = 5.0


class Succession:
    """The continuation of job `own`. Slurm's silence is never an error here: it is asked again."""

    def __init__(
        self, paths: RunPaths, slurm: Slurm, job: ControllerJob, own: str, tell: Tell
    ) -> None:
        self._paths, self._slurm, self._job = paths, slurm, job
        self._own, self._tell = own, tell
        # As it is now: the driver soon forgets the key of its model's endpoint.
        self._environment = dict(os.environ)
        self._known = ""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._keep, daemon=True, name="succession")

    def open(self) -> None:
        """Have a continuation in the queue from now on.

        The first try is made before this returns, so that it comes before any array of the
        campaign fills the user's share of the queue.
        """
        self._ensure()
        if not self._thread.is_alive():
            self._thread.start()

    def leave(self) -> None:
        """Let the continuation start when this job has ended."""
        self._stop.set()

    def cancel(self) -> None:
        """Leave no continuation in the queue. One that Slurm's silence spares ends by itself."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()
        until = time.monotonic() + PATIENCE_S
        while True:
            try:
                rows = controller_job.live(self._slurm, self._job.campaign_id)
                sweep.cancel_jobs(self._slurm, controller_job.waiting(rows, but=self._own))
                return
            except SchedulerSilent as error:
                if time.monotonic() > until:
                    self._tell(f"the continuation could not be cancelled: {error}")
                    return
                time.sleep(_PAUSE_S)
            except SchedulerError as error:
                self._tell(f"the continuation could not be cancelled: {error}")
                return

    def _keep(self) -> None:
        while not self._stop.wait(LOOK_S if self._known else RETRY_S):
            self._ensure()

    def _ensure(self) -> None:
        if self._paths.cancel_request.exists():
            return
        try:
            job_id = controller_job.ensure_successor(
                self._slurm, self._job, self._own, self._environment
            )
        except SchedulerError as error:
            self._known = ""
            self._tell(f"no continuation yet, trying again in {RETRY_S:g} s: {error}")
            return
        if job_id != self._known:
            self._known = job_id
            self._tell(f"job {job_id} goes on after this one")
