"""What a case does in either world: trials and their driver, looks at the queue, what came of it.

A *case* is a coroutine that is given a world. In the scripted one (`scripted_world`) the commands
answer as was recorded and the clock is in hand; in the real one (`real_world`) there are a cluster,
its faults and time.
"""

from __future__ import annotations

import asyncio
import contextlib
import getpass
import json
import os
import secrets
import socket
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from command_server import Answer, Asked, CommandServer, on_path
from event_kit import driver_started
from recordings import Names
from trialkit import Bench

from hpcscientist.campaign.dispatcher import journalled
from hpcscientist.campaign.trial_runner import TrialRunner
from hpcscientist.execution.backends.slurm.backend import SlurmBackend
from hpcscientist.execution.backends.slurm.watching.queue import AccountRow, QueueRow
from hpcscientist.execution.backends.slurm.watching.states import Phase, phase
from hpcscientist.files.rundir import RunPaths
from hpcscientist.history import journal as journals
from hpcscientist.history.journal import Journal
from hpcscientist.history.state import CampaignState
from hpcscientist.history.status import DriverLock
from hpcscientist.records.events import CampaignStarted, NoteTaken, TrialEnded
from hpcscientist.records.site import Site
from hpcscientist.records.trial import IdeaFailed, MachineFailed, Scored, TrialReport, TrialSpec
from hpcscientist.results.store import read_result
from hpcscientist.worker.element import MODULE

# What a candidate does when it is told to, by a file of that name beside the run directory. Its
# worker is out of its reach: whatever befalls that one comes from outside.
BODY = """
ROOT = TRIAL.parents[2]
def tell(name):
    with open(ROOT / name, "a") as file:
        file.write(f"{TRIAL.name} {os.uname().nodename}\\n")
def told(name):
    return (ROOT / f"{name}-{TRIAL.name}").exists()
tell("began")
while not told("finish"):
    if told("grow"):  # too far for Slurm, which ends what grew and spares the worker
        held, child = [], os.fork()
        while child == 0:
            held.append(b"x" * (64 << 20))
        os.waitpid(child, 0)
        tell("grown")
        linger()
    time.sleep(0.05)
predict()
tell("finished")
"""
HOUR_S = 3600.0


@dataclass(frozen=True, slots=True)
class Look:
    """What squeue and sacct answer at a moment; None where one does not answer."""

    queue: list[QueueRow] | None
    accounts: list[AccountRow] | None
    places: Mapping[str, list[tuple[str, int]]]

    def row(self, trial: str) -> QueueRow | None:
        """The row of a trial's latest array task."""
        job, number = self.places[trial][-1]
        rows = [row for row in self.queue or () if row.job_id == job]
        exact = [row for row in rows if any(number in part for part in row.tasks)]
        return next(iter(exact or [row for row in rows if not row.tasks]), None)

    def state(self, trial: str) -> str:
        """What squeue calls it; empty where it knows nothing of it."""
        row = self.row(trial)
        return row.state if row else ""

    def reason(self, trial: str) -> str:
        """Why it waits."""
        row = self.row(trial)
        return row.reason if row else ""

    def account(self, trial: str) -> str:
        """What sacct calls it; empty where it knows nothing of it."""
        job, number = self.places[trial][-1]
        for row in self.accounts or ():
            if row.job_id == job and row.task in (number, None):
                return row.state.partition(" ")[0]
        return ""

    def are(self, **states: str) -> bool:
        """Whether squeue, and sacct where it answers, call trials so."""
        return self.queue is not None and all(
            self.state(trial) == state
            and (
                self.accounts is None
                or self.account(trial) == state
                or (not self.account(trial) and phase(state) is not Phase.ENDED)
            )
            for trial, state in states.items()
        )

    def over(self) -> bool:
        """Whether all has ended, and accounting knows it."""
        rows = [row.phase for row in self.queue or ()]
        return (
            self.queue is not None
            and all(one is Phase.ENDED for one in rows)
            and all(phase(row.state) is Phase.ENDED for row in self.accounts or ())
        )


