from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from trialkit import Bench

from hpcscientist.execution import scratch, trial
from hpcscientist.files.rundir import TrialPaths
from hpcscientist.records.site import Host
from hpcscientist.records.trial import MachineFailed, Scored, TrialSpec

HOLD = """
import sys, time
from pathlib import Path
from hpcscientist.execution import scratch
from hpcscientist.files.rundir import TrialPaths
from hpcscientist.records.trial import TrialSpec
paths = TrialPaths(Path(sys.argv[1]))
with scratch.private_folder(TrialSpec.model_validate_json(paths.spec.read_bytes()), paths):
    print("made", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def base(tmp_path: Path) -> Path:
    folder = tmp_path / "node-local"
    folder.mkdir()
    return folder


def made(bench: Bench, base: Path, trial_id: str = "trial-1", **changes: object) -> TrialSpec:
    return bench.trial("predict()", trial_id, host=Host(scratch=str(base)), **changes)


def holder(paths: TrialPaths) -> subprocess.Popen[bytes]:
    """Start a worker that has a private folder and keeps it."""
    worker = subprocess.Popen([sys.executable, "-c", HOLD, str(paths.root)], stdout=subprocess.PIPE)
    assert worker.stdout is not None
    assert worker.stdout.readline() == b"made\n"
    return worker


def kill(worker: subprocess.Popen[bytes]) -> None:
    worker.kill()
    worker.communicate()


def test_private_and_gone_at_the_end(bench: Bench, base: Path) -> None:
    spec = made(bench, base)
    with scratch.private_folder(spec, bench.run.trial(spec.trial_id)) as folder:
        assert folder.parent == base
        assert folder.stat().st_mode & 0o777 == 0o700
        assert len(folder.name) < 50  # sockets lie below it
        (folder / "sub").mkdir()
    assert list(base.iterdir()) == []


def test_what_a_killed_worker_left_is_swept_by_the_next(bench: Bench, base: Path) -> None:
    mine, other = made(bench, base), made(bench, base, "trial-2")
    paths, others = bench.run.trial("trial-1"), bench.run.trial("trial-2")
    killed, living = holder(paths), holder(others)
    try:
        assert not scratch.sweep(other, others)
        assert len(list(base.iterdir())) == 2
        kill(killed)
        assert not scratch.sweep(other, others)  # it was another trial's
        assert len(list(base.iterdir())) == 1
        kill(holder(paths))
        assert scratch.sweep(mine, paths)
        assert len(list(base.iterdir())) == 1
    finally:
        kill(living)
    assert scratch.sweep(other, others)
    assert list(base.iterdir()) == []


def test_another_campaigns_folders_and_other_files_are_left_alone(bench: Bench, base: Path) -> None:
    spec, paths = made(bench, base), bench.run.trial("trial-1")
    kill(holder(paths))
    (base / "hpcsci-images-0").mkdir()
    (base / "hpcsci-x").write_text("")
    provenance = spec.provenance.model_copy(update={"campaign_id": "another"})
    scratch.sweep(spec.model_copy(update={"provenance": provenance}), paths)
    assert len(list(base.iterdir())) == 3
    scratch.sweep(spec, paths)
    assert {p.name for p in base.iterdir()} == {"hpcsci-images-0", "hpcsci-x"}


def test_a_reused_process_id_is_not_taken_for_the_worker(bench: Bench, base: Path) -> None:
    spec, paths = made(bench, base), bench.run.trial("trial-1")
    killed = holder(paths)
    kill(killed)
    (left,) = base.iterdir()
    renamed = left.rename(left.with_name(left.name.replace(str(killed.pid), str(os.getpid()))))
    scratch.sweep(spec, paths)
    assert renamed.exists()  # we may have made it
    before = psutil.Process().create_time() - 100
    os.utime(renamed, (before, before))
    scratch.sweep(spec, paths)
    assert not renamed.exists()


def test_remove_of_one_trial(bench: Bench, base: Path) -> None:
    made(bench, base)
    made(bench, base, "trial-2")
    kill(holder(bench.run.trial("trial-1")))
    kill(holder(bench.run.trial("trial-2")))
    scratch.remove_of(bench.run.trial("trial-1"))
    assert len(list(base.iterdir())) == 1
    scratch.remove_of(TrialPaths(bench.root / "no spec.json"))
    scratch.remove_of(bench.run.trial("trial-2"))
    assert list(base.iterdir()) == []


def test_a_trial_runs_in_it_and_sweeps_it(bench: Bench, base: Path) -> None:
    spec, paths = made(bench, base), bench.run.trial("trial-1")
    kill(holder(paths))
    assert trial.run(spec, paths).outcome == Scored(metrics={"accuracy": 0.75})
    assert list(base.iterdir()) == []


@pytest.mark.parametrize(
    ("host", "said"),
    [
        (Host(scratch="$HPCSCI_NO_SUCH_VARIABLE/x"), "sets no HPCSCI_NO_SUCH_VARIABLE"),
        (Host(scratch="/dev/null/x"), "host.scratch is /dev/null/x"),
    ],
)
def test_a_node_without_the_scratch_of_the_profile(bench: Bench, host: Host, said: str) -> None:
    spec = bench.trial("predict()", host=host)
    outcome = trial.run(spec, bench.run.trial(spec.trial_id)).outcome
    assert isinstance(outcome, MachineFailed)
    assert outcome.failure == "setup"
    assert said in outcome.detail
