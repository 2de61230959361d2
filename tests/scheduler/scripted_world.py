"""A world without a Slurm: the commands answer as the real ones did when the case was recorded.

Between two looks squeue and sacct answer what they answered at the first of them. A command line
that was not recorded is an error that shows both.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import recordings
from case_world import PYTHON, Look, World, options
from command_server import Answer, Asked, line
from recordings import SEPARATOR, Recording, Said, Section

from hpcscientist.errors import SchedulerError
from hpcscientist.execution import presence
from hpcscientist.execution.backends.slurm import sweep
from hpcscientist.execution.backends.slurm.batches import BatchFolder
from hpcscientist.execution.backends.slurm.commands import Slurm, failure
from hpcscientist.execution.backends.slurm.watching.queue import accounted, queued
from hpcscientist.records.trial import Scored, TrialReport, TrialSpec, Usage
from hpcscientist.results.store import write_result

FIRST_JOB = 4100


class NotRecorded(AssertionError):
    """The backend asks what it did not ask when the case was recorded."""


class ScriptedWorld(World):
    """See above."""

    real = False

    def __init__(self, case: str, folder: Path) -> None:
        self.case = case
        self.recording: Recording = recordings.read(case)
        self._at = 0
        self._fresh: list[tuple[str, str]] = []
        self._used: dict[str, int] = {}
        super().__init__(folder / "bench", PYTHON, folder / "commands")
        self._patch.setattr(sweep, "_POLL_S", 0.01)  # time.sleep of a thread: the only one left

    @property
    def _section(self) -> Section:
        return self.recording.sections[self._at]

    # -- answers -----------------------------------------------------

    def reply(self, asked: Asked) -> Answer:
        match asked.program:
            case "squeue" | "sacct":
                return self._table(asked)
            case "sbatch" | "scancel":
                return self._next(asked)
        return self._latest(asked)

    def _table(self, asked: Asked) -> Answer:
        """Answer from what was so at the latest look."""
        said = next(iter(self._section.of(asked.program)), None)
        if said is None and not self._at:  # before the first look: nobody knows anything
            known = [s for one in self.recording.sections for s in one.of(asked.program)]
            said = replace(known[0], answer=Answer()) if known else None
        if said is None:
            raise self._unknown(asked)
        if _form(asked.arguments) != _form(recordings.words(said.command)[1:]):
            raise self._unknown(asked, said)
        if said.answer.code:
            return said.answer
        rows = [
            recordings.BAR.join(self.names.show(field) for field in row.split(recordings.BAR))
            for row in said.answer.out.splitlines()
        ]
        # What is not submitted yet is not there; what was submitted since the look, and was not
        # there then, waits.
        rows = [row.replace(recordings.BAR, SEPARATOR) for row in rows if "JOB" not in row]
        if asked.program == "squeue":
            there = {row.split(SEPARATOR)[0] for row in rows}
            rows += [_waiting(job, text) for job, text in self._fresh if job not in there]
        else:
            rows = [row for row in rows if _is_asked_for(row.split(SEPARATOR), asked.arguments)]
        return Answer(0, "".join(f"{row}\n" for row in rows), said.answer.err)

    def _next(self, asked: Asked) -> Answer:
        """Answer what was answered to the next such command; a failure comes again."""
        known = [
            (at, one)
            for at, section in enumerate(self.recording.sections)
            for one in section.of(asked.program)
        ]
        used = self._used.get(asked.program, 0)
        last = known[used - 1][1] if used else None
        if used < len(known) and known[used][0] <= self._at:
            said = known[used][1]
            self._used[asked.program] = used + 1
        elif last is not None and last.answer.code:
            said = last
        else:
            raise self._unknown(asked, last)
        script = Path(asked.arguments[-1]) if asked.program == "sbatch" else None
        text = script.read_text() if script else ""
        if script:
            self.names.add("BATCH", script.parent.name)
        mine = self._said(asked, text)
        if (mine.command, mine.options) != (said.command, said.options):
            raise self._unknown(asked, said, mine)
        for symbol in re.findall(r"\bJOB\d+\b", said.answer.out):
            if self.names.value(symbol) is None:
                self.names.add("JOB", str(FIRST_JOB + 100 * len(self.jobs)))
            job = str(self.names.value(symbol))
            self._fresh.append((job, text))
        answer = said.answer
        return Answer(answer.code, self.names.show(answer.out), self.names.show(answer.err))

    def _latest(self, asked: Asked) -> Answer:
        """Answer what was answered last to the same words."""
        command = self._said(asked).command
        known = [
            (at, one)
            for at, section in enumerate(self.recording.sections)
            for one in section.of(asked.program)
        ]
        same = [(at, one) for at, one in known if one.command == command]
        if not same:
            raise self._unknown(asked, known[0][1] if known else None)
        said = [one for at, one in same if at <= self._at] or [same[0][1]]
        return said[-1].answer

    def _said(self, asked: Asked, script: str = "") -> Said:
        command = self.names.hide(line(asked))
        if script:
            command = self.names.hide(line(["sbatch", *asked.arguments[:-1], "SCRIPT"]))
        return Said(command, tuple(self.names.hide(one) for one in options(script)))

    def _unknown(
        self, asked: Asked, said: Said | None = None, mine: Said | None = None
    ) -> NotRecorded:
        was = said.text() if said else "nothing"
        return NotRecorded(
            f"{self.case}, {self._section.name!r}: asked\n{(mine or self._said(asked)).text()}\n"
            f"where was recorded\n{was}\nRecord anew: python tests/scheduler/record.py {self.case}"
        )

    # -- what happens ------------------------------------------------

    async def look(
        self,
        name: str,
        when: Callable[[Look], bool] = lambda look: True,
        rounds: int = 1,
        of: Sequence[str] = (),
    ) -> None:
        self.heed()
        at = next((k for k, one in enumerate(self.recording.sections) if one.name == name), None)
        assert at is not None, f"{self.case}: no look {name!r} was recorded"
        self._at, self._fresh = at, []
        await self.reached(f"{name} is what was recorded", lambda: self._is(when))
        self.heed()
        self.heed_places(*(one for one in self.places if one not in self._heeded))
        await self.asked_again(rounds)
        self.heed()

    def _is(self, when: Callable[[Look], bool]) -> bool:
        if self.server.failures:
            return True
        try:
            return when(self._seen())
        except KeyError:  # it is not submitted yet
            return False

    def heed(self) -> None:
        """Raise what the commands had to complain about."""
        if self.server.failures:
            raise self.server.failures[0]

    def _seen(self) -> Look:
        def asked(program: str) -> Slurm:
            return _Answering(lambda words: self._table(Asked(program, words)))

        queue = accounts = None
        with contextlib.suppress(SchedulerError):
            queue = queued(asked("squeue"))
        with contextlib.suppress(SchedulerError):
            accounts = accounted(asked("sacct"), self.jobs)
        return Look(queue, accounts, self.heeded())

    async def begin(self, *trials: str, node: str = "n1") -> None:
        for name in trials:
            await self.reached(f"{name} is submitted", lambda n=name: self.places.get(n))
            self._begin(name)
            self.heed_places(name)
        await asyncio.sleep(2.5)
        self.heed()

    async def printed(self, *trials: str) -> None:
        for name in trials:
            await self.reached(f"{name} is submitted", lambda n=name: self.places.get(n))
            self._print(name)

    def _print(self, name: str) -> None:
        job, number = self.places[name][-1]
        for record in self.paths.submission.glob("*/batch.json"):
            if record.parent.name in self._batches(job):
                BatchFolder(record.parent).log(job, number).touch()

    def _begin(self, name: str) -> None:
        self._print(name)
        presence.announce(self.paths.trial(name), self._spec(name).run)

    async def tell(self, what: str, *trials: str) -> None:
        for name in trials:
            spec, paths = self._spec(name), self.paths.trial(name)
            if what == "finish":
                now = time.time()
                known = presence.read(paths)
                if known is None or known.run != spec.run:
                    self._begin(name)
                write_result(
                    paths,
                    spec,
                    TrialReport(
                        trial_id=name,
                        run=spec.run,
                        outcome=Scored(metrics={"accuracy": 0.75}),
                        usage=Usage(started_at=now, ended_at=now, node="n1"),
                    ),
                )
            elif what == "stop":  # it has been so for longer than it may
                began = time.time() - spec.limits.deadline_s - 1
                os.utime(paths.worker, (began, began))
        await asyncio.sleep(2.5)
        self.heed()

    async def fault(self, *words: str) -> None:
        self.heed()

    async def user(self, *words: str, fails: bool = False, names: str = "") -> None:
        self.heed()
        if names:
            self.names.add(names, str(FIRST_JOB - 1))

    def _spec(self, name: str) -> TrialSpec:
        return TrialSpec.model_validate_json(self.paths.trial(name).spec.read_bytes())

    def _batches(self, job: str) -> list[str]:
        return [folder for folder, one in self._folders.items() if one == job]

    @property
    def _folders(self) -> dict[str, str]:
        return self.__dict__.setdefault("folders", {})

    def _submitted(self, asked: Asked, answer: Answer) -> None:
        super()._submitted(asked, answer)
        self._folders[Path(asked.arguments[-1]).parent.name] = answer.out.split()[-1]

    def check(self, *, jobs: int | range, **expected: str) -> None:
        self.heed()
        super().check(jobs=jobs, **expected)
        for program in ("sbatch", "scancel"):
            used = self._used.get(program, 0)
            known = sum(len(section.of(program)) for section in self.recording.sections)
            assert used == known, f"{self.case}: {program} was called {used} times, not {known}"


class _Answering(Slurm):
    """The commands, answered without a process: for looking at what a recording says."""

    def __init__(self, answer: Callable[[tuple[str, ...]], Answer]) -> None:
        super().__init__()
        self._answer = answer

    def run(self, program: str, *arguments: str, **_: object) -> str:  # type: ignore[override]
        said = self._answer(arguments)
        if said.code:
            raise failure(said.err or said.out)
        return said.out


def _form(arguments: tuple[str, ...] | list[str]) -> list[str]:
    """A query without the jobs that it is about."""
    found = [one.replace(SEPARATOR, recordings.BAR) for one in arguments]
    for option in ("--jobs", "--name", "--starttime"):
        if option in found:
            at = found.index(option)
            del found[at : at + 2]
    return found


def _is_asked_for(row: list[str], arguments: tuple[str, ...]) -> bool:
    """Whether sacct was asked for a row's job, by number or by name."""
    for option, field in (("--jobs", row[0].partition("_")[0]), ("--name", row[4])):
        if option in arguments:
            return field in arguments[arguments.index(option) + 1].split(",")
    return False


def _waiting(job: str, script: str) -> str:
    """An array that was submitted since the latest look: it waits."""
    found = dict(re.findall(r"^#SBATCH --([a-z-]+)=(.*)$", script, re.MULTILINE))
    name, comment = found["job-name"], found["comment"]
    tasks = found["array"].partition("%")[0]
    fields = (
        job,
        tasks,
        "PENDING",
        "None",
        "",
        name,
        comment,
        job,
        found.get("partition", "batch"),
    )
    return SEPARATOR.join(fields)
