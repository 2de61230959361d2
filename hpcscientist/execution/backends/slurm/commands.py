"""Call Slurm's commands, count the calls and interpret their failures.

A failed command means one of two things, with different types of errors. SchedulerSilent: Slurm did
not answer, so nothing is known and the caller asks again later. SchedulerRefused: it said no.
"""

from __future__ import annotations

import math
import os
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Mapping

from hpcscientist.config.sbatch import cluster_of
from hpcscientist.errors import SchedulerRefused, SchedulerSilent
from hpcscientist.files.text import one_line
from hpcscientist.records.site import Site

# Names and comments of jobs, so that the queue alone shows which campaign a job belongs to.
#
# A driver killed between `sbatch` and its own record leaves an orphaned job. The next driver
# finds and adopts it by its name or comment.


CONTROLLER = "controller"
SERVE = "serve"

_COMMENT = "hpcsci:"


def job_name(campaign_id: str, what: str) -> str:
    """Return a job's name. `what`: a batch's id, CONTROLLER or SERVE."""
    return f"hpcsci-{campaign_id}-{what}"


def job_comment(campaign_id: str, what: str) -> str:
    """Return a job's comment."""
    return f"{_COMMENT}{campaign_id}:{what}"


def batch_of_job(campaign_id: str, name: str, said: str) -> str | None:
    """Return a job's batch id (or CONTROLLER or SERVE) if it is the campaign's, else None.

    Some sites rewrite comments and some schedulers' plugins rewrite names: one of them suffices.
    """
    for text, prefix in ((said, f"{_COMMENT}{campaign_id}:"), (name, f"hpcsci-{campaign_id}-")):
        rest = text[len(prefix) :] if text.startswith(prefix) else ""
        if rest.isalnum():  # excludes other campaigns whose id begins with this one's
            return rest
    return None


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

# Ask for plain text, unshortened array ranges and times in seconds since the epoch, without the
# user's own output formats and defaults. *_ALL: also partitions that the site hides, and their
# jobs, which squeue otherwise lists to nobody, not even to their owner.
_ENVIRONMENT = {
    **{"LC_ALL": "C", "SLURM_BITSTR_LEN": "0", "SLURM_TIME_FORMAT": "%s"},
    **{"SQUEUE_ALL": "1", "SCONTROL_ALL": "1", "SINFO_ALL": "1"},
}
_USERS_OWN = ("SQUEUE_", "SACCT_", "SCONTROL_", "SCANCEL_", "SINFO_")

# Each command line names the cluster: sacct reads no variable for it.
_CLUSTERS = ("SLURM_CLUSTERS", "SBATCH_CLUSTERS")
_HEADING = re.compile(r"^CLUSTER: \S+\n", re.MULTILINE)

# In sbatch, variables override a script's options. These options have variables that are not just
# SBATCH_OPTION, or an opposite with a variable of its own.
_MEMORY = {"MEM_PER_NODE", "MEM_PER_CPU", "MEM_PER_GPU"}
_GPUS = {"GRES", "GPUS", "GPUS_PER_NODE", "GPUS_PER_TASK", "GPUS_PER_SOCKET"}
_NAMED = {
    "time": {"TIMELIMIT"},
    "array": {"ARRAY_INX"},
    "mem": _MEMORY,
    "mem-per-cpu": _MEMORY,
    "gres": _GPUS,
    "gpus": _GPUS,
    "gpus-per-node": _GPUS,
    "gpus-per-task": _GPUS,
    "requeue": {"NO_REQUEUE"},
    "no-requeue": {"REQUEUE"},
    "output": {"ERROR"},
}
# The complete line on which sbatch prints the id, with --parsable or, if a wrapper drops that,
# without it. Sites print notices besides, which contain other numbers.
_JOB = re.compile(
    r"\s*(?:(\d+)(?:;[\w.-]+)?|Submitted batch job (\d+)(?: on cluster [\w.-]+)?)\s*$"
)

# With SBATCH_WAIT, sbatch returns only when the job has ended.
_NEVER = {"SBATCH_WAIT"}
_OPTION = re.compile(r"^#SBATCH --([a-z-]+)", re.MULTILINE)


