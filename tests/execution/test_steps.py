"""Trials as steps: what is asked of Slurm, which node is taken, and what a killed driver left."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from trialkit import CAMPAIGN, Bench

from hpcscientist.campaign.dispatcher import Dispatcher
from hpcscientist.errors import SchedulerRefused
from hpcscientist.execution.backends import steps
from hpcscientist.execution.backends.steps import (
    STEP_FILE,
    GpuPool,
    JobAllocation,
    NodeGpus,
    StepsBackend,
    shown,
    worker_line,
)
from hpcscientist.records.site import Site, SlurmSite
from hpcscientist.records.trial import Ended, Limits, Scored, TrialSpec
from hpcscientist.results.store import read_result
from hpcscientist.worker.step import MODULE

NODES = JobAllocation("12", ("n1", "n2", "n3"), NodeGpus(held=4, kept=2))


def limits(**given: object) -> Limits:
    plain = {"deadline_s": 10.0, "memory_mb": 1000, "output_mb": 1, "cpus": 4, "gpus": 0}
    return Limits.model_validate({**plain, **given})


def asked(site: SlurmSite, allocation: JobAllocation = NODES, **given: object) -> list[str]:
    return steps.command(Site(slurm=site), allocation, "n2", limits(**given), "name", "true")


class TestCommand:
    def test_is_a_step_of_the_job_on_one_node(self) -> None:
        words = asked(SlurmSite(memory_margin_mb=24))
        assert words[0] == "srun"
        assert words[-3:] == ["/bin/sh", "-c", "true"]
        options = set(words[1:-3])
        assert {"--jobid=12", "--overlap", "--exact", "--nodelist=n2"} < options
        assert {"--nodes=1", "--ntasks=1", "--cpus-per-task=4", "--mem=1024M"} < options

    @pytest.mark.parametrize(
        ("memory", "option"), [("mem-per-cpu", "--mem-per-cpu=256M"), ("none", None)]
    )
    def test_memory_as_the_site_asks_for_it(self, memory: str, option: str | None) -> None:
        site = SlurmSite.model_validate({"memory": memory, "memory_margin_mb": 24})
        assert [word for word in asked(site) if word.startswith("--mem")] == [option] * bool(option)

    @pytest.mark.parametrize(
        ("gpus", "held", "option"),
        [
            (2, 4, "--gres=gpu:a100:4"),  # of which it is shown its own
            (0, 4, "--gres=none"),  # or the step would see those of the engines
            (0, 0, None),
        ],
    )
    def test_gpus(self, gpus: int, held: int, option: str | None) -> None:
        words = asked(
            SlurmSite(gres="gpu:a100:{gpus}"),
            JobAllocation("12", ("n2",), NodeGpus(held)),
            gpus=gpus,
        )
        assert [word for word in words if word.startswith("--gres")] == [option] * bool(option)

    @pytest.mark.parametrize(
        ("given", "seen"),
        [("", "2,3"), ("4,5,6,7", "6,7"), ("MIG-a,MIG-b,MIG-c,MIG-d", "MIG-c,MIG-d")],
    )
    def test_a_trial_sees_its_own_gpus_alone(self, given: str, seen: str) -> None:
        line = shown((2, 3), held=4) + "printenv CUDA_VISIBLE_DEVICES CUDA_DEVICE_ORDER"
        environment = {"PATH": os.environ["PATH"]}
        environment |= {"CUDA_VISIBLE_DEVICES": given} if given else {}
        printed = subprocess.run(
            ["/bin/sh", "-c", line], capture_output=True, text=True, check=True, env=environment
        )
        assert printed.stdout == f"{seen}\nPCI_BUS_ID\n"

    def test_worker_gets_its_folders_whatever_they_are_called(self) -> None:
        line = worker_line(Site(), "m", Path("/a b/t"), 2, Path("/a b/s"))
        said = line.replace(f"exec {sys.executable} -P -u -m m", "printf '%s,'")
        printed = subprocess.run(
            ["/bin/sh", "-c", said], capture_output=True, text=True, check=True
        )
        assert printed.stdout == "/a b/t,2,/a b/s,"


class TestPool:
    def test_gpus_are_one_trial_s_at_a_time_and_never_the_engines(self) -> None:
        pool = GpuPool(("n1", "n2"), NodeGpus(held=4, kept=2))
        taken = [pool.take(node, 1) for node in ("n1", "n1", "n2")]
        assert taken == [(2,), (3,), (2,)]
        assert pool.with_room(("n1", "n2"), 1) == ["n2"]
        pool.give_back("n1", (2,))
        assert pool.with_room(("n1", "n2"), 1) == ["n1", "n2"]
        assert pool.take("n1", 1) == (2,)

    def test_more_than_any_node_keeps_is_refused(self) -> None:
        with pytest.raises(SchedulerRefused, match="raise gpus"):
            GpuPool(("n1",), NodeGpus(held=4, kept=2)).with_room(("n1",), 3)


def no_start(spec: TrialSpec) -> None:
    return None


def no_end(spec: TrialSpec, ended: Ended | None) -> None:
    return None


def backend_on(bench: Bench, nodes: tuple[str, ...], slots: int) -> Dispatcher:
    site = Site(slurm=SlurmSite(python=bench.python))
    allocation = JobAllocation("4711", nodes)
    return Dispatcher(StepsBackend(bench.run, site, allocation, CAMPAIGN, MODULE, slots=slots))


async def nodes_used(bench: Bench, backend: Dispatcher, names: str) -> Counter[str]:
    """Which node each of trials that wait for one another was sent to, by srun's own words."""
    recorded = bench.root / "nodes"
    srun = bench.root / "commands" / "srun"
    spy = f"open({str(recorded)!r}, 'a').write(sys.argv[sys.argv.index('/bin/sh') - 1] and "
    spy += "next(a for a in sys.argv if a.startswith('--nodelist=')) + '\\n')\nchild = os.fork()"
    srun.write_text(srun.read_text().replace("child = os.fork()", spy))
    others = "all((TRIAL.parent / n / 'out' / 'up').exists() for n in NAMES)"
    body = f"NAMES = {names!r}\nnote('up')\nwhile not {others}: time.sleep(0.01)\npredict()"
    trials = [bench.trial(body, name) for name in names]
    await backend.run(trials, no_start, no_end)
    await backend.close()
    return Counter(recorded.read_text().replace("--nodelist=", "").split())


