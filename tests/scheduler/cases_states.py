"""How array tasks end, and what they may do before: every state that Slurm has for it."""

from __future__ import annotations

from case_table import case
from case_world import World

from hpcscientist.errors import RunDirectoryError

TWO = ("a", "b")


async def both_run(w: World, **changes: object) -> None:
    """Two trials, side by side in one array."""
    await w.start(*TWO, **changes)
    await w.begin(*TWO)
    await w.look("both run", lambda q: q.are(a="RUNNING", b="RUNNING"))


async def again(w: World, *trials: str, times: int = 2) -> None:
    """What Slurm ended is submitted again, and ends well; so do the others."""
    await w.submitted(*trials, times=times)
    await w.begin(*trials)
    await w.tell("finish", *TWO)
    await w.end()


@case()
async def completed(w: World) -> None:
    await both_run(w)
    await w.tell("finish", *TWO)
    await w.end()
    w.check(a="scored", b="scored", jobs=1)


@case()
async def ended_without_a_result(w: World) -> None:
    """COMPLETED, yet there is no result: the machine's failure, once none can be hidden."""
    w.site(slurm={"setup": ["exit 0"]})
    w.retries = 0
    await w.start("a")
    await w.printed("a")
    await w.look("it ended well", lambda q: q.are(a="COMPLETED"))
    await w.end()
    w.check(a="lost", jobs=1)


@case()
async def failed_at_the_start(w: World) -> None:
    """FAILED by its exit status, before the worker began; retried, and given up."""
    w.site(slurm={"setup": ["exit 3"]})
    w.retries = 1
    await w.start("a")
    await w.printed("a")
    await w.look("it failed", lambda q: q.are(a="FAILED"))
    await w.submitted("a")
    await w.printed("a")
    await w.look("it failed again", lambda q: q.are(a="FAILED"), rounds=0)
    await w.end()
    w.check(a="lost lost", jobs=2)
    assert "had not begun" in w.story()


@case(by_hand=True)
async def nodes_do_not_see_the_run_directory(w: World) -> None:
    """Slurm cannot make a log there: two nodes left none, so every further trial would be lost."""
    await w.start(*TWO)
    await w.submitted(*TWO, times=1)
    await w.look("both failed", lambda q: q.are(a="FAILED", b="FAILED"), rounds=0)
    await w.fails(RunDirectoryError, str(w.paths.root), "n1, n2", "--run-dir")
    await w.leave(look=False)
    for name in TWO:
        (report,) = w.reports(name)  # and no second run was submitted
        assert "left no log" in report.outcome.detail
    assert len(w.jobs) == 1


@case(by_hand=True)
async def one_node_does_not_see_the_run_directory(w: World) -> None:
    """It lost a mount: what it failed runs elsewhere, and the campaign goes on."""
    w.site(watch={"visible_s": 60.0})
    await w.start(*TWO)
    await w.begin("b")
    await w.look("one failed", lambda q: q.are(a="FAILED", b="RUNNING"))
    await again(w, "a")
    w.check(a="lost scored", b="scored", jobs=2)


@case()
async def worker_killed(w: World) -> None:
    """FAILED by a signal."""
    await both_run(w)
    await w.tell("kill", "a")
    await w.look("one failed", lambda q: q.are(a="FAILED", b="RUNNING"))
    await again(w, "a")
    w.check(a="lost scored", b="scored", jobs=2)


@case()
async def timeout_before_the_deadline(w: World) -> None:
    await both_run(w)
    await w.user("scontrol", "update", f"JobId={w.element('a')}", "EndTime=now+5")
    await w.look("one has no time left", lambda q: q.are(a="TIMEOUT", b="RUNNING"))
    await again(w, "a")
    w.check(a="walltime scored", b="scored", jobs=2)
    assert w.reports("a")[0].usage.slurm_state == "TIMEOUT"


@case()
async def timeout_past_the_deadline(w: World) -> None:
    """The worker did not end what ran too long, so Slurm did."""
    await w.start("a", deadline_s=30.0)
    await w.begin("a")
    await w.tell("stop", "a")
    await w.look("it runs", lambda q: q.are(a="RUNNING"))
    await w.user("scontrol", "update", f"JobId={w.element('a')}", "EndTime=now+35")
    await w.look("it has no time left", lambda q: q.are(a="TIMEOUT"), rounds=0)
    await w.end()
    w.check(a="idea:timeout", jobs=1)


