"""The driver is killed, or does not hear what Slurm said, or hears nonsense."""

from __future__ import annotations

from case_table import case
from case_world import World
from command_server import Answer, Asked

TWO = ("a", "b")


@case()
async def killed_between_sbatch_and_its_record(w: World) -> None:
    """The orphan is found by its name, and adopted."""
    w.twist("sbatch", w.silence)
    await w.start(*TWO)
    await w.killed_in_a_command()
    assert not list(w.paths.submission.glob("*/submitted.json"))
    await w.begin(*TWO)
    await w.look("the orphan runs", lambda q: q.are(a="RUNNING", b="RUNNING"), rounds=0)
    await w.start()
    await w.reached("adopted", lambda: list(w.paths.submission.glob("*/submitted.json")))
    await w.tell("finish", *TWO)
    await w.end()
    w.check(a="scored", b="scored", jobs=1)


@case()
async def orphan_that_ended_meanwhile(w: World) -> None:
    w.twist("sbatch", w.silence)
    await w.start(*TWO)
    await w.killed_in_a_command()
    await w.begin(*TWO)
    await w.tell("finish", "a")
    await w.user("scancel", w.element("b"))
    await w.look("the orphan has ended", lambda q: q.are(a="COMPLETED", b="CANCELLED"), rounds=0)
    await w.start()
    await w.submitted("b")
    await w.begin("b")
    await w.tell("finish", "b")
    await w.end()
    w.check(a="scored", b="cancelled scored", jobs=2)


@case()
async def orphan_that_only_accounting_knows(w: World) -> None:
    await w.fault("set", "MinJobAge=2")
    w.twist("sbatch", w.silence)
    await w.start(*TWO)
    await w.killed_in_a_command()
    await w.begin(*TWO)
    await w.tell("finish", "a")
    await w.user("scancel", w.element("b"))
    await w.look(
        "the orphan is purged",
        lambda q: (
            not q.state("a") and q.account("a") == "COMPLETED" and q.account("b") == "CANCELLED"
        ),
        rounds=0,
    )
    await w.start()
    await w.submitted("b")
    await w.begin("b")
    await w.tell("finish", "b")
    await w.end()
    w.check(a="scored", b="cancelled scored", jobs=2)


@case()
async def killed_before_sbatch(w: World) -> None:
    """There is a record of an array that never was."""
    w.block("sbatch")
    await w.start(*TWO)
    await w.killed_in_a_command()
    assert list(w.paths.submission.glob("*/batch.json"))
    await w.start()
    await w.begin(*TWO)
    await w.tell("finish", *TWO)
    await w.end()
    w.check(a="scored", b="scored", jobs=1)


@case()
async def killed_while_trials_run_and_wait(w: World) -> None:
    w.site(slurm={"at_once": 1})
    await w.start(*TWO)
    await w.begin("a")
    await w.look("one runs", lambda q: q.are(a="RUNNING", b="PENDING"))
    await w.kill_driver()
    await w.start()
    await w.asked_again(2)
    await w.tell("finish", "a")
    await w.begin("b")
    await w.tell("finish", "b")
    await w.end()
    w.check(a="scored", b="scored", jobs=1)


@case()
async def sbatch_that_never_answers(w: World) -> None:
    """It was carried out all the same: the array is found by its name."""
    w.site(watch={"command_s": 2.0})
    w.twist("sbatch", w.silence)
    await w.start(*TWO)
    await w.begin(*TWO)
    await w.reached("it is noticed", lambda: "sbatch did not end" in w.notes().get("silent", ""))
    await w.look("it runs", lambda q: q.are(a="RUNNING", b="RUNNING"))
    await w.tell("finish", *TWO)
    await w.end()
    w.check(a="scored", b="scored", jobs=1)


@case()
async def sbatch_whose_words_are_lost(w: World) -> None:
    """Exit status 0, and no number: whether there is an array is to be found out."""
    w.twist("sbatch", lambda asked, answer: Answer(0, "", ""))
    await w.start(*TWO)
    await w.begin(*TWO)
    await w.look("it runs", lambda q: q.are(a="RUNNING", b="RUNNING"))
    await w.tell("finish", *TWO)
    await w.end()
    w.check(a="scored", b="scored", jobs=1)


NOTICE = "Project x has 12 of 99 hours left; see job 99\n"


@case()
async def sbatch_that_prints_notices(w: World) -> None:
    w.twist("sbatch", lambda asked, answer: Answer(0, f"{NOTICE}{answer.out}{NOTICE}", NOTICE))
    await w.start(*TWO)
    await w.begin(*TWO)
    assert "silent" not in w.notes()
    await w.look("it runs", lambda q: q.are(a="RUNNING", b="RUNNING"))
    await w.tell("finish", *TWO)
    await w.end()
    w.check(a="scored", b="scored", jobs=1)


