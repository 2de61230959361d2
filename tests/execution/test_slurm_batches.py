"""Which trials go into which array task; the record; the script."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from trialkit import Bench

from hpcscientist.campaign.dispatcher import make_batch
from hpcscientist.execution.backends.slurm.batches import (
    ArrayRecord,
    BatchFolder,
    InQueue,
    record_of,
    room,
)
from hpcscientist.execution.backends.slurm.commands import unshadowed
from hpcscientist.execution.backends.slurm.limits import SlurmLimits
from hpcscientist.execution.backends.slurm.submit import script
from hpcscientist.records.site import Site, SlurmSite
from hpcscientist.records.trial import TrialSpec

LIMITS = SlurmLimits(
    "22.05", max_array=1000, max_submit=500, max_minutes=600, nodes=4, accounting=True
)


@pytest.fixture(scope="module")
def specs(tmp_path_factory: pytest.TempPathFactory) -> list[TrialSpec]:
    first = Bench(tmp_path_factory.mktemp("bench")).prepare().trial("predict()", "t0")
    return [first.model_copy(update={"trial_id": f"t{number}"}) for number in range(300)]


@pytest.mark.parametrize(
    ("queue", "slots", "tasks"),
    [
        (InQueue(0), 10**9, 500),
        (InQueue(480), 10**9, 20),
        (InQueue(400, others=80), 10**9, 20),
        (InQueue(700), 10**9, 0),
        (InQueue(0), 3, 3),
        (InQueue(1, others=300), 3, 2),  # what is not ours takes no slot of ours
    ],
)
def test_room_is_the_least_of_all_limits(
    specs: list[TrialSpec], queue: InQueue, slots: int, tasks: int
) -> None:
    assert room(LIMITS, SlurmSite(), queue, slots, specs[0]).room == tasks


def recorded(
    campaign: str, trials: Path, elements: Sequence[Sequence[TrialSpec]], now: float
) -> ArrayRecord:
    return record_of(campaign, trials, make_batch(elements), now)


def test_the_record_comes_back(specs: list[TrialSpec], tmp_path: Path) -> None:
    batch = recorded("c1", tmp_path / "trials", [specs[:2], specs[2:3]], now=1000.5)
    folder = BatchFolder(tmp_path / batch.batch_id)
    assert folder.read() is None
    folder.write(batch)
    assert folder.read() == batch
    assert folder.job_id() is None
    folder.write_job_id("77")
    assert folder.job_id() == "77"
    assert recorded("c1", tmp_path, [specs[:1]], now=1000.5).batch_id != batch.batch_id


def lines(site: SlurmSite, specs: list[TrialSpec], folder: Path, **limits: int) -> list[str]:
    chosen = [
        spec.model_copy(update={"limits": spec.limits.model_copy(update=limits)}) for spec in specs
    ]
    batch = recorded("c1", folder, [[spec] for spec in chosen], now=1000.0)
    profile = Site(slurm=site)
    return script(profile, batch, folder / "with space", "a.module", avoid=["n3"]).splitlines()


def test_one_trial_is_an_array_too(specs: list[TrialSpec], tmp_path: Path) -> None:
    found = lines(SlurmSite(), specs[:1], tmp_path)
    assert "#SBATCH --array=0-0%1" in found


def test_nothing_is_asked_for_that_is_not_needed(specs: list[TrialSpec], tmp_path: Path) -> None:
    found = "\n".join(lines(SlurmSite(), specs[:3], tmp_path))
    for option in ("gres", "wckey", "account", "partition", "qos", "constraint", "gpus", "srun"):
        assert option not in found
    assert "--array=0-2%3" in found
    assert "--requeue" in found


def test_a_site_gets_what_it_demands(specs: list[TrialSpec], tmp_path: Path) -> None:
    site = SlurmSite(
        account="acc",
        partition="gpu",
        qos="long",
        constraint="a100",
        gres="gpu:a100:{gpus}",
        memory="mem-per-cpu",
        memory_margin_mb=100,
        at_once=2,
        requeue=False,
        exclude=("bad1",),
        extra=("--reservation=lab", "--exclusive"),
        modules=("apptainer/1.3",),
        setup=("ulimit -c 0",),
        python="/opt/py/bin/python",
    )
    found = lines(site, specs[:5], tmp_path, gpus=2, cpus=4, memory_mb=900)
    text = "\n".join(found)
    for option in (
        *("account=acc", "partition=gpu", "qos=long", "constraint=a100", "gres=gpu:a100:2"),
        *("mem-per-cpu=250M", "array=0-4%2", "no-requeue", "exclude=bad1,n3", "cpus-per-task=4"),
        *("reservation=lab", "exclusive"),
    ):
        assert f"#SBATCH --{option}" in found, (option, text)
    setup = found.index("module load apptainer/1.3")
    assert found[setup + 1] == "ulimit -c 0"
    command = f"exec /opt/py/bin/python -P -u -m a.module '{tmp_path}/with space'"
    assert found.index(command) > setup + 1
    assert "--mem=" not in text


def test_the_time_limit_holds_all_trials_of_a_task(specs: list[TrialSpec], tmp_path: Path) -> None:
    one = recorded("c", tmp_path, [specs[:1]], now=0.0)
    ten = recorded("c", tmp_path, [specs[:10], specs[10:11]], now=0.0)
    deadline = specs[0].limits.deadline_s
    assert one.minutes * 60 >= deadline + 60
    assert ten.minutes * 60 >= 10 * deadline + 60


def test_an_array_task_has_the_time_that_its_scorers_may_take(
    specs: list[TrialSpec], tmp_path: Path
) -> None:
    first = specs[0]
    limits = first.limits.model_copy(update={"scorer_s": first.limits.scorer_s + 600.0})
    longer = first.model_copy(update={"limits": limits})
    usual, more = (recorded("c", tmp_path, [[spec, spec]], 0.0).minutes for spec in (first, longer))
    assert more == usual + 20


def test_a_users_variables_do_not_beat_what_a_script_says() -> None:
    text = "#SBATCH --partition=a\n#SBATCH --time=5\n#SBATCH --array=0-3%4\n#SBATCH --requeue\n"
    given = {
        "SBATCH_PARTITION": "b",
        "SBATCH_TIMELIMIT": "1",
        "SBATCH_ARRAY_INX": "0-9",
        "SBATCH_NO_REQUEUE": "1",
        "SBATCH_ACCOUNT": "mine",
        "PATH": "/bin",
    }
    assert unshadowed(given, text) == {"SBATCH_ACCOUNT": "mine", "PATH": "/bin"}