@case()
async def out_of_memory(w: World) -> None:
    w.site(slurm={"memory": "none", "extra": ["--mem=400M"]})
    await both_run(w, memory_mb=3500)
    await w.tell("grow", "a")
    await w.look("one had too little memory", lambda q: q.are(a="OUT_OF_MEMORY", b="RUNNING"))
    await w.tell("finish", "b")
    await w.end()
    w.check(a="idea:out_of_memory", b="scored", jobs=1)


@case()
async def node_killed_and_requeued(w: World) -> None:
    await w.start("a", cpus=2)
    await w.begin("a")
    await w.look("it runs", lambda q: q.are(a="RUNNING"))
    node = w.node("a")
    await w.fault("kill", node)
    await w.user("scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=case")
    await w.look("it waits again", lambda q: q.state("a") == "PENDING")
    await w.begin("a")
    await w.look("it runs again", lambda q: q.state("a") == "RUNNING")
    await w.tell("finish", "a")
    await w.end()
    w.check(a="scored", jobs=1)


@case()
async def node_killed_and_not_requeued(w: World) -> None:
    w.site(slurm={"requeue": False})
    await w.start("a", cpus=2)
    await w.begin("a")
    await w.look("it runs", lambda q: q.are(a="RUNNING"))
    node = w.node("a")
    await w.fault("kill", node)
    await w.user("scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=case")
    await w.look("its node failed", lambda q: q.are(a="NODE_FAIL"))
    await w.submitted("a")
    await w.begin("a")
    await w.tell("finish", "a")
    await w.end()
    w.check(a="node scored", jobs=2)
    assert w.reports("a")[0].usage.slurm_state == "NODE_FAIL"


@case()
async def link_cut(w: World) -> None:
    """Nobody says that the node is down: Slurm finds out by itself."""
    await w.start("a", cpus=2)
    await w.begin("a")
    await w.look("it runs", lambda q: q.are(a="RUNNING"))
    await w.fault("cut", w.node("a"))
    await w.look("it waits again", lambda q: q.state("a") == "PENDING")
    await w.begin("a")
    await w.look("it runs again", lambda q: q.state("a") == "RUNNING")
    await w.tell("finish", "a")
    await w.end()
    w.check(a="scored", jobs=1)


@case(by_hand=True)
async def boot_fail(w: World) -> None:
    """A node that was to be started for it did not come."""
    await w.start("a")
    await w.look("its node did not boot", lambda q: q.are(a="BOOT_FAIL"))
    await w.submitted("a")
    await w.begin("a")
    await w.tell("finish", "a")
    await w.end()
    w.check(a="node scored", jobs=2)
    assert w.reports("a")[0].usage.slurm_state == "BOOT_FAIL"


@case(by_hand=True)
async def launch_failed_requeued_held(w: World) -> None:
    """Slurm gave it up after its node could not start it: nobody will release it."""
    await w.start("a")
    await w.look("it is held", lambda q: q.reason("a") == "launch failed requeued held")
    await w.submitted("a")
    await w.begin("a")
    await w.tell("finish", "a")
    await w.end()
    w.check(a="node scored", jobs=2)


async def urgent_job(w: World) -> None:
    """Somebody's job that needs the whole node of trial a."""
    node = f"--nodelist={w.node('a')}"
    await w.user(
        *("sbatch", "--partition=urgent", node, "--exclusive", "--chdir=/"),
        *("--output=/dev/null", "--job-name=urgent", "--wrap=true"),
    )


@case()
async def preempted_and_requeued(w: World) -> None:
    await w.start("a", cpus=2)
    await w.begin("a")
    await w.look("it runs", lambda q: q.are(a="RUNNING"))
    await urgent_job(w)
    await w.look("it waits again", lambda q: q.state("a") == "PENDING")
    await w.begin("a")
    await w.look("it runs again", lambda q: q.state("a") == "RUNNING")
    await w.tell("finish", "a")
    await w.end()
    w.check(a="scored", jobs=1)


async def preempted(w: World) -> None:
    """What Slurm ended for another's sake is submitted again, and nobody is blamed."""
    await w.start("a", cpus=2)
    await w.begin("a")
    await w.look("it runs", lambda q: q.are(a="RUNNING"))
    await urgent_job(w)
    await w.look("it is preempted", lambda q: q.are(a="PREEMPTED"))
    await w.submitted("a")
    await w.begin("a")
    await w.tell("finish", "a")
    await w.end()
    w.check(a="scored", jobs=2)


@case()
async def preempted_and_cancelled(w: World) -> None:
    w.site(slurm={"partition": "scavenge"})
    await preempted(w)


@case()
async def preempted_where_it_must_not_be_requeued(w: World) -> None:
    w.site(slurm={"requeue": False})
    await preempted(w)


