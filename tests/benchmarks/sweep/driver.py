"""The driver that is measured: `python -m benchmarks.sweep.driver FOLDER SETTINGS MARKS`.

It runs, or goes on with, the campaign of `settings` (JSON) in FOLDER/campaign, and appends a line
to FOLDER/samples.jsonl when its first idea has ended and at each mark. While `status` and
`results` are timed it does nothing else, for its loop waits for them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks.campaigns.measuring import run
from benchmarks.sweep.samples import SAMPLES, Sample
from hpcscientist.bench.child import peak_mb
from hpcscientist.config.layers import default_private_root
from hpcscientist.config.settings import Settings
from hpcscientist.files import vault
from hpcscientist.history.state import CampaignState
from hpcscientist.records.events import Event, IdeaEnded

CAMPAIGN = "campaign"
_TIMES = 3  # a command is timed; the median counts


@dataclass(slots=True)
class Meter:
    """Takes a sample when the first idea of this driver has ended, and at each mark."""

    folder: Path
    marks: Collection[int]
    fsyncs: int = 0
    _begun: bool = False

    def count_fsyncs(self) -> None:
        """Count every fsync of this process from now on."""
        fsync = os.fsync

        def counted(descriptor: int) -> None:
            self.fsyncs += 1
            fsync(descriptor)

        os.fsync = counted  # type: ignore[assignment]

    def __call__(self, event: Event, state: CampaignState) -> None:
        """Look at an event, after it was recorded."""
        if not isinstance(event, IdeaEnded):
            return
        ended = sum(idea.ended is not None for idea in state.ideas.values())
        if ended in self.marks:
            self._take(ended, timed=True)
        elif not self._begun:
            self._take(ended, timed=False)
        self._begun = True

    def _take(self, ended: int, *, timed: bool) -> None:
        cpu_s, fsyncs = time.process_time(), self.fsyncs
        sample = Sample(
            driver=os.getpid(),
            ideas=ended,
            cpu_s=cpu_s,
            fsyncs=fsyncs,
            peak_mb=peak_mb(),
            status_s=self._command_s("status") if timed else None,
            results_s=self._command_s("results") if timed else None,
        )
        with (self.folder / SAMPLES).open("a", encoding="utf-8") as file:
            file.write(sample.model_dump_json() + "\n")

    def _command_s(self, name: str) -> float:
        """Return the processor time of a command on the campaign, as it is now."""
        command = [sys.executable, "-m", "hpcscientist.cli.main", name, str(self.folder / CAMPAIGN)]
        return median(_cpu_s(command) for _ in range(_TIMES))


def _cpu_s(command: list[str]) -> float:
    quiet = subprocess.DEVNULL
    with subprocess.Popen(command, stdin=quiet, stdout=quiet, stderr=quiet) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)}: exit code {process.returncode}")
    return usage.ru_utime + usage.ru_stime


def main(folder: str, settings: str, marks: str) -> None:
    """Drive the campaign to its end."""
    given = Settings.model_validate_json(settings)
    vault.use_root(default_private_root(given))
    meter = Meter(Path(folder), frozenset(json.loads(marks)))
    meter.count_fsyncs()
    run(CAMPAIGN, given, meter.folder, lambda text: None, meter)


if __name__ == "__main__":
    main(*sys.argv[1:])
