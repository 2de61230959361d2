"""Slurm's own daemons stop, forget and come back: nothing is believed lost for that."""

from __future__ import annotations

from case_table import case
from case_world import Look, World
from command_server import Answer, Asked


def silent(q: Look) -> bool:
    """The controller does not answer."""
    return q.queue is None


@case()
async def controller_down_from_the_start(w: World) -> None:
    await w.fault("controller", "stop")
    await w.start("a")
    await w.reached("it is noticed", lambda: "silent" in w.notes())
    await w.fault("controller", "start")
    await w.look("it is back", lambda q: q.queue is not None, rounds=0)
    await w.begin("a")
    await w.tell("finish", "a")
    await w.end()
    w.check(a="scored", jobs=1)


@case()
async def controller_down_while_submitting_and_polling(w: World) -> None:
    await w.start("a")
    await w.begin("a")
    await w.look("one runs", lambda q: q.are(a="RUNNING"))
    await w.fault("controller", "stop")
    await w.look("nobody answers", silent, rounds=2)
    await w.add("b")
    await w.tell("finish", "a")
    await w.ended("a")  # seen by its files
    await w.reached("it is noticed", lambda: "silent" in w.notes())
    assert w.reports("b") == []
    await w.fault("controller", "start")
    await w.look("it is back", lambda q: q.are(a="COMPLETED"), rounds=0, of=["a"])
    await w.begin("b")
    await w.look("the other runs", lambda q: q.are(b="RUNNING"), rounds=0)
    await w.tell("finish", "b")
    await w.end()
    w.check(a="scored", b="scored", jobs=2)


@case()
async def controller_restarted(w: World) -> None:
    """A task ends while nobody can say so; another goes on."""
    await w.start("a", "b")
    await w.begin("a", "b")
    await w.look("both run", lambda q: q.are(a="RUNNING", b="RUNNING"))
    await w.fault("controller", "stop")
    await w.tell("kill", "a")
    await w.look("nobody answers", silent, rounds=2)
    assert w.reports("a") == []
    await w.fault("controller", "start")
    await w.look("one failed", lambda q: q.are(a="FAILED", b="RUNNING"))
    await w.submitted("a")
    await w.begin("a")
    await w.tell("finish", "a", "b")
    await w.end()
    w.check(a="lost scored", b="scored", jobs=2)


@case()
async def job_ids_given_out_again(w: World) -> None:
    """The controller was killed before it had saved what it had accepted."""

    def kill_controller(asked: Asked, answer: Answer) -> Answer:
        w.fault_now("controller", "kill")
        return answer

    # Held: it must not begin, on a slow machine, before its controller is killed.
    w.site(slurm={"extra": ["--hold"]})
    await w.remember()
    w.twist("sbatch", kill_controller)
    await w.start("a")
    await w.submitted("a", times=1)
    await w.fault("controller", "start")
    await w.look("it is forgotten", lambda q: q.queue is not None and not q.state("a"), rounds=0)
    await w.submitted("a")
    await w.user("scontrol", "release", w.job("a"))
    await w.begin("a")
    await w.look("it runs", lambda q: q.state("a") == "RUNNING", rounds=2)
    await w.tell("finish", "a")
    await w.end()
    w.check(a="lost scored", jobs=2)
    assert w.jobs[0] == w.jobs[1]


@case()
async def accounting_down(w: World) -> None:
    await w.fault("accounting", "stop")
    await w.start("a", "b")
    await w.begin("a", "b")
    await w.look("both run", lambda q: q.state("a") == "RUNNING" and q.accounts is None)
    await w.user("scancel", w.element("a"))
    await w.look("one is cancelled", lambda q: q.state("a") == "CANCELLED")
    await w.submitted("a")
    await w.begin("a")
    await w.tell("finish", "a", "b")
    await w.end()
    w.check(a="cancelled scored", b="scored", jobs=2)


@case()
async def no_accounting_at_all(w: World) -> None:
    await w.fault("set", "AccountingStorageType=accounting_storage/none")
    await w.start("a", "b")
    await w.begin("a", "b")
    await w.look("both run", lambda q: q.are(a="RUNNING", b="RUNNING"))
    await w.user("scancel", w.element("a"))
    await w.look("one is cancelled", lambda q: q.are(a="CANCELLED", b="RUNNING"))
    await w.submitted("a")
    await w.begin("a")
    await w.tell("finish", "a", "b")
    await w.end()
    w.check(a="cancelled scored", b="scored", jobs=2)