@case()
async def suspended(w: World) -> None:
    await both_run(w)
    await w.user("scontrol", "suspend", w.element("a"))
    await w.look("one is suspended", lambda q: q.are(a="SUSPENDED", b="RUNNING"), rounds=3)
    await w.user("scontrol", "resume", w.element("a"))
    await w.look("both run again", lambda q: q.are(a="RUNNING", b="RUNNING"))
    await w.tell("finish", *TWO)
    await w.end()
    w.check(a="scored", b="scored", jobs=1)


@case()
async def requeued_by_hand(w: World) -> None:
    await both_run(w)
    await w.user("scontrol", "requeue", w.element("a"))
    await w.look(
        "one waits again", lambda q: q.state("a") == "PENDING" and q.state("b") == "RUNNING"
    )
    await w.begin("a")
    await w.tell("finish", *TWO)
    await w.end()
    w.check(a="scored", b="scored", jobs=1)


@case()
async def requeued_and_held_by_hand(w: World) -> None:
    """It waits for who held it, and the reason is told."""
    await both_run(w)
    await w.user("scontrol", "requeuehold", w.element("a"))
    await w.look(
        "one is held",
        lambda q: (
            q.state("a") in ("PENDING", "REQUEUE_HOLD") and q.reason("a").startswith("job requeued")
        ),
        rounds=3,
    )
    await w.user("scontrol", "release", w.element("a"))
    await w.begin("a")
    await w.tell("finish", *TWO)
    await w.end()
    w.check(a="scored", b="scored", jobs=1)
    assert any(name.startswith("queue job requeued") for name in w.notes())


@case()
async def completing_for_long(w: World) -> None:
    """The node that is to end it cannot be reached: it has not ended before Slurm says so."""
    await w.start("a", cpus=2)
    await w.begin("a")
    await w.look("it runs", lambda q: q.are(a="RUNNING"))
    node = w.node("a")
    await w.fault("cut", node)
    await w.user("scancel", w.element("a"))
    await w.look("it ends", lambda q: q.state("a") == "COMPLETING", rounds=3)
    assert w.reports("a") == []
    await w.fault("restore", node)
    await w.look("it has ended", lambda q: q.state("a") == "CANCELLED")
    await w.submitted("a")
    await w.begin("a")
    await w.tell("finish", "a")
    await w.end()
    w.check(a="cancelled scored", jobs=2)


@case()
async def cancelled_by_hand(w: World) -> None:
    await both_run(w)
    await w.user("scancel", w.element("a"))
    await w.look("one is cancelled", lambda q: q.are(a="CANCELLED", b="RUNNING"))
    await again(w, "a")
    w.check(a="cancelled scored", b="scored", jobs=2)


@case()
async def array_cancelled_by_hand(w: World) -> None:
    await both_run(w)
    await w.user("scancel", w.job("a"))
    await w.look("both are cancelled", lambda q: q.are(a="CANCELLED", b="CANCELLED"))
    await again(w, *TWO)
    w.check(a="cancelled scored", b="cancelled scored", jobs=2)


@case()
async def cancelled_by_hand_while_it_waits(w: World) -> None:
    """Four at most one at a time: one runs, one is cancelled, two wait."""
    names = ("a", "b", "c", "d")
    w.site(slurm={"at_once": 1})
    await w.start(*names)
    await w.begin("a")
    await w.look("one runs", lambda q: q.are(a="RUNNING", b="PENDING", d="PENDING"))
    await w.user("scancel", w.element("c"))
    # Slurm forgets it at once: there is no row of it, and accounting never hears of it.
    await w.look("one is gone", lambda q: not q.state("c") and q.state("d") == "PENDING", rounds=3)
    await w.submitted("c")
    await w.begin("c")
    await w.tell("finish", "a", "c")
    await w.begin("b")
    await w.tell("finish", "b")
    await w.begin("d")
    await w.tell("finish", "d")
    await w.end()
    w.check(a="scored", b="scored", c="lost scored", d="scored", jobs=2)


@case()
async def waiting_array_cancelled_by_hand(w: World) -> None:
    """None of it had begun, and Slurm has but one row for all of it."""
    w.site(slurm={"extra": ["--hold"]})
    w.retries = 0
    await w.start(*TWO)
    await w.look("both wait", lambda q: q.are(a="PENDING", b="PENDING"))
    await w.user("scancel", w.job("a"))
    await w.look("both are cancelled", lambda q: q.state("a") == q.state("b") == "CANCELLED")
    await w.end()
    w.check(a="cancelled", b="cancelled", jobs=1)
