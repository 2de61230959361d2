"""The development cluster comes up whatever was killed before, and leaves nothing."""

from __future__ import annotations

import fcntl
import json
import os
import pwd
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from devcluster_kit import FOLDER, UP_S, Job, Own, await_end, own_cluster, recorded
from slurm_kit import DEVCLUSTER_COMMAND

pytestmark = [pytest.mark.slurm, pytest.mark.root, pytest.mark.timeout(1800)]

PARTS = ["munge", "controller", "relay", "database", "accounting", "n1", "n2"]
# Where `up` is when it is killed: the process that it has just started.
MIDDLES = ("supervisor", "ctl", "mariadbd", "slurmctld", "slurmd-n2")


@pytest.fixture
def own() -> Iterator[Own]:
    with own_cluster(Own()) as made:
        yield made


def test_up_and_down(own: Own) -> None:
    own.up("--nodes", "2")
    rows = [line.split() for line in own.do("status").splitlines()]
    assert [row[:2] for row in rows] == [[name, "ok"] for name in PARTS]
    assert len(own.seen) > 10
    links = {path.name for path in Path("/sys/class/net").iterdir()}
    assert not links & {"p-ctl", "p-n1", "p-n2"}  # nor has this machine their names
    ports = recorded(own).controller_port, recorded(own).database_port
    assert own.run("sinfo", "--noheader", "--partition=batch", "--format=%D").stdout == "2\n"
    # A job that leaves its session, and a process of the user's on this machine.
    Job.submit(own, "endless", "setsid sleep 1000 & exec sleep 1000").await_state("RUNNING")
    login = subprocess.Popen(["runuser", "-u", own.user, "--", "sleep", "1000"])
    assert "up already" in own.do("up", "--nodes", "2")
    own.down()
    assert login.wait(60) != 0
    assert own.left() == []
    for port in ports:
        with socket.socket() as probe, pytest.raises(ConnectionRefusedError):
            probe.connect(("127.0.0.1", port))
    code, said = own.tell("status")
    assert (code, said) == (1, "devcluster: no cluster is up: slurm/devcluster up\n")
    assert own.do("down") == "down already\n"
    assert own.left() == []


def test_a_living_cluster_is_not_replaced_by_another_one(own: Own) -> None:
    own.up("--nodes", "1", "--no-accounting")
    supervisor = own.pid("supervisor")
    code, said = own.tell("up", "--nodes", "2", "--no-accounting")
    assert code == 1
    assert "down first" in said
    own.do("controller", "stop")
    code, said = own.tell("up", "--nodes", "1", "--no-accounting")
    assert code == 1
    assert "not whole" in said
    assert own.pid("supervisor") == supervisor


def test_job_ids_of_an_earlier_cluster_do_not_come_back(own: Own) -> None:
    ids = []
    for _ in range(2):
        own.up("--nodes", "1", "--no-accounting")
        ids.append(int(Job.submit(own, "short", "true").job_id))
        own.down()
    assert ids[0] < ids[1]


def test_up_after_its_supervisor_was_killed(own: Own) -> None:
    own.up("--nodes", "2")
    Job.submit(own, "endless", "exec sleep 1000").await_state("RUNNING")
    own.kill("supervisor")  # and not a moment is waited
    own.up("--nodes", "2")
    assert own.run("squeue", "--noheader").stdout == ""
    done = own.run("sacct", "--noheader", "--allusers")
    assert (done.returncode, done.stdout) == (0, "")
    own.down()
    assert own.left() == []


def test_up_after_its_records_were_removed_by_hand(own: Own) -> None:
    own.up("--nodes", "1", "--no-accounting")
    supervisor = own.pid("supervisor")
    for record in own.places.run.glob("*.pid"):
        record.unlink()
    own.up("--nodes", "1", "--no-accounting")
    await_end(supervisor)
    own.down()
    assert own.left() == []


@pytest.mark.parametrize("name", MIDDLES)
def test_up_ends_with_its_supervisor(own: Own, name: str) -> None:
    rising = own.held_up(name)
    own.note()
    own.kill("supervisor")
    rising.send_signal(signal.SIGCONT)
    said, _ = rising.communicate(timeout=UP_S)
    assert rising.returncode == 1, said
    assert said.splitlines()[-1].startswith("devcluster: ")
    assert "Traceback" not in said
    assert [path.name for path in own.folder.iterdir() if path.name != "lock"] == ["log"]
    own.up("--nodes", "1", "--no-accounting")