class World(ABC):
    """One run of a case."""

    real: bool
    pause_s = 0.2

    def __init__(self, folder: Path, python: str, server_folder: Path) -> None:
        self.bench = Bench(folder, python).prepare()
        self.campaign = f"case{secrets.token_hex(4)}"
        self.paths: RunPaths = self.bench.run
        self.specs: list[TrialSpec] = []
        self.places: dict[str, list[tuple[str, int]]] = {}
        self.jobs: list[str] = []
        self._heeded: dict[str, int] = {}
        self.names = Names(
            {
                self.campaign: "CAMPAIGN",
                getpass.getuser(): "USER",
                str(folder): "FOLDER",
                python: "PYTHON",
            }
        )
        self.squeues = 0
        self.over = threading.Event()
        self.struck: asyncio.Event | None = None
        self._twists: dict[str, list[Callable[[Asked, Answer], Answer]]] = {}
        self._blocked: list[str] = []
        self._slurm: dict[str, Any] = {}
        self._watch: dict[str, Any] = {}
        self._running: dict[str, asyncio.Task[Any]] = {}
        self.retries = 2
        self._patch = pytest.MonkeyPatch()
        self._loop: asyncio.AbstractEventLoop | None = None
        self.server = CommandServer(server_folder, self._answer)
        self._patch.setenv("PATH", on_path(self.server))

    # -- what each world does in its own way -------------------------

    @abstractmethod
    def reply(self, asked: Asked) -> Answer:
        """Answer a command."""

    @abstractmethod
    async def look(
        self,
        name: str,
        when: Callable[[Look], bool] = lambda look: True,
        rounds: int = 1,
        of: Sequence[str] = (),
    ) -> None:
        """Wait until Slurm answers so, and then until the backend has asked `rounds` times.

        `of`: whose rows count, of all trials', where it is luck whether others are there already.
        """

    @abstractmethod
    async def begin(self, *trials: str, node: str = "n1") -> None:
        """The worker of a trial's latest array task begins."""

    @abstractmethod
    async def printed(self, *trials: str) -> None:
        """Array tasks of trials have a log, though no worker may begin."""

    @abstractmethod
    async def tell(self, what: str, *trials: str) -> None:
        """Candidates `finish`; workers are killed (`kill`) or stopped (`stop`), and, after their
        candidates have taken too much memory, killed (`grow`)."""

    @abstractmethod
    async def fault(self, *words: str) -> None:
        """Break the development cluster, or fix it: slurm/devcluster's commands."""

    async def remember(self) -> None:
        """The controller, once it is killed, knows no more than it does now."""
        return None

    def node(self, trial: str) -> str:
        """The node where a trial's candidate began last."""
        return "n1"

    def fault_now(self, *words: str) -> None:
        """As `fault`, in this very thread: for a `twist`."""
        return None

    @abstractmethod
    async def user(self, *words: str, fails: bool = False, names: str = "") -> None:
        """A command of Slurm's that somebody gives by hand."""

    # -- the driver --------------------------------------------------

    def site(
        self, slurm: dict[str, Any] | None = None, watch: dict[str, Any] | None = None
    ) -> None:
        """Say more in the site profile."""
        self._slurm |= slurm or {}
        self._watch |= watch or {}

    def usual_watch(self) -> dict[str, Any]:
        """How often this world's backend looks."""
        return {}

    async def start(self, *trials: str, **changes: Any) -> None:
        """Start a driver: the first one, or one that resumes; it is given these trials, too."""
        self._loop = asyncio.get_running_loop()
        self.struck = asyncio.Event()
        self.paths.root.mkdir(parents=True, exist_ok=True)
        self._lock = DriverLock(self.paths.lock)
        state = CampaignState()
        self._journal = Journal(self.paths.journal, state.apply, self._lock.check)
        self._journal.record(CampaignStarted(campaign_id=self.campaign))
        generation = self._lock.generation
        self._journal.record(driver_started(generation, socket.gethostname(), os.getpid()))
        slurm = {"memory_margin_mb": 256, "pack_s": 0.0, "python": self.bench.python} | self._slurm
        watch = self.usual_watch() | self._watch
        profile = json.dumps({"slurm": slurm, "watch": watch})
        site = Site.model_validate_json(profile)
        self.backend = journalled(
            SlurmBackend(self.paths, site, self.campaign, MODULE),
            *(self._journal, state, generation),
            notify=lambda name, text: self._journal.record(NoteTaken(name=name, text=text)),
        )
        self._runner = TrialRunner(
            *(self.paths, self._journal, state, self.backend, generation),
            retries=self.retries,
            pause_s=self.pause_s,
        )
        known = list(self.specs)
        self._running = {}
        for spec in known:
            self._run(spec)
        await self.add(*trials, **changes)

    async def add(self, *trials: str, **changes: Any) -> None:
        """Give the driver trials."""
        given = {"memory_mb": 256, "deadline_s": 600.0} | changes
        for name in trials:
            spec = self.bench.trial(BODY, name, **given)
            source = spec.provenance.model_copy(update={"campaign_id": self.campaign})
            self.specs.append(spec.model_copy(update={"provenance": source}))
            self._run(self.specs[-1])

    def _run(self, spec: TrialSpec) -> None:
        self._running[spec.trial_id] = asyncio.create_task(self._runner.run([spec]))

    async def kill_driver(self) -> None:
        """The driver is gone, without another word to anybody."""
        self.backend.let_go()
        tending = [t for t in asyncio.all_tasks() if t.get_name() in ("slurm", "dispatcher")]
        for task in (running := [*self._running.values(), *tending]):
            task.cancel()
        if running:
            await asyncio.wait(running)
        for task in running:
            if not task.cancelled():
                task.exception()
        self._journal.close()
        self._lock.release()
        self.over.set()  # whatever command is still asked is told nothing
        await asyncio.sleep(0)
        self.over = threading.Event()

    async def killed_in_a_command(self) -> None:
        """Kill the driver in the midst of a command that is twisted to silence."""
        assert self.struck is not None
        await self.struck.wait()
        await self.kill_driver()

    async def cancel(self, *trials: str) -> None:
        """The campaign gives trials up; all of them unless some are named."""
        running = [self._running[name] for name in trials or self._running]
        for task in running:
            task.cancel()

    async def ended(self, *trials: str) -> None:
        """Wait until trials, or all, have come to their end."""
        running = [self._running[name] for name in trials or self._running]
        async with asyncio.timeout(HOUR_S):
            done, _ = await asyncio.wait(running)
        # Each one's is asked for: what nobody asked for is told by whatever frees memory next.
        errors = [error for task in done if not task.cancelled() and (error := task.exception())]
        if errors:
            raise errors[0]

    async def fails(self, kind: type[BaseException], *words: str) -> None:
        """Wait until the driver gives up, and look what it says."""
        with pytest.raises(kind) as caught:
            await self.ended()
        for word in words:
            assert word in str(caught.value), str(caught.value)

    async def end(self) -> None:
        """All trials have ended: so has all that is in the queue, and nothing is left."""
        await self.ended()
        await self.look("end", Look.over, rounds=0)
        await self.backend.close()
        self._is_clean()

    async def leave(self, look: bool = True) -> None:
        """The driver gives up, with all that is in the queue."""
        closing = asyncio.create_task(self.backend.close())
        if look:
            await self.look("given up", Look.over, rounds=0)
        await closing
        self._is_clean()

    def _is_clean(self) -> None:
        self._journal.close()
        self._lock.release()
        left = list(self.paths.submission.iterdir()) if self.paths.submission.exists() else []
        assert left == []

    # -- what came of it ---------------------------------------------

    def check(self, *, jobs: int | range, **expected: str) -> None:
        """Check each trial's story, one word a run, and how many arrays there were.

        A range of these is for what follows from which ends the driver sees together.

        `scored`, `idea:WHY`, or how the machine failed. Nothing lost, nothing accepted twice.
        """
        events = journals.read(self.paths.journal)
        assert len({event.key for event in events}) == len(events)
        found = {name: " ".join(map(_word, self.reports(name))) for name in expected}
        assert found == expected, self.story()
        for name in expected:
            reports = self.reports(name)
            assert [one.run for one in reports] == list(range(1, len(reports) + 1))
            assert not reports or read_result(self.paths.trial(name)) == reports[-1]
        some = jobs if isinstance(jobs, range) else range(jobs, jobs + 1)
        assert len(self.jobs) in some, self.jobs

    def check_refused(self, *trials: str, jobs: int | None = None) -> None:
        """Check that no trial has ended: each will be run when what is wrong is fixed."""
        found = {name: self.reports(name) for name in trials}
        assert not any(found.values()), self.story()
        assert jobs is None or len(self.jobs) == jobs

    def reports(self, trial: str) -> list[TrialReport]:
        """Every report of a trial in the journal, in order."""
        events = journals.read(self.paths.journal)
        ended = (one.report for one in events if isinstance(one, TrialEnded))
        return [report for report in ended if report.trial_id == trial]

    def notes(self) -> dict[str, str]:
        """What people were told."""
        events = journals.read(self.paths.journal)
        return {one.name: one.text for one in events if isinstance(one, NoteTaken)}

    def story(self) -> str:
        """What happened, for the message of a failing test."""
        return "\n".join(event.model_dump_json() for event in journals.read(self.paths.journal))

    def element(self, trial: str) -> str:
        """The number of a trial's latest array task, as scancel wants it."""
        job, number = self.places[trial][-1]
        return f"{job}_{number}"

    def job(self, trial: str) -> str:
        """The number of a trial's latest array."""
        return self.places[trial][-1][0]

    # -- the commands ------------------------------------------------

    def block(self, program: str) -> None:
        """The next such command is neither carried out nor answered; see `silence`."""
        self._blocked.append(program)

    def twist(self, program: str, how: Callable[[Asked, Answer], Answer]) -> None:
        """Spoil the next answer of a command that is otherwise carried out."""
        self._twists.setdefault(program, []).append(how)

    def silence(self, asked: Asked, answer: Answer) -> Answer:
        """For `twist`: the command never ends; the driver may be killed now (`struck`)."""
        assert self._loop is not None and self.struck is not None
        over = self.over  # this driver's: once it is struck, the next one's may take its place
        self._loop.call_soon_threadsafe(self.struck.set)
        over.wait(300)
        return Answer(1, "", f"{asked.program}: error: Unable to contact slurm controller\n")

    def _answer(self, asked: Asked) -> Answer:
        if asked.program in self._blocked:
            self._blocked.remove(asked.program)
            return self.silence(asked, Answer())
        answer = self.reply(asked)
        if asked.program == "sbatch" and answer.code == 0:
            self._submitted(asked, answer)
        waiting = self._twists.get(asked.program)
        if waiting:
            answer = waiting.pop(0)(asked, answer)
        self.squeues += asked.program == "squeue"
        return answer

    def _submitted(self, asked: Asked, answer: Answer) -> None:
        """Note which trial is in which array task."""
        folder = Path(asked.arguments[-1]).parent
        job = answer.out.split()[-1]
        self.names.add("JOB", job)
        self.names.add("BATCH", folder.name)
        self.jobs.append(job)
        record = json.loads((folder / "batch.json").read_text())
        for number, slots in enumerate(record["tasks"]):
            for slot in slots:
                self.places.setdefault(slot["trial_id"], []).append((job, number))

    async def asked_again(self, rounds: int) -> None:
        """Wait until the backend has asked squeue so many times more, and has made up its mind."""
        wanted = self.squeues + rounds
        async with asyncio.timeout(HOUR_S):
            while self.squeues < wanted:  # noqa: ASYNC110 (counted in another thread)
                await asyncio.sleep(0.1)
        await asyncio.sleep(0.3)

    def heeded(self) -> dict[str, list[tuple[str, int]]]:
        """Where trials are, as far as the case has heard: what it waits for may be over soon.

        A new array counts once the case has waited for it, by `begin`, `submitted` or a look.
        """
        return {
            name: places[: self._heeded.get(name, len(places))]
            for name, places in self.places.items()
        }

    def heed_places(self, *trials: str) -> None:
        """Take note of where trials are now."""
        for name in trials:
            if name in self.places:
                self._heeded[name] = len(self.places[name])

    def _raise_what_drives_raised(self) -> None:
        for task in self._running.values():
            if task.done() and not task.cancelled():
                task.result()

    async def submitted(self, *trials: str, times: int = 2) -> None:
        """Wait until trials have been submitted so many times."""
        for name in trials:
            await self.reached(
                f"{name} is submitted {times} times",
                lambda n=name: self.server.failures or len(self.places.get(n, ())) >= times,
            )
            self.heed_places(name)

    async def reached(self, what: str, condition: Callable[[], object]) -> None:
        """Wait for something of the driver's."""
        try:
            async with asyncio.timeout(HOUR_S):
                while not condition():
                    self._raise_what_drives_raised()
                    await asyncio.sleep(0.1)
        except TimeoutError:
            raise AssertionError(f"never: {what}\n{self.story()}") from None

    def close(self) -> None:
        """End what is left when the case has failed."""
        self.over.set()
        self.server.close()
        self._patch.undo()
        with contextlib.suppress(AttributeError):
            self._lock.release()


def options(text: str) -> tuple[str, ...]:
    """Return what a script asks Slurm for, its own paths left out."""
    found = [one.removeprefix("#SBATCH ") for one in text.splitlines() if one.startswith("#SBATCH")]
    return tuple(sorted(one for one in found if not one.startswith(("--output", "--error"))))


def _word(report: TrialReport) -> str:
    match report.outcome:
        case Scored():
            return "scored"
        case IdeaFailed(failure=failure):
            return f"idea:{failure.value}"
        case MachineFailed(failure=failure):
            return failure.value


PYTHON = sys.executable
