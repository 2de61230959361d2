"""Slurm's commands: one place that calls, counts and understands them.

A command that fails is one of two things, and they are different types: Slurm did not answer
(then nothing is known, and one asks again later), or it answered no.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Mapping

from hpcscientist.errors import SchedulerRefused, SchedulerSilent

_SILENT = re.compile(
    r"unable to contact|unable to connect|timed out|connection (refused|timed|reset|failure)"
    r"|controller.*(not responding|down)|zero bytes were transmitted|transport endpoint"
    r"|communication connection failure|resource temporarily unavailable"
    r"|incomplete message|slurmdbd.*(not|down|refused)|database.*(not|down|refused)"
    r"|host is unreachable|network is unreachable|protocol authentication|try again"
    r"|unexpected message received|in standby mode|socket error"
    r"|establish controller|unspecified error|insane message|incompatible versions|parse error"
    r"|i/o error|configuration (file|source)|could ?n.?t resolve|no such host|stale file handle",
    re.IGNORECASE,
)
_PREFIX = re.compile(r"^(sbatch|squeue|sacct|scancel|scontrol|sacctmgr): (error: |fatal: )?")
_UNCONFIGURED = re.compile(r"establish a configuration source|fetch_config", re.IGNORECASE)

# Plain text, whole array ranges, times as seconds since the epoch; and none of the user's own
# output formats and defaults.
_ENVIRONMENT = {"LC_ALL": "C", "SLURM_BITSTR_LEN": "0", "SLURM_TIME_FORMAT": "%s"}
_USERS_OWN = ("SQUEUE_", "SACCT_", "SCONTROL_", "SCANCEL_")

# sbatch lets a variable beat a script's option. Where a variable is not just SBATCH_OPTION:
_NAMED = {"time": "TIMELIMIT", "array": "ARRAY_INX", "mem": "MEM_PER_NODE", "requeue": "NO_REQUEUE"}
_OPTION = re.compile(r"^#SBATCH --([a-z-]+)", re.MULTILINE)


class Slurm:
    """Calls Slurm's commands. `counts`: calls by program, for the benchmark and the log."""

    def __init__(self, command_s: float = 60.0) -> None:
        self._command_s = command_s
        self.counts: Counter[str] = Counter()

    @staticmethod
    def is_there() -> bool:
        """Tell whether this machine has Slurm's commands."""
        return shutil.which("sbatch") is not None

    def answers(self) -> bool:
        """Tell whether the controller answers."""
        try:
            return "UP" in self.run("scontrol", "ping")
        except (SchedulerRefused, SchedulerSilent):
            return False

    def run(
        self,
        program: str,
        *arguments: str,
        stdin: str | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> str:
        """Return what a command printed. `environment`: instead of this process's.

        Raises SchedulerSilent when Slurm does not answer (the request may have been carried
        out all the same), SchedulerRefused when it says no or the command is missing.
        """
        self.counts[program] += 1
        try:
            done = subprocess.run(
                [program, *arguments],
                input=stdin,
                stdin=subprocess.DEVNULL if stdin is None else None,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=self._command_s,
                env=_environment(os.environ if environment is None else environment),
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise SchedulerSilent(f"{program} did not end within {self._command_s:g} s") from error
        except FileNotFoundError as error:
            raise SchedulerRefused(
                f"there is no {program} on PATH: load your site's Slurm module, or use "
                "--backend local"
            ) from error
        except OSError as error:  # no process to be had on a busy login node
            raise SchedulerSilent(f"{program} could not be started: {error.strerror}") from error
        if done.returncode != 0:
            raise failure(done.stderr or done.stdout or f"{program}: exit {done.returncode}")
        return done.stdout


def failure(said: str) -> SchedulerSilent | SchedulerRefused:
    """Return the error that a command's words mean."""
    lines = [_PREFIX.sub("", line.strip()) for line in said.splitlines() if line.strip()]
    message = "; ".join(lines[-3:])[:300] or "nothing was said"
    if _UNCONFIGURED.search(said):
        message = (
            f"Slurm's commands are here and find no configuration ({message}): try where jobs are "
            "submitted from, load your site's Slurm module, or use --backend local"
        )
    return SchedulerSilent(message) if _SILENT.search(said) else SchedulerRefused(message)


def _environment(given: Mapping[str, str]) -> dict[str, str]:
    mine = {k: v for k, v in given.items() if not k.startswith(_USERS_OWN)}
    return mine | _ENVIRONMENT


def unshadowed(given: Mapping[str, str], script: str) -> dict[str, str]:
    """Return an environment without the SBATCH_ variables that would beat a script's options.

    What the script leaves open is left to the user's own variables.
    """
    options = _OPTION.findall(script)
    names = {f"SBATCH_{_NAMED.get(o, o.upper().replace('-', '_'))}" for o in options}
    names |= {f"SBATCH_{option.upper().replace('-', '_')}" for option in options}
    return {name: value for name, value in given.items() if name not in names}