@pytest.mark.parametrize("name", MIDDLES)
def test_the_supervisor_ends_with_its_up(own: Own, name: str) -> None:
    rising = own.held_up(name)
    supervisor = own.pid("supervisor")
    rising.kill()
    rising.communicate()
    await_end(supervisor)
    own.up("--nodes", "1", "--no-accounting")
    own.down()
    assert own.left() == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_up_leaves_nothing_but_logs(own: Own, number: signal.Signals) -> None:
    rising = own.start("up", "--nodes", "2")
    own.pid("slurmctld")
    own.note()
    rising.send_signal(number)
    said, _ = rising.communicate(timeout=UP_S)
    assert rising.returncode == 1
    assert said.splitlines()[-1] == f"devcluster: stopped by signal {number}"
    own.down()
    assert own.left() == []


def test_its_daemons_hold_nothing_of_their_caller(own: Own) -> None:
    """Neither pipe nor lock nor folder: who reads what `up` says sees its end."""
    reading, writing = os.pipe()
    with os.fdopen(reading) as said:
        subprocess.run(
            [DEVCLUSTER_COMMAND, "up", "--nodes", "1", "--no-accounting"],
            env=os.environ | own.variables,
            stdout=writing,
            stderr=writing,
            pass_fds=[writing],
            start_new_session=True,
            check=True,
            timeout=UP_S,
        )
        os.close(writing)
        assert "up: 1 nodes" in said.read()


def test_with_streams_closed_and_signals_ignored(own: Own) -> None:
    line = f"trap '' INT HUP CHLD PIPE; exec {DEVCLUSTER_COMMAND} up --nodes 1 <&- >&- 2>&-"
    subprocess.run(["sh", "-c", line], env=os.environ | own.variables, check=True, timeout=UP_S)
    job = Job.submit(own, "short", "echo ran >ran")
    assert job.await_lines("ran") == ["ran"]


def test_without_accounting(own: Own) -> None:
    own.up("--nodes", "1", "--no-accounting")
    assert own.run("sacct").returncode != 0
    Job.submit(own, "short", "true").await_state("COMPLETED")
    code, said = own.tell("accounting", "stop")
    assert code == 1
    assert "--no-accounting" in said


def test_two_at_once(own: Own) -> None:
    other = Own(Path(f"{FOLDER}-2"), own.user)
    with own_cluster(other):
        rising = [each.start("up", "--nodes", "1") for each in (own, other)]
        for process in rising:
            said, _ = process.communicate(timeout=UP_S)
            assert process.returncode == 0, said
        assert recorded(own).controller_port != recorded(other).controller_port
        for each in (own, other):
            Job.submit(each, f"in-{each.folder.name}", "true").await_state("COMPLETED")
        # The user, who is both's, stays with the one that is left.
        own.down()
        assert pwd.getpwnam(own.user)
        assert other.run("sbatch", "--wrap=true", "--output=/dev/null").returncode == 0
        other.note()
        other.down()
        assert other.left() == []
    assert own.left() == []


def test_a_user_stays_with_a_cluster_that_another_namespace_hides(own: Own) -> None:
    own.up("--nodes", "1", "--no-accounting")
    other = Own(Path(f"{FOLDER}-2"), own.user)
    apart = ("unshare", "--pid", "--fork", "--mount-proc", DEVCLUSTER_COMMAND, "down")
    subprocess.run(apart, env=os.environ | other.variables, check=True, timeout=UP_S)
    assert pwd.getpwnam(own.user)
    Job.submit(own, "short", "true").await_state("COMPLETED")
    own.down()
    assert own.left() == []


def test_commands_wait_for_each_other(own: Own) -> None:
    """Two at once; the second one's lock is a new file, for `down` removes its own."""
    own.folder.mkdir()
    held = os.open(own.places.lock, os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(held, fcntl.LOCK_EX)
    commands = [own.start("down"), own.start("up", "--nodes", "1", "--no-accounting")]
    for command in commands:
        assert command.stdout is not None
        said = command.stdout.readline()
        assert said == f"waiting for another devcluster command on {own.folder}\n"
    assert list(own.folder.iterdir()) == [own.places.lock]
    os.close(held)
    for command in commands:
        said, _ = command.communicate(timeout=UP_S)
        assert command.returncode == 0, said
    own.down()
    assert own.left() == []


def test_env_is_for_every_user(own: Own) -> None:
    own.up("--nodes", "1", "--no-accounting")
    said = own.do("env")
    assert f"export SLURM_CONF={own.places.slurm_conf}\n" in said
    assert f"export HPCSCI_DEVCLUSTER_USER={own.user}\n" in said
    assert json.loads(own.places.record.read_text())["nodes"] == 1
    code, said = own.tell("exec", "n9", "true")
    assert (code, said) == (1, "devcluster: no node 'n9': there are n1, ctl\n")
