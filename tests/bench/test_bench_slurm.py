"""What `bench slurm` compares, and one small run on a real Slurm; no time is asserted."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest
from slurm_kit import Cluster

from hpcscientist.bench.figure import RunCosts
from hpcscientist.bench.slurm import figures, instant, ours
from hpcscientist.bench.slurm.ground import SlurmGround
from hpcscientist.campaign.dispatcher import make_batch
from hpcscientist.cli import bench as command
from hpcscientist.cli.main import run
from hpcscientist.errors import CampaignError
from hpcscientist.execution.backends.slurm.batches import BatchFolder, record_of
from hpcscientist.execution.sandbox.container import Places, apptainer_command
from hpcscientist.records.site import Site, SlurmSite
from hpcscientist.records.trial import Scored, TrialSpec
from hpcscientist.results.store import read_result
from hpcscientist.worker.entry import run_trial


@pytest.fixture
def ground(tmp_path: Path) -> SlurmGround:
    made = SlurmGround(tmp_path / "with space", "bench1", Site(), seconds=0.0)
    made.prepare()
    return made


def laid_out(ground: SlurmGround, count: int) -> list[TrialSpec]:
    specs = ground.specs(count, deadline_s=30.0)
    for spec in specs:
        ground.run.trial(spec.trial_id).out.mkdir(parents=True)
        ground.run.trial(spec.trial_id).spec.write_text(spec.model_dump_json())
    return specs


def test_its_trials_are_scored_by_the_worker(ground: SlurmGround) -> None:
    spec = laid_out(ground, 1)[0]
    paths = ground.run.trial(spec.trial_id)
    run_trial(str(paths.root))
    report = read_result(paths)
    assert report is not None
    assert report.outcome == Scored(metrics={"accuracy": 1.0})
    with pytest.raises(CampaignError, match=r"1 of 1 .*hpcsci doctor"):
        ours._check([report.model_copy(update={"outcome": None})])


def test_a_word_of_the_shell_keeps_all_but_the_number() -> None:
    line = figures.shell(["echo", "a b/@TASK@/c", "it's @TASK@", "$HOME", "d"])
    task = {"SLURM_ARRAY_TASK_ID": "7"}
    said = subprocess.check_output(["sh", "-c", line], env=task, text=True)
    assert said == "a b/7/c it's 7 $HOME d\n"


def test_the_bare_array_asks_for_what_ours_asks_for(ground: SlurmGround) -> None:
    ground = replace(ground, image="/images/a.sif", site=Site(slurm=SlurmSite(account="physics")))
    specs = ground.specs(3, deadline_s=30.0)
    text = figures.bare_script(ground, specs, figures.command(ground, specs[0]))
    for line in ("--array=0-2", "--account=physics", "--cpus-per-task=1", "--mem=1024M"):
        assert f"#SBATCH {line}" in text
    assert "hpcscientist.worker" not in text


def test_the_bare_command_is_the_trial_s(ground: SlurmGround) -> None:
    ground = replace(ground, image="/images/a.sif")
    spec = ground.specs(1, deadline_s=30.0)[0]
    found = figures.command(ground, spec)
    place = ground.root / "bare" / "@TASK@"
    places = Places("/images/a.sif", ground.code, ground.data, place / "out", place / "work")
    as_root, as_user = (apptainer_command(spec, places, {}, is_root=r) for r in (True, False))
    assert found in (as_root, as_user)
    assert "--net" in found


def test_the_bare_line_does_what_a_trial_does(ground: SlurmGround) -> None:
    spec = ground.specs(1, deadline_s=30.0)[0]
    figures.make_places(ground, 1)
    line = figures.shell(figures.command(ground, spec))
    assert shlex.split(line)[0] == "env"
    subprocess.run(
        ["sh", "-c", line], env={"SLURM_ARRAY_TASK_ID": "0", "PATH": "/usr/bin:/bin"}, check=True
    )
    assert (ground.root / "bare" / "0" / "out" / "predictions.csv").exists()


def test_instant_trials_leave_what_a_worker_leaves(ground: SlurmGround) -> None:
    specs = laid_out(ground, 3)
    folder = BatchFolder(ground.root / "batch")
    batch = make_batch([specs[:1], specs[1:]])
    folder.write(record_of("bench1", ground.run.trials, batch, time.time()))
    instant.run_element(folder.root, 1)
    reports = [read_result(ground.run.trial(spec.trial_id)) for spec in specs]
    assert [report is not None for report in reports] == [False, True, True]


def test_growth_is_compared_with_linear_growth() -> None:
    def taken(cpu_s: float, peak_mb: float) -> RunCosts:
        return RunCosts((1.0,), (cpu_s,), (peak_mb,))

    found = figures.compare_driver(
        {50: taken(0.5, 80.0), 500: taken(4.0, 100.0), 5000: taken(50.0, 120.0)}
    )
    assert [figure.ratio for figure in found] == [
        *(None, pytest.approx(0.8), pytest.approx(1.25)),
        *(None, pytest.approx(0.125), pytest.approx(0.12)),
    ]
    assert [figure.target for figure in found] == [None, 1.0, 1.0] * 2
    assert found[1].compared_with == "linear growth from 50 trials: 5 s"


def test_entries_are_files_and_folders(ground: SlurmGround) -> None:
    (ground.root / "x" / "y").mkdir(parents=True)
    (ground.root / "x" / "y" / "file").touch()
    assert figures.count_entries(ground.root / "x") == 2


def test_says_that_there_is_no_slurm(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("HPCSCI_TEST_IMAGE", raising=False)
    assert run(["bench", "slurm", "--dir", str(tmp_path)]) == 2
    assert "slurm/devcluster up" in capsys.readouterr().err
    assert run(["bench", "slurm", "--image", str(tmp_path / "none.sif")]) == 2
    assert "none.sif" in capsys.readouterr().err
    assert command._SLURM == figures.PARTS


@pytest.mark.slurm
def test_small_run_on_the_cluster(cluster: Cluster, shared: Path) -> None:
    sizes = ("--size", "2", "--size", "4")
    done = cluster.hpcsci(
        *("bench", "slurm", "--json", "--part", "short", "--part", "driver"),
        *("--trials", "3", *sizes, "--dir", shared),
        cwd=shared,
    )
    assert done.returncode == 0, done.stderr
    found = {figure["name"]: figure for figure in json.loads(done.stdout)}
    assert list(found) == [
        "makespan, packed, 3 trials of 1 s",
        "scheduler commands per 100 trials, 3 trials of 1 s",
        "inodes left per trial, 3 trials of 1 s",
        *(f"driver's CPU time, {size} trials" for size in (2, 4)),
        *(f"driver's peak memory, {size} trials" for size in (2, 4)),
    ]
    assert all(figure["value"] > 0 for figure in found.values())
    with_target = [figure for figure in found.values() if figure["target"] is not None]
    assert all(figure["ratio"] > 0 and figure["compared_with"] for figure in with_target)
    assert list(shared.iterdir()) == []
    assert cluster.queue("bench") == []


@pytest.mark.slurm
@pytest.mark.apptainer
@pytest.mark.timeout(1800)  # trials of 10 s, one a task, after a bare array of the same
def test_all_parts_in_containers_on_the_cluster(cluster: Cluster, shared: Path) -> None:
    image = os.environ.get("HPCSCI_TEST_IMAGE")
    if image is None:
        pytest.skip("NOT TESTED: HPCSCI_TEST_IMAGE names no image")
    size = ("--trials", "16", "--size", "20", "--size", "80")
    done = cluster.hpcsci(
        *("bench", "slurm", "--json", "--image", image, "--dir", shared, *size),
        cwd=shared,
        timeout=1700,
    )
    assert done.returncode == 0, done.stderr
    found = [figure["name"] for figure in json.loads(done.stdout)]
    assert {name for name in found if name.startswith("driver's CPU time")} == {
        "driver's CPU time, 20 trials",
        "driver's CPU time, 80 trials",
    }
    assert any(name.endswith("16 trials of 10 s") for name in found), found
    assert any(name.endswith("16 trials of 1 s") for name in found), found
    assert list(shared.iterdir()) == []
    assert cluster.queue("bench") == []