async def purged(w: World) -> None:
    """What ended while no driver ran is no longer in the controller's memory."""
    await w.fault("set", "MinJobAge=2")
    await w.start("a", "b", "c")
    await w.begin("a", "b", "c")
    await w.look("they run", lambda q: q.are(a="RUNNING", b="RUNNING", c="RUNNING"))
    await w.kill_driver()
    await w.user("scancel", w.element("a"))
    await w.tell("finish", "b")
    await w.look(
        "two are purged",
        lambda q: (
            q.queue is not None
            and not q.state("a")
            and not q.state("b")
            and (q.account("a"), q.account("b")) in (("CANCELLED", "COMPLETED"), ("", ""))
        ),
        rounds=0,
    )


async def resumed(w: World) -> None:
    """A driver comes back; what was lost is run again, what ended well is not."""
    await w.submitted("a")
    await w.begin("a")
    await w.tell("finish", "a", "c")
    await w.end()


@case()
async def purged_records(w: World) -> None:
    await purged(w)
    await w.start()
    await resumed(w)
    w.check(a="cancelled scored", b="scored", c="scored", jobs=2)
    assert str(w.reports("a")[0].usage.slurm_state).startswith("CANCELLED by")


@case()
async def purged_records_and_no_accounting(w: World) -> None:
    w.site(slurm={"accounting": "no"})
    await purged(w)
    await w.start()
    await resumed(w)
    w.check(a="lost scored", b="scored", c="scored", jobs=2)


@case()
async def purged_records_and_accounting_down_at_first(w: World) -> None:
    """Nothing is known, so nothing is decided; then accounting is back."""
    await purged(w)
    await w.fault("accounting", "stop")
    await w.look("accounting is down", lambda q: q.accounts is None, rounds=0)
    await w.start()
    await w.asked_again(4)
    assert w.reports("a") == []
    await w.fault("accounting", "start")
    await w.look("accounting is back", lambda q: q.account("a") == "CANCELLED", rounds=0)
    await resumed(w)
    w.check(a="cancelled scored", b="scored", c="scored", jobs=2)


@case()
async def purged_records_and_accounting_down_for_good(w: World) -> None:
    """A result on disk is believed at once; what nobody can tell of is lost after a while."""
    w.site(watch={"accounting_s": 20.0})
    await purged(w)
    await w.fault("accounting", "stop")
    await w.look("accounting is down", lambda q: q.accounts is None, rounds=0)
    await w.start()
    await w.ended("b")
    assert w.reports("a") == []
    await w.reached("it is told", lambda: "accounting" in w.notes())
    await w.reached("it is given up", lambda: "accounting lost" in w.notes())
    await w.submitted("a")
    await w.begin("a")
    await w.fault("accounting", "start")
    await w.tell("finish", "a", "c")
    await w.end()
    w.check(a="lost scored", b="scored", c="scored", jobs=2)


@case()
async def sacct_that_never_answers(w: World) -> None:
    """The rest goes on: what is given to the driver meanwhile is submitted and ends."""
    w.site(watch={"command_s": 2.0, "accounting_s": 600.0})
    await purged(w)
    await w.start()
    w.twist("sacct", w.silence)
    await w.reached("it is noticed", lambda: "sacct did not end" in w.notes().get("accounting", ""))
    assert w.reports("a") == []
    await w.add("d")
    await w.begin("d")
    await w.tell("finish", "d")
    await w.ended("d")
    await w.submitted("a")
    await w.begin("a")
    await w.tell("finish", "a", "c")
    await w.end()
    w.check(a="cancelled scored", b="scored", c="scored", d="scored", jobs=3)


@case(by_hand=True)
async def accounting_lags(w: World) -> None:
    """The controller has purged it, and accounting has not yet heard of its end."""
    await w.start("a", "b")
    await w.begin("a", "b")
    await w.look("both run", lambda q: q.are(a="RUNNING", b="RUNNING"))
    await w.look(
        "accounting lags", lambda q: not q.state("a") and q.account("a") == "RUNNING", rounds=4
    )
    assert w.reports("a") == []
    await w.look("accounting knows", lambda q: q.account("a") == "CANCELLED")
    await w.submitted("a")
    await w.begin("a")
    await w.tell("finish", "a", "b")
    await w.end()
    w.check(a="cancelled scored", b="scored", jobs=2)