@case()
async def sbatch_whose_id_is_another_number(w: World) -> None:
    """Its own line is lost, and a notice has a line like it: the queue knows better by the name."""
    w.twist("sbatch", lambda asked, answer: Answer(0, "99\n", ""))
    await w.start(*TWO)
    await w.begin(*TWO)
    await w.look("it runs", lambda q: q.are(a="RUNNING", b="RUNNING"), rounds=2)
    await w.cancel("a")
    await w.look("one is cancelled", lambda q: q.are(a="CANCELLED", b="RUNNING"))
    await w.tell("finish", "b")
    await w.end()
    w.check(a="", b="scored", jobs=1)


@case()
async def sbatch_that_fails_when_it_has_submitted(w: World) -> None:
    """A site's wrapper does more than submit, and what it does then fails."""
    w.twist("sbatch", lambda asked, answer: Answer(1, answer.out, "wrapper: no mail sent\n"))
    await w.start(*TWO)
    await w.begin(*TWO)
    await w.look("it runs", lambda q: q.are(a="RUNNING", b="RUNNING"))
    await w.tell("finish", *TWO)
    await w.end()
    w.check(a="scored", b="scored", jobs=1)


async def damaged(w: World, program: str, how: str) -> None:
    """Answers of a command are cut or garbage several times in a row, and the tasks run."""

    def spoil(asked: Asked, answer: Answer) -> Answer:
        return Answer(0, answer.out[: len(answer.out) // 4] if how == "cut" else how, "")

    await w.start(*TWO)
    await w.begin(*TWO)
    await w.look("both run", lambda q: q.are(a="RUNNING", b="RUNNING"))
    for _ in range(4):
        w.twist(program, spoil)
    await w.asked_again(6)
    assert w.reports("a") == w.reports("b") == []
    await w.tell("finish", *TWO)
    await w.end()
    w.check(a="scored", b="scored", jobs=1)


@case()
async def squeue_that_is_cut_within_a_line(w: World) -> None:
    await damaged(w, "squeue", "cut")


@case()
async def squeue_that_prints_garbage(w: World) -> None:
    await damaged(w, "squeue", "\ufffd\x00 slurmstepd: \x1f\x1f\n%%%\n")


@case()
async def squeue_that_prints_nothing_once(w: World) -> None:
    """A controller that is just coming up may know of no job yet."""
    await w.start(*TWO)
    await w.begin(*TWO)
    await w.look("both run", lambda q: q.are(a="RUNNING", b="RUNNING"))
    w.twist("squeue", lambda asked, answer: Answer())
    await w.asked_again(3)
    assert w.reports("a") == w.reports("b") == []
    await w.tell("finish", *TWO)
    await w.end()
    w.check(a="scored", b="scored", jobs=1)


@case()
async def sacct_that_shows_steps(w: World) -> None:
    """A site's sacct is a wrapper that shows them all the same; a step is not an array task."""
    w.site(slurm={"accounting": "yes"})
    w.twist("squeue", lambda asked, answer: answer)
    await w.start(*TWO)
    await w.begin(*TWO)
    await w.look("both run", lambda q: q.are(a="RUNNING", b="RUNNING"))

    def with_steps(asked: Asked, answer: Answer) -> Answer:
        rows = []
        for row in answer.out.splitlines():
            number, _, rest = row.partition("\x1f")
            rows += [row, f"{number}.batch\x1f" + rest.replace("RUNNING", "FAILED")]
        return Answer(0, "".join(f"{row}\n" for row in rows))

    for _ in range(3):
        w.twist("sacct", with_steps)
    w.twist("squeue", lambda asked, answer: Answer())
    await w.asked_again(3)
    assert w.reports("a") == w.reports("b") == []
    await w.tell("finish", *TWO)
    await w.end()
    w.check(a="scored", b="scored", jobs=1)


@case()
async def campaign_gives_one_up(w: World) -> None:
    await w.start(*TWO)
    await w.begin(*TWO)
    await w.look("both run", lambda q: q.are(a="RUNNING", b="RUNNING"))
    await w.cancel("a")
    await w.look("one is cancelled", lambda q: q.are(a="CANCELLED", b="RUNNING"))
    await w.tell("finish", "b")
    await w.end()
    w.check(a="", b="scored", jobs=1)


@case()
async def campaign_gives_all_up(w: World) -> None:
    await w.start(*TWO)
    await w.begin(*TWO)
    await w.look("both run", lambda q: q.are(a="RUNNING", b="RUNNING"))
    await w.cancel()
    await w.look("both are cancelled", lambda q: q.are(a="CANCELLED", b="CANCELLED"))
    await w.end()
    w.check(a="", b="", jobs=1)


@case()
async def campaign_is_closed_while_it_waits(w: World) -> None:
    w.site(slurm={"extra": ["--hold"]})
    await w.start(*TWO)
    await w.look("both wait", lambda q: q.are(a="PENDING", b="PENDING"))
    await w.leave()
    w.check_refused(*TWO, jobs=1)