class Slurm:
    """Calls Slurm's commands. `counts`: calls by program, for the benchmark and the log.

    `command_s`: after so many seconds a command counts as unanswered. `cluster`: the cluster that
    all commands address; "" for the local one.
    """

    def __init__(self, command_s: float = 60.0, cluster: str = "") -> None:
        self._command_s = command_s
        self.cluster = cluster
        self.counts: Counter[str] = Counter()

    @classmethod
    def of(cls, site: Site) -> Slurm:
        """Return the commands for a site profile. Raises SiteError."""
        return cls(site.watch.command_s, cluster_of(site.slurm))

    def hint(self, command: str) -> str:
        """Return a command line for people, with --clusters if it is not the local cluster."""
        program, _, rest = command.partition(" ")
        return f"{program} --clusters={self.cluster} {rest}" if self.cluster else command

    @staticmethod
    def is_there() -> bool:
        """Return whether this machine has Slurm's commands."""
        return shutil.which("sbatch") is not None

    def answers(self) -> bool:
        """Return whether the controller answers."""
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
        at_most_s: float = math.inf,
    ) -> str:
        """Return what a command printed.

        `environment` replaces this process's own. `at_most_s`: after so many seconds the command
        counts as unanswered, if that is less than `command_s`.

        Raises SchedulerSilent if Slurm does not answer (it may have carried out the request
        nevertheless), SchedulerRefused if it says no or the command is missing.
        """
        limit_s = min(at_most_s, self._command_s)
        code, out, err = self._call(program, arguments, stdin, environment, limit_s)
        if code != 0:
            raise failure(err or out or f"{program}: exit {code}")
        return _HEADING.sub("", out) if self.cluster else out

    def submit(
        self,
        *arguments: str,
        stdin: str | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> str:
        """Submit a job and return its id, which must still be confirmed by the job's name.

        Raises SchedulerSilent if it is not known whether the job was created, or with which id;
        SchedulerRefused if it was not created.
        """
        line = ("--parsable", *arguments)
        code, out, err = self._call("sbatch", line, stdin, environment, self._command_s)
        found = {found[1] or found[2] for line in out.splitlines() if (found := _JOB.match(line))}
        if code != 0 and not found:
            raise failure(err or out or f"sbatch: exit {code}")
        if code != 0 or len(found) != 1:  # a wrapper failed later, or notices look like ids
            said = one_line(out.strip())[:100] or "nothing"
            raise SchedulerSilent(f"sbatch named {len(found) or 'no'} jobs; it said: {said}")
        return found.pop()

    def _call(
        self,
        program: str,
        arguments: tuple[str, ...],
        stdin: str | None,
        environment: Mapping[str, str] | None,
        limit_s: float,
    ) -> tuple[int, str, str]:
        self.counts[program] += 1
        given = dict(os.environ if environment is None else environment)
        if self.cluster:
            arguments = _of_cluster(self.cluster, program, arguments)
            given = {name: value for name, value in given.items() if name not in _CLUSTERS}
        try:
            done = subprocess.run(
                [program, *arguments],
                input=stdin,
                stdin=subprocess.DEVNULL if stdin is None else None,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=limit_s,
                env=_environment(given),
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise SchedulerSilent(f"{program} did not end within {limit_s:g} s") from error
        except FileNotFoundError as error:
            raise SchedulerRefused(
                f"there is no {program} on PATH: load your site's Slurm module, or use "
                "--backend local"
            ) from error
        except OSError as error:  # a busy login node may not allow another process
            raise SchedulerSilent(f"{program} could not be started: {error.strerror}") from error
        return done.returncode, done.stdout, done.stderr


def _of_cluster(cluster: str, program: str, arguments: tuple[str, ...]) -> tuple[str, ...]:
    """Return a command's arguments with the cluster; sacctmgr gets it as a filter."""
    if program != "sacctmgr":
        return f"--clusters={cluster}", *arguments
    return (*arguments, f"cluster={cluster}") if "associations" in arguments else arguments


def failure(said: str) -> SchedulerSilent | SchedulerRefused:
    """Return the error that a command's message means."""
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
    """Return an environment without the SBATCH_ variables that would override a script's options.

    Variables for options that the script does not set are kept.
    """
    options = _OPTION.findall(script)
    names = {option.upper().replace("-", "_") for option in options}
    names = names.union(*(_NAMED.get(option, ()) for option in options))
    gone = {f"SBATCH_{name}" for name in names} | _NEVER
    return {name: value for name, value in given.items() if name not in gone}
