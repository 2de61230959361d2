"""Each fault that the development cluster can make, and what its Slurm makes of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from devcluster_kit import Job, Own, own_cluster
from faults_kit import until

pytestmark = [pytest.mark.slurm, pytest.mark.root, pytest.mark.timeout(1800)]

# The first run lasts until it is ended, later ones end at once.
LASTS = """
echo "$SLURMD_NODENAME" >>ran
[ "${SLURM_RESTART_COUNT:-0}" = 0 ] || exit 0
while :; do date +%s.%N >beat.new; mv beat.new beat; sleep 0.2; done
"""
DAEMON = """
setsid sh -c '(while :; do sleep 0.2; date >beat; done) &'
exec sleep 1000
"""
GROWS = "/usr/bin/python3 -c 'held = bytearray(2**30); print(len(held))'"


@pytest.fixture(scope="module")
def cluster_of_two() -> Iterator[Own]:
    with own_cluster(Own()) as own:
        own.up("--nodes", "2")
        yield own


@pytest.fixture
def own(cluster_of_two: Own) -> Iterator[Own]:
    """The cluster, whole and idle before and after."""
    own = cluster_of_two
    yield own
    own.run("scancel", "--me")
    for words in (("controller", "start"), ("accounting", "start")):
        own.do(*words)
    for node in ("n1", "n2"):
        own.do("start", node)
        own.do("restore", node)

    def is_idle() -> bool:
        done = own.run("sinfo", "--noheader", "--format=%T")
        queue = own.run("squeue", "--noheader")
        return set(done.stdout.split()) == {"idle"} and queue.stdout == ""

    until("it is idle", is_idle)


def other(node: str) -> str:
    return "n2" if node == "n1" else "n1"


def test_what_it_offers(own: Own) -> None:
    shown = own.run("sinfo", "--noheader", "--format=%P %c %m %D").stdout.splitlines()
    assert sorted(shown) == ["batch* 2 12000 2", "scavenge 2 12000 2", "urgent 2 12000 2"]
    asked = ("sacctmgr", "--noheader", "--parsable2", "show", "assoc")
    rows = own.run(*asked, "format=user,account,qos").stdout.splitlines()
    assert f"{own.user}|research|limited,normal" in rows
    assert "root|research|limited,normal" in rows


def test_nodes_are_apart(own: Own) -> None:
    """Names, addresses, processes and temporary folders; all else they share."""
    (own.places.nodes / "n1" / "tmp" / "mark").touch()
    for node in ("n1", "n2"):
        said = own.do(
            "exec", node, "--", "sh", "-c", "hostname; ls /tmp; ps -e --no-headers | wc -l"
        )
        name, *files, processes = said.split()
        assert name == node
        assert files == (["mark"] if node == "n1" else [])
        assert int(processes) < 12
    assert own.do("exec", "n1", "--", "sh", "-c", "echo $SLURM_CONF").strip() == str(
        own.places.slurm_conf
    )
    ours = str(Path("/proc/self/ns/net").readlink())
    assert own.do("exec", "n1", "readlink", "/proc/self/ns/net").strip() != ours


def test_exec_gives_exit_status_and_signals_on(own: Own) -> None:
    assert own.tell("exec", "n1", "--", "sh", "-c", "exit 7")[0] == 7
    running = own.start("exec", "n2", "--", "sh", "-c", "echo begun >/tmp/begun; exec sleep 1001")
    until("it began", (own.places.nodes / "n2" / "tmp" / "begun").exists)
    running.terminate()
    running.communicate(timeout=60)
    assert running.returncode == 128 + 15
    running = own.start("exec", "n2", "--", "sh", "-c", "echo again >/tmp/again; exec sleep 1001")
    until("it began", (own.places.nodes / "n2" / "tmp" / "again").exists)
    running.kill()
    running.communicate(timeout=60)
    until("it went", lambda: own.tell("exec", "n2", "pgrep", "-f", "sleep 1001")[0] == 1)


def test_srun_on_the_controller_s_side(own: Own) -> None:
    said = own.do("exec", "ctl", "srun", "--quiet", "--nodes=2", "--ntasks=2", "hostname")
    assert sorted(said.split()) == ["n1", "n2"]


def test_a_killed_node(own: Own) -> None:
    """Nobody says so: Slurm finds out, and its job is run elsewhere."""
    job = Job.submit(own, "killed", LASTS)
    job.await_lines("beat")
    node = job.node()
    own.do("kill", node)
    code, said = own.tell("status")
    assert code == 1
    assert f"{node}         NOT OK  dead" in said
    assert job.await_lines("ran", 2) == [node, other(node)]
    job.await_state("COMPLETED")
    own.do("start", node)
    Job.submit(own, "again", "true", f"--nodelist={node}").await_state("COMPLETED")


def test_a_killed_node_that_is_started_at_once(own: Own) -> None:
    job = Job.submit(own, "restarted", LASTS)
    job.await_lines("beat")
    node = job.node()
    own.do("kill", node)
    own.do("start", node)
    job.await_lines("ran", 2)
    job.await_state("COMPLETED")


def test_a_cut_link(own: Own) -> None:
    job = Job.submit(own, "cut", LASTS)
    job.await_lines("beat")
    node = job.node()
    own.do("cut", node)
    assert re.search(rf"\b{node} +NOT OK +runs.*\bcut\b", own.tell("status")[1])
    assert job.await_lines("ran", 2) == [node, other(node)]
    job.await_state("COMPLETED")
    beat = job.lines("beat")
    until("the first copy goes on", lambda: job.lines("beat") not in (beat, []))
    own.do("restore", node)
    listed = ("exec", node, "--", "sh", "-c", "readlink /proc/[0-9]*/cwd")
    until("the first copy is gone", lambda: str(job.folder) not in own.tell(*listed)[1])
    assert own.tell("status")[0] == 0


@pytest.mark.parametrize(("partition", "runs"), [("batch", 2), ("scavenge", 1)])
def test_preemption(own: Own, partition: str, runs: int) -> None:
    """By requeue, and by cancel."""
    job = Job.submit(
        own, f"low-{partition}", LASTS, f"--partition={partition}", "--nodes=2", "--exclusive"
    )
    job.await_lines("beat")
    Job.submit(own, f"urgent-{partition}", "true", "--partition=urgent").await_state("COMPLETED")
    job.await_state("COMPLETED" if runs == 2 else "PREEMPTED")
    assert len(job.lines("ran")) == runs


def test_scancel_leaves_no_daemon(own: Own) -> None:
    job = Job.submit(own, "daemon", DAEMON)
    job.await_lines("beat")
    listed = ("exec", job.node(), "--", "sh", "-c", "readlink /proc/[0-9]*/cwd")
    assert str(job.folder) in own.tell(*listed)[1].split()
    assert own.run("scancel", job.job_id).returncode == 0
    job.await_state("CANCELLED")
    until("nothing is left of it", lambda: str(job.folder) not in own.tell(*listed)[1].split())


def test_time_limit(own: Own) -> None:
    job = Job.submit(own, "late", "exec sleep 1000", "--time=1")
    job.await_state("TIMEOUT")


def test_memory_limit(own: Own) -> None:
    job = Job.submit(own, "grows", GROWS)
    job.await_state("OUT_OF_MEMORY")
    assert job.show()["ExitCode"] == "0:125"
    assert job.said().strip() == "" or "Killed" in job.said() or "oom" in job.said().lower()


@pytest.mark.parametrize("option", ["--qos", "--account", "--partition"])
def test_unknown_names_are_refused(own: Own, option: str) -> None:
    done = own.run("sbatch", f"{option}=nonesuch", "--wrap=true", "--output=/dev/null")
    assert done.returncode == 1
    assert option.removeprefix("--") in done.stderr


def test_submit_limit_of_a_qos(own: Own) -> None:
    held = ("sbatch", "--parsable", "--hold", "--qos=limited", "--output=/dev/null", "--wrap=true")
    codes = [own.run(*held).returncode for _ in range(9)]
    assert codes == [0] * 8 + [1]


def test_set_and_an_array_above_max_array_size(own: Own) -> None:
    waiting = Job.submit(own, "waiting", "true", "--hold")
    own.do("set", "MaxArraySize=51", "minjobage=17")
    try:
        shown = own.run("scontrol", "show", "config").stdout
        assert "MaxArraySize            = 51" in shown
        assert "MinJobAge               = 17 sec" in shown
        array = ("sbatch", "--parsable", "--output=/dev/null", "--wrap=true", "--array")
        assert own.run(*array, "0-51").returncode == 1
        assert own.run(*array, "0-3").returncode == 0
        assert waiting.show()["JobState"] == "PENDING"
        code, said = own.tell("set", "SlurmctldPort=9")
        assert (code, "SlurmctldPort " in said) == (1, True)
    finally:
        own.do("set", "MaxArraySize=", "MinJobAge=")
    assert "MaxArraySize            = 1001" in own.run("scontrol", "show", "config").stdout


def test_what_slurm_does_not_take_is_taken_back(own: Own) -> None:
    code, said = own.tell("set", "SelectType=select/nonesuch")
    assert code == 1
    assert " SelectType=select/nonesuch: " in said
    assert own.tell("status")[0] == 0


def test_controller_stopped_and_started(own: Own) -> None:
    jobs = [Job.submit(own, f"kept-{n}", "sleep 2; echo ran >>ran") for n in range(6)]
    until("some run", lambda: any(job.show().get("JobState") == "RUNNING" for job in jobs))
    own.do("controller", "stop")
    assert own.run("squeue").returncode != 0
    assert own.tell("status")[0] == 1
    own.do("controller", "start")
    for job in jobs:
        job.await_state("COMPLETED")
        assert job.lines("ran") == ["ran"]


def test_controller_killed_and_started(own: Own) -> None:
    jobs = [Job.submit(own, f"saved-{n}", "sleep 1; echo ran >>ran") for n in range(6)]
    state = own.places.state / "job_state"
    until("they are saved", lambda: all(j.name.encode() in state.read_bytes() for j in jobs))
    own.do("controller", "kill")
    assert own.run("squeue").returncode != 0
    own.do("controller", "start")
    for job in jobs:
        job.await_lines("ran")


def test_accounting_stopped_and_started(own: Own) -> None:
    own.do("accounting", "stop")
    assert own.run("sacct").returncode != 0
    jobs = [Job.submit(own, f"told-{n}", "true") for n in range(3)]
    for job in jobs:
        job.await_state("COMPLETED")
    own.do("accounting", "start")
    told = ("sacct", "--noheader", "--parsable2", "--allocations", "--format=jobname,state")
    rows = {f"{job.name}|COMPLETED" for job in jobs}
    until("all is told", lambda: rows <= set(own.run(*told).stdout.splitlines()))


def test_more_tasks_than_places(own: Own) -> None:
    array = Job.submit(own, "array", "echo $SLURM_ARRAY_TASK_ID >>ran", "--array=0-19")
    until("they have run", lambda: not array.is_queued())
    assert sorted(map(int, array.lines("ran"))) == list(range(20))
