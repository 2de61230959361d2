"""What Slurm refuses, what waits and why, and arrays that do not fit."""

from __future__ import annotations

from typing import Any

from case_table import case
from case_world import World

from hpcscientist.errors import SchedulerRefused
from hpcscientist.execution.backends.slurm.watching.rounds import HOPELESS
from hpcscientist.history.status import read_waiting


def waits(w: World) -> dict[str, int]:
    """How many array tasks wait, by reason, as whoever looks at the run directory is told."""
    found = read_waiting(w.paths)
    return found.reasons if found else {}


async def refused(w: World, *words: str, **slurm: Any) -> None:
    """What no waiting fixes is told at once, and nothing is queued."""
    w.site(slurm=slurm)
    await w.start("a")
    await w.fails(SchedulerRefused, *words)
    await w.leave(look=False)
    w.check_refused("a")


@case()
async def bad_qos(w: World) -> None:
    await refused(w, "qos", qos="nowhere")


@case()
async def bad_partition(w: World) -> None:
    await refused(w, "partition", partition="nowhere")


@case()
async def bad_account(w: World) -> None:
    await refused(w, "account", account="nowhere")


@case()
async def impossible_memory(w: World) -> None:
    await refused(w, "Memory", memory="none", extra=["--mem=9000000M"])


@case()
async def impossible_feature(w: World) -> None:
    await refused(w, "feature", constraint="nonesuch")


TEN = tuple(f"t{number}" for number in range(10))


@case()
async def submit_limit_that_is_known(w: World) -> None:
    nine = TEN[:9]
    w.site(slurm={"qos": "limited"})
    await w.start(*nine, memory_mb=100)
    await w.begin("t0")
    await w.look("eight are queued", lambda q: q.state("t0") == "RUNNING" and q.state("t7") != "")
    await w.tell("finish", "t0")
    await w.look("one ended", lambda q: q.state("t0") == "COMPLETED", rounds=0)
    await w.submitted("t8", times=1)
    await w.tell("finish", *nine[1:])
    await w.end()
    w.check(**dict.fromkeys(nine, "scored"), jobs=2)
    assert "submit limit" not in w.notes()


@case()
async def submit_limit_that_is_to_be_found_out(w: World) -> None:
    """Slurm refuses ten; half as many are tried, and each of the rest when there is room.

    They end one by one: how many ends the driver knows of at once would be luck.
    """
    w.site(slurm={"qos": "limited", "max_submit": 100})
    await w.start(*TEN, memory_mb=100)
    await w.begin(*TEN[:5])
    await w.look("five run", lambda q: all(q.state(name) == "RUNNING" for name in TEN[:5]))
    for ending, waiting in zip(TEN[:5], TEN[5:], strict=True):
        await w.tell("finish", ending)
        await w.look(f"{ending} ended", lambda q, n=ending: q.state(n) == "COMPLETED", rounds=0)
        await w.submitted(waiting, times=1)
        await w.begin(waiting)
    await w.tell("finish", *TEN[5:])
    await w.end()
    w.check(**dict.fromkeys(TEN, "scored"), jobs=6)
    assert "submit limit" in w.notes()


@case()
async def more_trials_than_an_array_may_have(w: World) -> None:
    await w.fault("set", "MaxArraySize=4")
    await w.start(*TEN[:5], memory_mb=100)
    await w.begin(*TEN[:5])
    await w.look("all run", lambda q: all(q.state(name) == "RUNNING" for name in TEN[:5]))
    await w.tell("finish", *TEN[:5])
    await w.end()
    w.check(**dict.fromkeys(TEN[:5], "scored"), jobs=2)


@case()
async def arrays_may_hold_less_than_at_first(w: World) -> None:
    """A site lowers its limit while a campaign runs: what is refused for that comes in parts."""
    await w.start("a", memory_mb=100)
    await w.begin("a")
    await w.look("it runs", lambda q: q.state("a") == "RUNNING")
    await w.fault("set", "MaxArraySize=4")
    await w.look("the limit is lower", rounds=0)
    await w.add(*TEN[:5], memory_mb=100)
    await w.begin(*TEN[:5])
    await w.look("all run", lambda q: all(q.state(name) == "RUNNING" for name in TEN[:5]))
    assert "limits changed" in w.notes()
    await w.tell("finish", "a", *TEN[:5])
    await w.end()
    w.check(a="scored", **dict.fromkeys(TEN[:5], "scored"), jobs=3)


@case()
async def held_by_its_user(w: World) -> None:
    w.site(slurm={"extra": ["--hold"]})
    await w.start("a", "b")
    await w.look("both wait", lambda q: q.reason("a") == q.reason("b") == "JobHeldUser", rounds=4)
    assert "queue JobHeldUser" in w.notes()
    assert waits(w) == {"JobHeldUser": 2}
    await w.user("scontrol", "release", w.job("a"))
    await w.begin("a", "b")
    await w.look("both run", lambda q: q.are(a="RUNNING", b="RUNNING"))
    assert waits(w) == {}
    await w.tell("finish", "a", "b")
    await w.end()
    w.check(a="scored", b="scored", jobs=1)


@case()
async def partition_down(w: World) -> None:
    """It will be up again: that is told, and waited for."""
    w.site(slurm={"partition": "scavenge"})
    await w.user("scontrol", "update", "PartitionName=scavenge", "State=DOWN")
    await w.start("a")
    await w.look("it waits", lambda q: q.reason("a") == "PartitionDown", rounds=HOPELESS + 1)
    assert "queue PartitionDown" in w.notes()
    await w.user("scontrol", "update", "PartitionName=scavenge", "State=UP")
    await w.begin("a")
    await w.tell("finish", "a")
    await w.end()
    w.check(a="scored", jobs=1)


@case()
async def partition_inactive(w: World) -> None:
    """Nothing can be submitted there now."""
    w.site(slurm={"partition": "scavenge"})
    await w.user("scontrol", "update", "PartitionName=scavenge", "State=INACTIVE")
    await w.start("a")
    await w.reached("it is told", lambda: "closed" in w.notes())
    await w.user("scontrol", "update", "PartitionName=scavenge", "State=UP")
    await w.look("it is open again", rounds=0)
    await w.begin("a")
    await w.tell("finish", "a")
    await w.end()
    w.check(a="scored", jobs=1)


@case()
async def dependency_never_satisfied(w: World) -> None:
    """Only people can fix it: the campaign stops, says so, and takes its array back."""
    w.site(slurm={"extra": ["--hold"]})
    await w.start("a", "b")
    await w.look("both wait", lambda q: q.reason("a") == "JobHeldUser")
    await w.user(
        *("sbatch", "--job-name=failing", "--chdir=/", "--output=/dev/null"),
        *("--wait", "--wrap=false"),
        fails=True,
        names="OTHER",
    )
    other = w.names.value("OTHER1")
    await w.user("scontrol", "update", f"JobId={w.job('a')}", f"Dependency=afterok:{other}")
    await w.user("scontrol", "release", w.job("a"))
    await w.look(
        "it can never run", lambda q: q.reason("a") == "DependencyNeverSatisfied", rounds=0
    )
    await w.fails(SchedulerRefused, "DependencyNeverSatisfied", w.job("a"))
    await w.leave()
    w.check_refused("a", "b")
