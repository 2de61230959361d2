"""How array tasks end: every state that Slurm has for it."""

from __future__ import annotations

from case_table import case
from case_world import World


@case()
async def completed(w: World) -> None:
    await w.start("a", "b")
    await w.begin("a", "b")
    await w.look("both run", lambda q: q.are(a="RUNNING", b="RUNNING"))
    await w.tell("finish", "a", "b")
    await w.end()
    w.check(a="scored", b="scored", jobs=1)


@case()
async def worker_killed(w: World) -> None:
    """FAILED, by a signal: the machine's failure, retried."""
    await w.start("a", "b")
    await w.begin("a", "b")
    await w.look("both run", lambda q: q.are(a="RUNNING", b="RUNNING"))
    await w.tell("kill", "a")
    await w.look("one failed", lambda q: q.are(a="FAILED", b="RUNNING"))
    await w.untell("kill", "a")
    await w.submitted("a")
    await w.begin("a")
    await w.tell("finish", "a", "b")
    await w.end()
    w.check(a="lost scored", b="scored", jobs=2)
