"""A small scheduler that runs arrays as processes of this machine, behind Slurm's own commands.

For what a backend owes the campaign: what is submitted really runs, and is really ended. It has
one node with room for everything. It tracks processes as Slurm does where it has cgroups: whatever
an array task leaves behind is ended with it. What Slurm answers when things go wrong is replayed
in tests/scheduler instead. A command line that the backend does not use is an error.

Run by its commands as `python executing_slurm.py FOLDER COMMAND ...`.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PROGRAMS = ("sbatch", "squeue", "sacct", "scancel", "scontrol", "sacctmgr")
KILL_WAIT_S = 5.0
SEPARATOR = "\x1f"
ENDED = ("COMPLETED", "FAILED", "CANCELLED")
_SUBREAPER = 36  # of prctl(2)
_CONFIG = "SLURM_VERSION = 22.05.8\nMaxArraySize = 1001\nMaxJobCount = 10000\n"
_SQUEUE = ["--me", "--noheader", "--states=all"]
_SACCT = ["--noheader", "--parsable2", "--allocations", "--delimiter", SEPARATOR, "--jobs"]
_SACCT_FIELDS = "JobID,State,ExitCode,NodeList,JobName,Comment,Start,End"


def install(folder: Path) -> Path:
    """Write the commands below a folder and return where they lie."""
    commands = folder / "commands"
    commands.mkdir(parents=True)
    (folder / "tasks").mkdir()
    for program in PROGRAMS:
        words = [sys.executable, "-IS", str(Path(__file__).resolve()), str(folder), program]
        (commands / program).write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
        (commands / program).chmod(0o755)
    return commands


def end_everything(folder: Path) -> None:
    """End what still runs, for a test that has failed."""
    for task in _tasks(folder):
        if task["state"] not in ENDED:
            with contextlib.suppress(ProcessLookupError):
                os.kill(task["keeper"], signal.SIGTERM)


# -- commands -------------------------------------------------------


def _sbatch(folder: Path, arguments: list[str]) -> str:
    *_, path = arguments  # behind --parsable
    script = Path(path).read_text()
    options = dict(re.findall(r"^#SBATCH --([a-z-]+)=?(.*)$", script, re.MULTILINE))
    found = re.fullmatch(r"(\d+)-(\d+)%(\d+)", options["array"])
    assert found and int(found[3]) > int(found[2]) - int(found[1]), options["array"]
    with _locked(folder):
        job = 100 + len(list(folder.glob("script-*")))
        (folder / f"script-{job}").write_text(script)
    for number in range(int(found[1]), int(found[2]) + 1):
        task = {
            "job": job,
            "number": number,
            "state": "PENDING",
            "code": "0:0",
            "name": options["job-name"],
            "comment": options["comment"],
            "output": options["output"].strip("'\""),
        }
        _keep_task(folder, task)
    return f"{job}\n"


def _squeue(folder: Path, arguments: list[str]) -> str:
    *rest, form = arguments
    assert rest == _SQUEUE, arguments
    rows = []
    for task in _tasks(folder):
        fields = {
            "%F": task["job"],
            "%K": task["number"],
            "%T": task["state"],
            "%r": "None",
            "%N": "" if task["state"] == "PENDING" else "here",
            "%j": task["name"],
            "%k": task["comment"],
            "%A": task["job"],
            "%P": "batch",
        }
        rows.append(re.sub("%.", lambda m, f=fields: str(f[m[0]]), form.removeprefix("--format=")))
    return "".join(f"{row}\n" for row in rows)


def _sacct(folder: Path, arguments: list[str]) -> str:
    rest, jobs = arguments[:-1], arguments[-1].split(",")
    assert [word for word in rest if not word.startswith("--format")] == _SACCT, arguments
    assert f"--format={_SACCT_FIELDS}" in rest, arguments
    rows = [
        (
            f"{task['job']}_{task['number']}",
            *(task["state"], task["code"], "here", task["name"], task["comment"], "1", "2"),
        )
        for task in _tasks(folder)
        if str(task["job"]) in jobs
    ]
    return "".join(SEPARATOR.join(row) + "\n" for row in rows)


def _scancel(folder: Path, arguments: list[str]) -> str:
    quiet, *ids = arguments
    assert quiet == "--quiet", arguments
    for one in ids:
        job, _, numbers = one.partition("_")
        wanted = {int(number) for number in re.findall(r"\d+", numbers)}
        for task in _tasks(folder):
            if str(task["job"]) != job or (wanted and task["number"] not in wanted):
                continue
            if task["state"] not in ENDED:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(task["keeper"], signal.SIGTERM)
    return ""


def _scontrol(folder: Path, arguments: list[str]) -> str:
    return {
        "ping": "Slurmctld(primary) at here is UP\n",
        "show config": _CONFIG + "AccountingStorageType = accounting_storage/slurmdbd\n",
        "show partition": "PartitionName=batch\n   Default=YES\n   MaxTime=UNLIMITED\n",
    }[" ".join(arguments)]


def _sacctmgr(folder: Path, arguments: list[str]) -> str:
    assert "show" in arguments, arguments
    return ""


# -- an array task and its keeper -----------------------------------


def _keep_task(folder: Path, task: dict[str, Any]) -> None:
    """Start the process that starts an array task, ends what it leaves, and says how it ended.

    Its command line does not name the batch: tests know an array task's own processes by that.
    """
    path = folder / f"submitted-{task['job']}-{task['number']}"
    path.write_text(json.dumps(task))
    words = [sys.executable, "-IS", __file__, str(folder), "keep", path.name]
    keeper = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=-1, start_new_session=True)
    assert keeper.stdout is not None
    keeper.stdout.read(1)  # it has written down that the task waits


def _keep(folder: Path, arguments: list[str]) -> str:
    task = json.loads((folder / arguments[0]).read_text())
    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
    signal.signal(signal.SIGTERM, _note_cancel)
    task["keeper"] = os.getpid()
    _write(folder, task)
    os.write(1, b".")
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (1, 2):
        os.dup2(nothing, number)
    _run_task(folder, task)
    return ""


_cancelled: list[float] = []


def _note_cancel(number: int, frame: object) -> None:
    _cancelled.append(time.monotonic())


def _run_task(folder: Path, task: dict[str, Any]) -> None:
    status = None
    if not _cancelled:
        main = _started(folder, task)
        status = _wait_for(main.pid)
    _end_the_rest()
    if _cancelled:
        task["state"], task["code"] = "CANCELLED", "0:15"
    elif status is not None:
        code = os.waitstatus_to_exitcode(status)
        task["state"] = "COMPLETED" if code == 0 else "FAILED"
        task["code"] = f"{code}:0" if code >= 0 else f"0:{-code}"
    _write(folder, task)


def _started(folder: Path, task: dict[str, Any]) -> subprocess.Popen[bytes]:
    output = task["output"].replace("%%", "%")
    output = output.replace("%A", str(task["job"])).replace("%a", str(task["number"]))
    names = {
        "SLURM_JOB_ID": task["job"],
        "SLURM_ARRAY_JOB_ID": task["job"],
        "SLURM_ARRAY_TASK_ID": task["number"],
        "SLURMD_NODENAME": "here",
    }
    with Path(output).open("ab") as log:
        main = subprocess.Popen(
            ["/bin/bash", str(folder / f"script-{task['job']}")],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            env={**os.environ, **{name: str(value) for name, value in names.items()}},
        )
    task["state"] = "RUNNING"
    _write(folder, task)
    return main


def _wait_for(main: int) -> int:
    """Return the status of the task's own process; cancelled, it is ended first."""
    told = False
    while True:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == main:
            return status
        if _cancelled and not told:
            told = True
            _signal_all(signal.SIGTERM)
        if _cancelled and time.monotonic() > _cancelled[0] + KILL_WAIT_S:
            _signal_all(signal.SIGKILL)
        if not pid:
            time.sleep(0.02)


