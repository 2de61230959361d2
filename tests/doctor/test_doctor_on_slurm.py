"""The doctor on a real Slurm, as an ordinary user: what it finds, and that it leaves nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest
from slurm_kit import LIMIT_S, Cluster

pytestmark = pytest.mark.slurm

MARK = "doctor-"
PATIENT = ("--wait", "240")  # other tests use the nodes too
Rows = dict[str, dict[str, str]]


def doctor(cluster: Cluster, folder: Path, *arguments: str | Path) -> tuple[int, Rows]:
    done = cluster.hpcsci("doctor", "--json", *arguments, cwd=folder)
    assert done.stdout, done.stderr
    assert "Traceback" not in done.stderr
    return done.returncode, {row["name"]: row for row in json.loads(done.stdout)}


def check_nothing_left(cluster: Cluster, folder: Path) -> None:
    assert [path.name for path in folder.iterdir()] == []
    assert [job for job in cluster.queue(MARK) if job.state != "COMPLETING"] == []


def test_healthy_cluster(cluster: Cluster, shared: Path) -> None:
    code, rows = doctor(cluster, shared, *PATIENT)
    assert code == 0, [row for row in rows.values() if row["state"] == "missing"]
    for name in ("slurm", "slurm controller", "slurm limits", "file system", "space", "job"):
        assert rows[name]["state"] == "ok", rows[name]
    for name in ("shared file system", "folders", "python"):
        assert rows[name]["state"] == "ok", rows[name]
    assert "tasks (MaxArraySize)" in rows["slurm limits"]["found"]
    assert any(name.startswith("partition ") for name in rows)
    assert "NO SANDBOX" in rows["container"]["found"]
    check_nothing_left(cluster, shared)


@pytest.mark.skipif(
    "HPCSCI_TEST_IMAGE" not in os.environ, reason="HPCSCI_TEST_IMAGE names no container image"
)
def test_container_on_a_compute_node(cluster: Cluster, shared: Path) -> None:
    image = os.environ["HPCSCI_TEST_IMAGE"]
    code, rows = doctor(cluster, shared, "--image", image, *PATIENT)
    assert code == 0, [row for row in rows.values() if row["state"] == "missing"]
    for name in ("apptainer", "container", "network", "host's folders", "user"):
        assert rows[name]["state"] == "ok", rows[name]
    assert "cut" in rows["network"]["found"]
    check_nothing_left(cluster, shared)


def test_without_a_job_nodes_are_said_to_be_unknown(cluster: Cluster, shared: Path) -> None:
    code, rows = doctor(cluster, shared, "--no-job")
    assert code == 0
    assert rows["job"]["state"] == "warning"
    assert "--no-job" in rows["job"]["found"]
    assert "python" not in rows


def test_partition_that_is_not_there(cluster: Cluster, shared: Path) -> None:
    code, rows = doctor(cluster, shared, "--partition", "nowhere")
    assert code == 1
    assert rows["partition"]["state"] == "missing"
    assert "nowhere" in rows["partition"]["found"]
    assert rows["job"]["state"] == "missing"
    check_nothing_left(cluster, shared)


@pytest.mark.parametrize("option", ["--account", "--qos", "--constraint"])
def test_what_slurm_refuses_is_told_in_its_words(
    cluster: Cluster, shared: Path, option: str
) -> None:
    _, rows = doctor(cluster, shared, "--no-job")
    if rows["slurm accounting"]["state"] != "ok" and option != "--constraint":
        pytest.skip("this cluster has no accounting, and so neither accounts nor QOS")
    code, rows = doctor(cluster, shared, option, "nowhere")
    assert code == 1
    assert "Slurm refuses" in rows["job"]["found"]
    assert option in rows["job"]["mend"]
    check_nothing_left(cluster, shared)


def test_interpreter_that_nodes_lack(cluster: Cluster, shared: Path) -> None:
    (shared / "site.toml").write_text('[slurm]\npython = "/nowhere/python"\n')
    cluster.own(shared)
    code, rows = doctor(cluster, shared, "--site", "site.toml")
    assert code == 1
    assert "/nowhere/python" in rows["job"]["found"]
    assert "python" in rows["job"]["mend"]
    (shared / "site.toml").unlink()
    check_nothing_left(cluster, shared)


def test_folder_that_nodes_do_not_share(cluster: Cluster, shared: Path) -> None:
    private = Path("/tmp") / shared.name
    private.mkdir()
    cluster.own(private)
    (shared / "site.toml").write_text("[watch]\nvisible_s = 2.0\n")
    code, rows = doctor(cluster, shared, "--site", "site.toml", "--run-dir", private)
    assert code == 1
    assert "share" in rows["job"]["mend"]
    (shared / "site.toml").unlink()
    check_nothing_left(cluster, shared)
    private.rmdir()


def test_more_than_any_node_has_is_not_waited_for(cluster: Cluster, shared: Path) -> None:
    (shared / "site.toml").write_text('[slurm]\nextra = ["--mem=900T"]\nmemory = "none"\n')
    code, rows = doctor(cluster, shared, "--site", "site.toml")
    assert code == 1
    assert rows["job"]["state"] == "missing"
    (shared / "site.toml").unlink()
    check_nothing_left(cluster, shared)


def held(folder: Path) -> Path:
    site = folder / "site.toml"
    # A job that waits, for a reason that waiting fixes.
    site.write_text('[slurm]\nextra = ["--begin=now+1hour"]\n')
    return site


def test_job_that_does_not_start_is_cancelled(cluster: Cluster, shared: Path) -> None:
    site = held(shared)
    code, rows = doctor(cluster, shared, "--site", site, "--wait", "1")
    assert code == 0
    assert rows["job"]["state"] == "warning"
    assert "BeginTime" in rows["job"]["found"]
    site.unlink()
    check_nothing_left(cluster, shared)


# Whatever started the tests may ignore signals, and ignoring is inherited.
HEEDING = "import os, signal, sys; [signal.signal(n, signal.SIG_DFL) for n in (1, 2)]; "
HEEDING += "os.execv(sys.argv[1], sys.argv[1:])"


def of_user(process: subprocess.Popen[str]) -> psutil.Process:
    """The user's own process, below those that only change the user."""
    found = psutil.Process(process.pid)
    while "hpcscientist.cli.main" in " ".join(found.cmdline()) and found.children():
        found = found.children()[0]
    return found


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_interrupted_doctor_leaves_nothing(
    cluster: Cluster, shared: Path, number: signal.Signals
) -> None:
    site = held(shared)
    command = [*cluster.hpcsci_command, "doctor", "--site", str(site)]
    process = cluster.start(cluster.python, "-c", HEEDING, *command, cwd=shared)
    until = time.monotonic() + LIMIT_S
    while not cluster.queue(MARK) and time.monotonic() < until:
        time.sleep(0.2)
    assert cluster.queue(MARK)
    of_user(process).send_signal(number)
    _, stderr = process.communicate(timeout=LIMIT_S)
    assert stderr.splitlines()[-1] == "hpcsci: interrupted"
    site.unlink()
    check_nothing_left(cluster, shared)


def test_root_may_ask_too(cluster: Cluster, shared: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root")
    code, rows = doctor(cluster.as_user("root"), shared, *PATIENT)
    assert code == 0, [row for row in rows.values() if row["state"] == "missing"]
    check_nothing_left(cluster, shared)
