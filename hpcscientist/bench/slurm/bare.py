"""Runs a bare `sbatch --array` of the same commands, with which trials are compared.

Each array task runs the exact container command of a trial and nothing else: no worker, no limits,
no scoring. It requests the same resources from Slurm, and may write to the same places.
"""

from __future__ import annotations

import os
import re
import shlex
import time
from collections.abc import Sequence
from pathlib import Path

from hpcscientist.bench.slurm.ground import Ground
from hpcscientist.campaign.dispatcher import make_batch
from hpcscientist.errors import SchedulerError
from hpcscientist.execution.backends.slurm import batches, submit
from hpcscientist.execution.backends.slurm.commands import Slurm
from hpcscientist.execution.backends.slurm.sweep import live_jobs
from hpcscientist.execution.sandbox import container, host
from hpcscientist.execution.sandbox.container import BEGUN
from hpcscientist.records.trial import Isolation, TrialSpec

_TASK = "@TASK@"
_LOOK_S, _ASK_S = 0.05, 15.0


def run(ground: Ground, specs: Sequence[TrialSpec], slurm: Slurm, limit_s: float) -> float:
    """Run one array task per trial; return the seconds from before `sbatch` to the end of the last.

    Raises SchedulerError if one fails, or if they have not ended within `limit_s`.
    """
    make_places(ground, len(specs))
    path = ground.root / "bare.sh"
    begin = time.perf_counter()
    path.write_text(script(ground, specs, command(ground, specs[0])))
    slurm.run("sbatch", str(path))
    done, asked, is_over = _done(ground), begin, False
    while len(os.listdir(done)) < len(specs):  # noqa: PTH208 (speed)
        now = time.perf_counter()
        if is_over or now - begin > limit_s:
            raise SchedulerError(_said(ground, len(specs)))
        if now - asked > _ASK_S:
            asked, is_over = now, not live_jobs(slurm, ground.campaign_id)
        time.sleep(_LOOK_S)
    seconds = time.perf_counter() - begin
    if any(file.read_text().strip() != "0" for file in done.iterdir()):
        raise SchedulerError(_said(ground, len(specs)))
    return seconds


def _said(ground: Ground, count: int) -> str:
    """Return a message about an array that failed."""
    good = [file for file in _done(ground).iterdir() if file.read_text().strip() == "0"]
    logs = (file.read_text(errors="replace") for file in sorted(ground.root.glob("*.out")))
    lines = [line for log in logs for line in log.splitlines() if line and BEGUN not in line]
    return (
        f"{count - len(good)} of {count} tasks of the bare array did not end well: "
        f"{lines[-1] if lines else 'they said nothing'}; is {ground.root.parent} on a file system "
        "that nodes share? `hpcsci doctor` says what is lacking"
    )


def script(ground: Ground, specs: Sequence[TrialSpec], command: Sequence[str]) -> str:
    """Return the array's script; `@TASK@` in `command` is the task's number."""
    tasks = [[spec] for spec in specs]
    batch = batches.record_of(ground.campaign_id, ground.run.trials, make_batch(tasks), time.time())
    stamp = [str(_done(ground) / _TASK)]
    line = f"{shell(command)}; echo $? >{shell(stamp)}"
    return submit.array_script(ground.site, batch, ground.root, line)


def shell(command: Sequence[str]) -> str:
    """Return a command as a shell line in which `@TASK@` is the task's number."""
    return re.sub(_TASK, "'\"$SLURM_ARRAY_TASK_ID\"'", " ".join(map(_quoted, command)))


def _quoted(word: str) -> str:
    return "'" + word.replace("'", "'\"'\"'") + "'" if _TASK in word else shlex.quote(word)


def command(ground: Ground, spec: TrialSpec, number: str = _TASK) -> list[str]:
    """Return a trial's own command, in the folder with this number."""
    here = place(ground, number)
    out, work = here / "out", here / "work"
    if spec.isolation is Isolation.NONE:
        values = host.settings(spec, str(work))
        given = (f"{name}={value}" for name, value in sorted(values.items()))
        return ["env", *given, *host.command(spec, ground.code, out)]
    places = container.Places(str(ground.image), ground.code, ground.data, out, work)
    return container.apptainer_command(spec, places, {}, is_root=os.geteuid() == 0)


def make_places(ground: Ground, count: int) -> None:
    """Create the folders that a trial's worker would create, before the clock starts."""
    _done(ground).mkdir()
    for number in range(count):
        for name in ("out", "work"):
            (place(ground, str(number)) / name).mkdir(parents=True)
    if os.geteuid() == 0 and ground.image is not None:
        container.hand_over((ground.root / "bare",))


def place(ground: Ground, number: str) -> Path:
    """Return one of the folders that `make_places` creates."""
    return ground.root / "bare" / number


def _done(ground: Ground) -> Path:
    return ground.root / "done"
