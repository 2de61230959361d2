"""What the development cluster is made of, without one: texts, records, the relay, processes."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import devcluster_kit  # noqa: F401 (finds devlib)
import pytest
from devlib import config, network, nodes, processes, relay
from devlib.base import Failed, run, write
from devlib.places import Cluster, Places
from faults_kit import until
from slurm_kit import DEVCLUSTER_COMMAND


@pytest.fixture
def places(tmp_path: Path) -> Places:
    made = Places(tmp_path)
    for folder in (made.run, made.log):
        folder.mkdir()
    return made


def keys(text: str) -> dict[str, str]:
    rows = (line.partition("=") for line in text.splitlines())
    return {name: value for name, _, value in rows}


def test_both_views_differ_in_places_alone() -> None:
    cluster = Cluster(Places(Path("/srv/c")), controller_port=1001, database_port=1002)
    inside = keys(config.slurm_conf(cluster, config.INSIDE, has_cgroups=True))
    outside = keys(config.slurm_conf(cluster, config.outside(cluster), has_cgroups=True))
    assert {
        name: (inside[name], outside[name]) for name in inside if inside[name] != outside[name]
    } == {
        "SlurmctldHost": ("ctl(10.77.0.1)", "ctl(127.0.0.1)"),
        "SlurmctldPort": ("26817", "1001"),
        "AccountingStorageHost": ("10.77.0.1", "127.0.0.1"),
        "AccountingStoragePort": ("26819", "1002"),
    }
    assert inside["NodeName"].split() == [
        "n[1-4]",
        "NodeAddr=10.77.0.[11-14]",
        "CPUs=2",
        "RealMemory=12000",
        "State=UNKNOWN",
    ]


def test_memory_and_processes_are_kept_by_cgroups_where_there_are_some() -> None:
    cluster = Cluster(Places(Path("/srv/c")))
    kept = config.slurm_keys(cluster, config.INSIDE, has_cgroups=True)
    polled = config.slurm_keys(cluster, config.INSIDE, has_cgroups=False)
    assert (kept["ProctrackType"], kept["TaskPlugin"]) == ("proctrack/cgroup", "task/cgroup")
    assert "JobAcctGatherParams" not in kept
    assert (polled["ProctrackType"], polled["TaskPlugin"]) == ("proctrack/linuxproc", "task/none")
    assert polled["JobAcctGatherParams"] == "OverMemoryKill"
    assert "ConstrainRAMSpace=yes\nConstrainSwapSpace=no" in config.cgroup_conf(True, False)
    assert config.cgroup_conf(False, False) == "CgroupPlugin=cgroup/v1\n"


def test_no_accounting_asks_for_no_association() -> None:
    cluster = Cluster(Places(Path("/srv/c")), accounting=False)
    found = config.slurm_keys(cluster, config.INSIDE, has_cgroups=True)
    assert found["AccountingStorageType"] == "accounting_storage/none"
    assert not any(name.startswith("AccountingStorageE") for name in found)


def test_settings_are_keys_whatever_their_case() -> None:
    settings = config.assigned({"MaxArraySize": "6"}, ["maxarraysize=51", "KillWait=9"])
    assert settings == {"maxarraysize": "51", "KillWait": "9"}
    cluster = Cluster(Places(Path("/srv/c")), settings=settings)
    text = config.slurm_conf(cluster, config.INSIDE, has_cgroups=False)
    assert text.count("MaxArraySize=51\n") == 1
    assert "maxarraysize" not in text
    assert config.assigned(settings, ["MAXARRAYSIZE="]) == {"KillWait": "9"}


@pytest.mark.parametrize(
    "word",
    ["MaxArraySize", "=5", "A B=5", "KillWait=5\nNodeName=x", "SlurmctldPort=1", "nodename=x"],
)
def test_what_is_not_to_be_set(word: str) -> None:
    with pytest.raises(Failed):
        config.assigned({}, [word])


def test_job_ids_begin_higher_each_time() -> None:
    begun = 1_700_000_000.0
    ids = [config.first_job_id(begun + later) for later in (0, 5, 3600)]
    assert ids == sorted(set(ids))
    assert all(0 < config.first_job_id(begun + day * 86400) < 0x03FF0000 for day in range(400))


def test_names_and_addresses() -> None:
    cluster = Cluster(Places(Path("/srv/c")), nodes=2)
    assert cluster.names == ["n1", "n2"]
    rows = dict(line.split()[::-1] for line in network.hosts(cluster).splitlines()[2:])
    assert rows == {"ctl": "10.77.0.1", "n1": "10.77.0.11", "n2": "10.77.0.12"}
    cluster.check("n2")
    cluster.check("ctl", controller=True)
    for name in ("ctl", "n3"):
        with pytest.raises(Failed, match="there are n1, n2"):
            cluster.check(name)


@pytest.mark.parametrize(
    ("state", "serves"),
    [
        ("idle", True),
        ("mixed", True),
        ("idle*", False),
        ("down*", False),
        ("", False),
        ("drng", False),
    ],
)
def test_states_of_nodes(state: str, serves: bool) -> None:
    assert nodes.in_service(state) is serves


@pytest.mark.parametrize(
    "folder", ["relative", "/tmp/x", "/var/tmp", "/srv/a b", f"/srv/{'x' * 80}"]
)
def test_folders_that_cannot_be(monkeypatch: pytest.MonkeyPatch, folder: str) -> None:
    monkeypatch.setenv("HPCSCI_DEVCLUSTER_DIR", folder)
    with pytest.raises(Failed, match="HPCSCI_DEVCLUSTER_DIR"):
        Places.from_environment()


def test_clusters_have_cgroups_of_their_own() -> None:
    one, other = Places(Path("/srv/a")), Places(Path("/srv/b"))
    assert one.cgroup != other.cgroup
    assert one.cgroup == Places(Path("/srv/a")).cgroup


def test_a_record_survives_the_disk(places: Places) -> None:
    cluster = Cluster(places, "someone", 3, 1, False, 41, 1001, 1002, {"KillWait": "9"})
    cluster.save()
    assert Cluster.load(places) == cluster
    places.record.write_text('{"nodes": 4, "unheard": "of"}')
    with pytest.raises(Failed, match="another version: slurm/devcluster down"):
        Cluster.load(places)
    places.record.unlink()
    with pytest.raises(Failed, match="slurm/devcluster up"):
        Cluster.load(places)


def test_files_are_written_whole_with_their_mode(tmp_path: Path) -> None:
    path = tmp_path / "key"
    for content in (b"first", b"second"):
        write(path, content, 0o600)
        assert (path.read_bytes(), path.stat().st_mode & 0o777) == (content, 0o600)
    assert list(tmp_path.iterdir()) == [path]


@contextmanager
def ended(process: subprocess.Popen[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with ended(subprocess.Popen(["sleep", "1000"])) as process:
        yield process


def test_a_process_is_known_by_its_start_too(
    places: Places, sleeper: subprocess.Popen[bytes]
) -> None:
    started = processes.start_time(sleeper.pid)
    record = places.run / "it.pid"
    record.write_text(f"{sleeper.pid} {int(started or 0) - 1}\n")
    assert processes.pid_of(places, "it") is None
    processes.end(places, "it")
    assert sleeper.poll() is None  # another one's number
    record.write_text(f"{sleeper.pid} {started}\n")
    assert processes.pid_of(places, "it") == sleeper.pid
    assert not processes.is_ending(sleeper.pid)
    sleeper.terminate()
    until("it is a zombie, which does not live", lambda: not processes.pid_of(places, "it"))
    sleeper.wait()
    assert processes.is_ending(sleeper.pid)
    assert processes.start_time(sleeper.pid) is None


@pytest.mark.parametrize("text", ["", "12", "x y", "1 2 3"])
def test_half_a_record_is_none(places: Places, text: str) -> None:
    (places.run / "it.pid").write_text(text)
    assert processes.pid_of(places, "it") is None
    assert processes.pid_of(places, "absent") is None


def test_a_daemon_is_recorded_before_it_begins(places: Places) -> None:
    """And has an environment, a session and descriptors of its own."""
    line = f"cat {places.run}/it.pid; ls /proc/self/fd; env; exec sleep 1000"
    marker = os.memfd_create("kept back")
    os.set_inheritable(marker, True)
    processes.start(places, processes.Task("it", ["/bin/sh", "-c", line])).close()
    os.close(marker)
    out = places.log / "it.out"
    until("it said all", lambda: "SLURM_CONF" in out.read_text())
    pid = processes.pid_of(places, "it")
    assert pid is not None
    first, *rest = out.read_text().splitlines()
    assert first == f"{pid} {processes.start_time(pid)}"
    assert [word for word in rest if word.isdigit()] == ["0", "1", "2", "3"]  # 3: ls's own
    assert os.getsid(pid) == pid
    processes.end(places, "it", gently_s=30)
    assert processes.pid_of(places, "it") is None


def test_what_does_not_start_says_why(places: Places) -> None:
    def prepare() -> None:
        raise OSError("no such place")

    task = processes.Task("it", ["/bin/true"], prepare=prepare)
    with pytest.raises(Failed, match=r"^it .*such place"):
        processes.start(places, task)
    assert processes.pid_of(places, "it") is None


def test_the_relay_listens_as_long_as_its_daemon_does() -> None:
    bound = relay.bind(43817)
    port = bound.getsockname()[1]
    with relay.bind(45817) as daemon:  # by number, as daemons are
        behind = daemon.getsockname()[1]
        pair = f"{bound.fileno()}:{behind}"
        command = [sys.executable, "-IS", relay.__file__, "127.0.0.1", pair]
        with ended(subprocess.Popen(command, pass_fds=[bound.fileno()])):
            bound.close()
            for _ in range(2):
                assert not _answers(port)
                daemon.listen()
                until("it listens", lambda: relay.listens("self", port))
                with socket.create_connection(("127.0.0.1", port)) as client:
                    served, _ = daemon.accept()
                    with served:
                        client.sendall(b"question")
                        client.shutdown(socket.SHUT_WR)
                        assert served.recv(99) == b"question"
                        assert served.recv(99) == b""
                        served.sendall(b"answer")
                    assert client.recv(99) == b"answer"
                daemon.shutdown(socket.SHUT_RDWR)
                until("it listens no more", lambda: not relay.listens("self", port))


def test_two_clusters_get_ports_of_their_own() -> None:
    with relay.bind(44817) as one, relay.bind(44817) as other:
        assert one.getsockname()[1] != other.getsockname()[1]


def _answers(port: int) -> bool:
    with suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port)):
        return True
    return False


def test_commands_fail_in_one_line() -> None:
    with pytest.raises(Failed, match=r"nonexistent .*slurm/devcluster install"):
        run(["nonexistent"])
    with pytest.raises(Failed, match=r": the last line$"):
        run(["sh", "-c", "echo first; echo the last line; exit 3"])
    assert run(["cat"], stdin="given").stdout == "given"
    assert run(["sleep", "100"], check=False, timeout=0.1).returncode == 124


def test_without_a_cluster_each_command_says_so(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, DEVCLUSTER_COMMAND, "env"],
        env=os.environ | {"HPCSCI_DEVCLUSTER_DIR": "/nonexistent/cluster"},
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "devcluster: no cluster is up: slurm/devcluster up\n"