def _end_the_rest() -> None:
    with contextlib.suppress(ChildProcessError):
        while True:
            _signal_all(signal.SIGKILL)
            os.waitpid(-1, 0)


def _signal_all(number: int) -> None:
    """Signal every process below this one."""
    above: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            above[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
    for pid in above:
        at = pid
        while at in above and at != os.getpid():
            at = above[at]
        if at == os.getpid() and pid != at:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)


# -- what is known of tasks: a file each ----------------------------


def _write(folder: Path, task: dict[str, Any]) -> None:
    path = folder / "tasks" / f"{task['job']}-{task['number']:04}"
    temporary = folder / f"{path.name}.{os.getpid()}"
    temporary.write_text(json.dumps(task))
    temporary.replace(path)


def _tasks(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in sorted((folder / "tasks").iterdir())]


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    with (folder / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def main() -> None:
    """Carry one command out."""
    folder, program, arguments = Path(sys.argv[1]), sys.argv[2], sys.argv[3:]
    command = {
        "sbatch": _sbatch,
        "squeue": _squeue,
        "sacct": _sacct,
        "scancel": _scancel,
        "scontrol": _scontrol,
        "sacctmgr": _sacctmgr,
        "keep": _keep,
    }[program]
    sys.stdout.write(command(folder, arguments))


if __name__ == "__main__":
    main()
