"""Trials as array tasks of a Slurm cluster.

One task of this event loop tends everything: it gathers waiting trials into arrays, looks at
the files of running array tasks (a file costs Slurm nothing, so a finished trial is seen within
a second), and makes a round of one squeue and one sacct now and then. Callers of `run` only
wait. Array tasks that Slurm ended before their trials began, and preempted ones, are submitted
again here, without a word; whatever ran and was lost is reported.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Collection, Iterator, Sequence

from hpcscientist.errors import SchedulerSilent
from hpcscientist.execution.backends.patterns import refuse_patterns
from hpcscientist.execution.backends.slurm import clock
from hpcscientist.execution.backends.slurm.commands import Slurm
from hpcscientist.execution.backends.slurm.ledger import Durations, Entry, Ledger, adopt
from hpcscientist.execution.backends.slurm.limits import SlurmLimits, read_limits
from hpcscientist.execution.backends.slurm.outbox import Batching, Outbox
from hpcscientist.execution.backends.slurm.progress import Progress
from hpcscientist.execution.backends.slurm.rounds import Backoff, Findings, Rounds
from hpcscientist.execution.backends.slurm.stops import Stops
from hpcscientist.execution.backends.slurm.submit import Sender
from hpcscientist.execution.backends.slurm.sweep import cancel_jobs, end_arrays
from hpcscientist.files.rundir import RunPaths
from hpcscientist.ports.backend import OnEnd, OnTrial
from hpcscientist.records.site import Site
from hpcscientist.records.trial import TrialSpec

Notify = Callable[[str, str], None]

UNLIMITED = 10**9
_STOP_POLL_S = 1.0
_STOP_PATIENCE_S = 90.0
_IDLE_S = 3600.0
_ORDINARY = {"", "None", "Priority", "Resources", "JobArrayTaskLimit", "BeginTime", "Cleaning"}


class SlurmBackend:
    """Runs trials as elements of arrays; at most `slots` array tasks are in the queue at once.

    `module` is what each array task runs. `notify` is told, by a name and a sentence, what
    people should know: why jobs wait, that Slurm does not answer. Make it inside the event
    loop that uses it.
    """

    outlives_driver = True

    def __init__(
        self,
        paths: RunPaths,
        site: Site,
        campaign_id: str,
        module: str,
        notify: Notify = lambda name, text: None,
        slots: int = UNLIMITED,
    ) -> None:
        """Ask Slurm nothing yet. Raises UsageError for a run directory that no job can lie in."""
        refuse_patterns(paths.root)
        self._paths, self._site, self._notify = paths, site, notify
        self._campaign_id = campaign_id
        self._total = slots
        self.slurm = Slurm(site.watch.command_s)
        self._ledger, durations = Ledger(), Durations()
        self._limits: SlurmLimits | None = None
        self._rounds = Rounds(self.slurm, self._ledger, campaign_id)
        sender = Sender(self.slurm, site.slurm, module)
        batching = Batching(paths, campaign_id, site.watch.gather_s)
        self._outbox = Outbox(sender, batching, self._ledger, durations, notify)
        self._progress = Progress(paths, site.watch, self._ledger, durations, self._outbox.put_back)
        self._backoff = Backoff(site.watch.round_min_s, site.watch.round_max_s)
        self._wake = asyncio.Event()
        self._tending: asyncio.Task[None] | None = None
        self._stops = Stops(self.slurm, self._ledger)
        self._kept = False

    @property
    def slots(self) -> int:
        """How many array tasks are in the queue at once, at most."""
        return self._total

    async def run(self, trials: Sequence[TrialSpec], on_start: OnTrial, on_end: OnEnd) -> None:
        """Run trials to their end; see the port.

        Raises SchedulerRefused when Slurm will never run them.
        """
        if self._tending is None:
            adopt(self._ledger, self._paths.submission)
            self._tending = asyncio.create_task(self._tend(), name="slurm")
        elif self._tending.done():
            self._tending.result()  # which raises what ended it
        loop = asyncio.get_running_loop()
        entries = [Entry(spec, on_start, on_end, loop.create_future()) for spec in trials]
        for entry in entries:
            if not self._ledger.attach(entry):
                self._outbox.put(entry)
        self._wake.set()
        try:
            await asyncio.wait(
                [entry.done for entry in entries], return_when=asyncio.FIRST_EXCEPTION
            )
            for done in (entry.done for entry in entries if entry.done.done()):
                done.result()
        finally:
            if not self._kept:
                await self._stop(entries)

    def avoid(self, nodes: Collection[str]) -> None:
        """Leave nodes out of arrays submitted from now on; see the port."""
        self._outbox.avoid(nodes)

    def let_go(self) -> None:
        """Leave what is queued and runs to Slurm; see the port."""
        self._kept = True

    async def close(self) -> None:
        """End every job of ours unless they were let go. Idempotent."""
        if self._tending is None:
            adopt(
                self._ledger, self._paths.submission
            )  # of arrays that drivers before us left, nothing was wanted any more
        else:
            self._tending.cancel()
            await asyncio.wait({self._tending})
            if not self._tending.cancelled():
                self._tending.exception()  # whoever waited has been told
        waiting = self._everybody()
        if not self._kept:
            # Where Slurm is silent their folders stay, for a driver that resumes to find them by.
            with contextlib.suppress(SchedulerSilent):
                if self._ledger.batches:
                    await asyncio.to_thread(end_arrays, self.slurm, self._campaign_id)
                self._clear_up(everything=True)
        for entry in waiting:
            entry.give_up()

    def _everybody(self) -> list[Entry]:
        """Take whoever waits out of the outbox, and return them with those who wait in arrays."""
        live = [entry for _, task in self._ledger.tasks() for _, entry in task.remaining()]
        return self._outbox.drain() + live

    async def _tend(self) -> None:
        try:
            while True:
                self._wake.clear()
                await self._step()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._wake.wait(), self._pause_s())
        except Exception as error:
            # Whoever waits is told, and what they wait for is stopped without our help.
            for entry in self._everybody():
                entry.fail(error)
                entry.gone.set()
            raise

    async def _step(self) -> None:
        """Do whatever is due."""
        if self._outbox.is_due(clock.now()) and await self._has_limits():
            assert self._limits is not None
            with self._listening():
                is_first = not self._ledger.batches
                if await self._outbox.submit(self._limits, self._total) and is_first:
                    self._backoff.begin(clock.now())
        if self._stops:
            with self._listening():
                await self._stops.carry_out()
            self._backoff.hurry(clock.now(), _STOP_POLL_S)
        if self._must_look() and clock.now() >= self._backoff.due:
            await self._round()
        if self._progress.look():
            self._outbox.ease()
        self._clear_up()

    async def _has_limits(self) -> bool:
        with self._listening():
            self._limits = self._limits or await asyncio.to_thread(
                read_limits, self.slurm, self._site.slurm
            )
        return self._limits is not None

    async def _round(self) -> None:
        self._backoff.done(clock.now())
        said, known = self._site.slurm.accounting, self._limits
        with self._listening():
            findings = await self._rounds.ask(known.accounting if known else said != "no")
            self._heed(findings)
            await asyncio.to_thread(cancel_jobs, self.slurm, findings.held)

    def _heed(self, findings: Findings) -> None:
        if findings.others < self._outbox.others:
            self._outbox.ease()
        self._outbox.others = findings.others
        for live in findings.void:  # its driver was killed before `sbatch`
            self._ledger.drop_one(live)
            for task in live.tasks:
                self._outbox.put_back([entry for _, entry in task.remaining()])
        if findings.changed:
            self._outbox.ease()
        for reason in sorted(findings.reasons - _ORDINARY):
            self._notify(f"queue {reason}", f"array tasks wait in the queue: {reason}")
        findings.raise_if_hopeless()

    @contextlib.contextmanager
    def _listening(self) -> Iterator[None]:
        """Take Slurm's silence for what it is: ask again later."""
        try:
            yield
        except SchedulerSilent as error:
            now = clock.now()
            self._backoff.done(now)
            self._outbox.hold(now + self._backoff.interval)
            self._notify("silent", f"Slurm does not answer ({error}); it is asked again")

    async def _stop(self, entries: Sequence[Entry]) -> None:
        """End what still runs or waits of entries; return when it has ended."""
        self._outbox.withdraw(entries)
        alive = [entry for entry in entries if not entry.gone.is_set()]
        for entry in alive:
            entry.stopping = True
        if not alive or self._tending is None or self._tending.done():
            return
        self._stops.add(alive)
        self._wake.set()
        gone = asyncio.gather(*(entry.gone.wait() for entry in alive))
        # Shielded: a second cancellation must not leave jobs behind.
        waiting = asyncio.ensure_future(asyncio.wait_for(gone, _STOP_PATIENCE_S))
        with contextlib.suppress(TimeoutError):
            await asyncio.shield(waiting)

    def _must_look(self) -> bool:
        """Whether the queue matters: something of ours is in it, or waits for room in it."""
        return bool(self._ledger.batches) or (bool(self._outbox) and self._outbox.lacks_room)

    def _pause_s(self) -> float:
        """Return the seconds until something is due."""
        now = clock.now()
        waits = [_IDLE_S]
        if self._outbox:
            waits.append(self._outbox.due - now)
        if self._must_look():
            waits.append(self._backoff.due - now)
        if self._ledger.batches:
            waits.append(self._progress.pause_s())
        return max(0.02, min(waits))

    def _clear_up(self, everything: bool = False) -> None:
        """Remove the folders of arrays that have ended."""
        self._ledger.drop(everything)
        if everything:
            with contextlib.suppress(OSError):  # not empty, or never made
                self._paths.submission.rmdir()
