"""Starts a plane's processes on its nodes: as steps of a Slurm allocation, or on this machine."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


class Steps(Protocol):
    """Starts a command on a node and appends its output to a log.

    Obligations: the returned process lasts as long as the command runs on its node, and terminating
    it ends the command.
    """

    def start(self, node: str, command: list[str], log: Path) -> subprocess.Popen[bytes]:
        """Start a command. Raises OSError."""
        ...


@dataclass(frozen=True, slots=True)
class LocalSteps:
    """Runs every node's command on this machine."""

    def start(self, node: str, command: list[str], log: Path) -> subprocess.Popen[bytes]:
        """Start a command here, in its own session, so that Ctrl-C does not reach it.

        The driver ends it.
        """
        return _start(command, log, dict(os.environ))


@dataclass(frozen=True, slots=True)
class SlurmSteps:
    """Steps of a job. `cpus` is what each gets of its node; `gres` are the GPUs, "" for none."""

    job_id: str
    cpus: int
    gres: str = ""

    def start(self, node: str, command: list[str], log: Path) -> subprocess.Popen[bytes]:
        """Start a step of one task on a node."""
        return _start([*self.srun(node), *command], log, dict(os.environ))

    def srun(self, node: str) -> list[str]:
        """Return the beginning of the command line.

        Steps overlap: the driver's own batch step runs on the head's node, and trials may run as
        steps too. `--mem=0` means all memory that the job has on a node.
        """
        gres = [f"--gres={self.gres}"] if self.gres else []
        return [
            *("srun", f"--jobid={self.job_id}", "--overlap", "--nodes=1", "--ntasks=1"),
            *(f"--nodelist={node}", f"--cpus-per-task={self.cpus}", "--mem=0", *gres),
            *("--cpu-bind=none", "--kill-on-bad-exit=1", "--unbuffered", "--export=ALL"),
            *("--job-name=model-plane", "--input=none", "--quit-on-interrupt"),
        ]


def _start(command: list[str], log: Path, environment: dict[str, str]) -> subprocess.Popen[bytes]:
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as file:
        return subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
