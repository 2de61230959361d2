"""A bare loop that submits one job per candidate: the comparison for the rate of candidates.

It does what ShinkaEvolve's scheduler does with Slurm: one `sbatch` per candidate; every 0.1 s one
`squeue` for each running candidate, through four threads; one more before a result is read; the
next candidate as soon as one is done. Its jobs run the exact command of a trial.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from hpcscientist.bench.slurm import bare
from hpcscientist.bench.slurm.ground import Ground
from hpcscientist.bench.slurm.ours import Ran
from hpcscientist.errors import SchedulerError
from hpcscientist.execution.backends.slurm import naming
from hpcscientist.execution.backends.slurm.commands import Slurm
from hpcscientist.records.trial import TrialSpec

_THREADS, _PAUSE_S = 4, 0.1  # as in ShinkaEvolve


def run(
    ground: Ground, specs: Sequence[TrialSpec], in_flight: int, slurm: Slurm, limit_s: float
) -> Ran:
    """Run one job per trial, `in_flight` of them at any time, until the last result.

    Raises SchedulerError if one fails, or if they have not ended within `limit_s`.
    """
    bare.make_places(ground, len(specs))
    texts = [_script(ground, spec, number) for number, spec in enumerate(specs)]
    begin, before = time.perf_counter(), slurm.counts.total()
    waiting, under_way = list(enumerate(texts))[::-1], dict[Future[str], int]()
    done = 0
    with ThreadPoolExecutor(_THREADS) as pool:
        while done < len(specs):
            while waiting and len(under_way) < in_flight:
                number, text = waiting.pop()
                under_way[pool.submit(_submit, slurm, text)] = number
            ids = {job: job.result() for job in under_way if job.done()}
            asked = {job: pool.submit(_is_gone, slurm, number) for job, number in ids.items()}
            for job in [job for job, gone in asked.items() if gone.result()]:
                _is_gone(slurm, ids[job])
                _read(ground, under_way.pop(job))
                done += 1
            if time.perf_counter() - begin > limit_s:
                raise SchedulerError(f"{done} of {len(specs)} candidates within {limit_s:g} s")
            time.sleep(_PAUSE_S)
    return Ran(time.perf_counter() - begin, slurm.counts.total() - before)


def _submit(slurm: Slurm, text: str) -> str:
    return slurm.run("sbatch", stdin=text).split()[-1]


def _is_gone(slurm: Slurm, job_id: str) -> bool:
    return not slurm.run("squeue", "-j", job_id, "--noheader").strip()


def _read(ground: Ground, number: int) -> None:
    """Read a candidate's output. Raises SchedulerError if there is none."""
    try:
        (bare.place(ground, str(number)) / "out" / "predictions.csv").read_text()
    except OSError as error:
        raise SchedulerError(f"candidate {number} left no result: {error}") from error


def _script(ground: Ground, spec: TrialSpec, number: int) -> str:
    slurm, log = ground.site.slurm, bare.place(ground, str(number)) / "log"
    named = {name: getattr(slurm, name) for name in ("account", "partition", "qos", "constraint")}
    options = [
        f"--job-name={naming.job_name(ground.campaign_id, f'c{number}')}",
        *(f"--{name}={value}" for name, value in named.items() if value),
        *("--nodes=1", "--ntasks=1", f"--cpus-per-task={spec.limits.cpus}"),
        *(f"--mem={spec.limits.memory_mb}M" for _ in range(slurm.memory == "mem")),
        *(f"--time={math.ceil(spec.limits.deadline_s / 60)}", f'--output="{log}"'),
    ]
    line = bare.shell(bare.command(ground, spec, str(number)))
    return "\n".join(["#!/bin/bash", *(f"#SBATCH {option}" for option in options), line, ""])