@pytest.mark.usefixtures("stand_in_allocation")
class TestPlacing:
    async def test_trials_are_spread(self, bench: Bench) -> None:
        used = await nodes_used(bench, backend_on(bench, ("n1", "n2"), 4), "abcd")
        assert used == {"n1": 2, "n2": 2}

    async def test_nodes_are_avoided_while_others_are_left(self, bench: Bench) -> None:
        backend = backend_on(bench, ("n1", "n2"), 2)
        backend.avoid(["n1"])
        assert await nodes_used(bench, backend, "ab") == {"n2": 2}

    async def test_the_last_node_is_used_all_the_same(self, bench: Bench) -> None:
        backend = backend_on(bench, ("n1",), 1)
        backend.avoid(["n1"])
        assert await nodes_used(bench, backend, "a") == {"n1": 1}


@pytest.mark.usefixtures("stand_in_allocation")
async def test_what_a_killed_driver_left_is_ended_and_run_again(bench: Bench) -> None:
    spec = bench.trial("note(f'run-{os.getpid()}'); predict()")
    folder = bench.run.submission / f"{spec.trial_id}-{spec.run}"
    folder.mkdir(parents=True)
    with subprocess.Popen(["sleep", "600"]) as left:  # noqa: ASYNC220
        (folder / STEP_FILE).write_text(f"4711.{left.pid}\n")
        backend = backend_on(bench, ("here",), 1)
        await backend.run([spec], no_start, no_end)
        await backend.close()
        assert left.wait(300) == -signal.SIGKILL
    report = read_result(bench.run.trial(spec.trial_id))
    assert report is not None
    assert isinstance(report.outcome, Scored)


async def test_without_slurm_the_error_names_the_fix(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(bench.root))
    backend = backend_on(bench, ("here",), 1)
    with pytest.raises(SchedulerRefused, match=r"serving\.trials_inside"):
        await asyncio.wait_for(backend.run([bench.trial("predict()")], no_start, no_end), 60)


def test_worker_outside_of_a_step_says_so() -> None:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("SLURM_")}
    done = subprocess.run(
        [sys.executable, "-m", MODULE, "t", "1", "f"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "as a step of a job" in done.stderr
