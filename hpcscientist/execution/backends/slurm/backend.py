"""Run trials as array tasks of a Slurm cluster: a batch is one array.

A single asyncio task watches everything. It looks at the files of running array tasks: that costs
Slurm nothing, so a finished trial is seen within a second. From time to time it makes a round,
which is one squeue. A separate task asks sacct if array tasks left the queue unseen.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import re
import time
from collections.abc import Collection, Iterator, Sequence

from hpcscientist.config.partitions import choose
from hpcscientist.errors import DiskFull, SchedulerError, SchedulerRefused, SchedulerSilent
from hpcscientist.execution.backends.process_backend import ChangeQueue
from hpcscientist.execution.backends.slots import refuse_patterns
from hpcscientist.execution.backends.slurm.batches import (
    ArrayRecord,
    BatchFolder,
    InQueue,
    accepting,
    at_once,
    need_of,
    need_of_limits,
    record_of,
    room,
)
from hpcscientist.execution.backends.slurm.commands import Slurm
from hpcscientist.execution.backends.slurm.limits import KnownLimits
from hpcscientist.execution.backends.slurm.running_tasks import RunningTasks
from hpcscientist.execution.backends.slurm.submit import Sender
from hpcscientist.execution.backends.slurm.sweep import cancel_jobs, end_arrays
from hpcscientist.execution.backends.slurm.watching.accounting import Accounting
from hpcscientist.execution.backends.slurm.watching.ledger import (
    ArrayTask,
    BatchLedger,
    LiveBatch,
    adopt,
    adopt_by_name,
    live_batch,
    loop_time,
)
from hpcscientist.execution.backends.slurm.watching.progress import TaskProgress
from hpcscientist.execution.backends.slurm.watching.rounds import Findings, RoundBackoff, Rounds
from hpcscientist.execution.backends.slurm.watching.states import meaning
from hpcscientist.files.atomic import NO_SPACE
from hpcscientist.files.rundir import RunPaths
from hpcscientist.history import status
from hpcscientist.records.site import Site, SlurmSite
from hpcscientist.records.trial import (
    Accepted,
    Answer,
    Batch,
    Capacity,
    Change,
    Ended,
    EndState,
    Freed,
    Held,
    Intent,
    Limits,
    Refused,
    RunId,
    Started,
    TrialSpec,
    Unknown,
)

# What sbatch's refusals mean: a limit that could not be read, a closed partition, or a final no.

# Slurm's messages about a limit on the number of jobs, and about one on a job's size: waiting helps
# only with the first.
_SUBMIT_LIMIT = re.compile(r"Submit\w*Limit|violates accounting/QOS policy|too many jobs", re.I)
_SIZE_LIMIT = re.compile(r"PerJob|Wall|Max(Cpu|Node|Mem|GRES|Billing|TRES)(?!\w*PerUser)", re.I)
_CLOSED = re.compile(r"partition not available|inactive or drain", re.IGNORECASE)
_REFUSALS, _LEARNED_S = 20, 300.0

UNLIMITED = 10**9


def is_closed(said: str) -> bool:
    """Return whether a refusal says that the partition accepts no jobs for now."""
    return bool(_CLOSED.search(said))


class Learned:
    """A submit limit that could not be read, inferred from refusals; it expires after a while."""

    def __init__(self) -> None:
        self._most, self._until, self._refusals = UNLIMITED, 0.0, 0

    @property
    def most(self) -> int:
        """Return how many of our array tasks may be in the queue, as far as is known."""
        return self._most if loop_time() < self._until else UNLIMITED

    def accepted(self) -> None:
        """Note that Slurm accepted an array."""
        self._refusals = 0

    def is_limit(self, said: str) -> bool:
        """Return whether a refusal is about a limit that fewer tasks may satisfy."""
        many = bool(_SUBMIT_LIMIT.search(said)) and not _SIZE_LIMIT.search(said)
        return many and self._refusals < _REFUSALS

    def refused(self, own: int, others: int, tasks: int) -> None:
        """Lower the limit: with `own` and `others` in the queue, `tasks` more were too many."""
        self._most, self._until = max(1, (own + tasks) // 2), loop_time() + _LEARNED_S
        # Count refusals while this user has nothing in the queue: then only other users' jobs can
        # make room, or nothing ever will.
        self._refusals = 0 if own or others else self._refusals + 1


# Ending unwanted array tasks: one scancel for all of them.


class Stops:
    """The array tasks to end, because they have unwanted trials; true while there are any."""

    def __init__(self, slurm: Slurm, ledger: BatchLedger) -> None:
        self._slurm, self._ledger = slurm, ledger

    def __bool__(self) -> bool:
        return any(_is_unwanted(task) for live in self._ledger.batches for task in live.tasks)

    async def carry_out(self) -> None:
        """Cancel the tasks not yet cancelled. Raises SchedulerSilent; call it again then."""
        ids: list[str] = []
        new = []
        for live in self._ledger.batches:
            stopping = [task for task in live.live_tasks() if _is_unwanted(task)]
            fresh = [task for task in stopping if not task.stopping]
            if live.job_id is None or not live.confirmed or not fresh:
                continue  # an unconfirmed id may be another job's
            new += fresh
            if len(stopping) == len(live.live_tasks()):
                ids.append(live.job_id)
            else:
                ids.append(f"{live.job_id}_[{','.join(str(task.number) for task in fresh)}]")
        if ids:
            await asyncio.to_thread(cancel_jobs, self._slurm, ids)
        for task in new:  # only now: if Slurm did not answer, scancel must be repeated
            task.stopping = True


def _is_unwanted(task: ArrayTask) -> bool:
    return bool(task.unwanted - task.over)


_STOP_POLL_S = 1.0
_STOP_PATIENCE_S = 90.0
_LIMIT_PAUSE_S = 15.0
_IDLE_S = 3600.0
_ORDINARY = {"", "None", "Priority", "Resources", "JobArrayTaskLimit", "BeginTime", "Cleaning"}


class SlurmBackend:
    """Runs trials as elements of arrays; at most `slots` array tasks are in the queue at once.

    Implements `ports.Backend`. Each array task runs `module`. Create it inside the event loop that
    uses it.
    """

    outlives_driver = True

    def __init__(
        self, paths: RunPaths, site: Site, campaign_id: str, module: str, slots: int = UNLIMITED
    ) -> None:
        """Ask Slurm nothing yet. Raises UsageError for a run directory that no job can use."""
        refuse_patterns(paths.root)
        self._paths, self._site, self._campaign_id = paths, site, campaign_id
        self._slots = slots
        self.slurm = Slurm.of(site)
        self._sender = Sender(self.slurm, site, module)
        self._ledger, self._told, self._learned = BatchLedger(), ChangeQueue(), Learned()
        self._limits = KnownLimits(self.slurm)
        self._progress = TaskProgress(paths, site.watch, self._ledger, self._tell)
        self._accounting = Accounting(self.slurm, campaign_id, self._wake_up)
        self._rounds = Rounds(
            *(self.slurm, self._ledger, campaign_id),
            accounting=self._accounting,
            believe=self._progress.believe,
            silence_s=site.watch.accounting_s,
        )
        self._backoff = RoundBackoff(site.watch.round_min_s, site.watch.round_max_s)
        self._stops = Stops(self.slurm, self._ledger)
        self._running = RunningTasks(self._ledger)
        self._wake, self._turn = asyncio.Event(), asyncio.Lock()
        self._stepped = asyncio.Event()  # set and replaced after each step
        self._tending: asyncio.Task[None] | None = None
        self._not_before = 0.0
        self._others = 0  # the user's other tasks in the queue
        self._left_any = False  # whether anything of the campaign may be in the queue
        self._looked_for_room = float("-inf")  # when `capacity` last found no room

    @property
    def gather_s(self) -> float:
        """Return how long to gather trials, in seconds; see `ports.Backend`."""
        return self._running.gather_s(self._site.watch.gather_s)

    async def adopt(self, intents: Sequence[Intent]) -> Collection[RunId]:
        """Take over arrays from their records; look for those without a record by their names."""
        given = adopt(self._ledger, self._paths.submission)
        for intent in intents:
            if intent.batch_id not in given:
                adopt_by_name(self._ledger, self._paths.submission, self._campaign_id, intent)
        self._left_any = bool(self._ledger.batches)
        self._tending = asyncio.create_task(self._tend(), name="slurm")
        return self._ledger.runs()

    async def capacity(self, like: TrialSpec, expect_s: float = math.inf) -> Capacity:
        """Return how many trials running array tasks accept, or else how many array tasks fit now.

        See `ports.Backend`. Raises SiteError for trials that no partition of the profile accepts.
        """
        site = choose(self._site, need_of_limits(self._site.slurm, like.limits))
        taken = self._running.capacity(like, expect_s, self._most(site, like.limits))
        if taken is not None:
            return taken
        async with self._turn:
            pause = self._not_before - loop_time()
            if pause <= 0 and self._limits.are_due(site, loop_time()):
                with self._listening():
                    await asyncio.to_thread(self._limits.read, site, loop_time())
                pause = self._not_before - loop_time()
            limits = self._limits.last(site)
            if pause > 0 or limits is None:
                return _paused(max(pause, 0.0))
            queue = InQueue(self._ledger.count_live(), self._others)
            slots = min(self._slots, self._learned.most)
            found = room(limits, site, queue, slots, like)
        if found.room:
            return self._running.room_for_array(found, like.limits)
        self._looked_for_room = loop_time()
        self._wake.set()
        return _paused(_LIMIT_PAUSE_S)

    async def submit(self, batch: Batch) -> Answer:
        """Submit an array, or add to running ones; see `ports`. Raises DiskFull, OSError."""
        late = self._running.assign(batch)
        if late is not None:
            for run in late:
                self._tell(Ended(run, EndState.NOT_SUBMITTED, ended_at=time.time()))
            self._wake.set()
            return Accepted()
        is_first = not self._ledger.batches
        folder = BatchFolder(self._paths.submission.absolute() / batch.batch_id)
        record = record_of(self._campaign_id, self._paths.trials.absolute(), batch, time.time())
        if self._site.slurm.stay_s and 2 * batch.expect_s <= self._site.slurm.pack_s:
            limits = self._limits.last(self._site_of(record))
            record = accepting(record, self._site, limits.max_minutes if limits else 0)
        live = live_batch(record, folder, None)
        live.expect_s = batch.expect_s
        self._ledger.add(live)  # before waiting for the lock, so that `cancel` finds its runs
        async with self._turn:
            answer = await self._submit(live, batch.avoid)
        if isinstance(answer, Accepted) and is_first:
            self._backoff.begin(loop_time())
        self._wake.set()
        return answer

    async def changes(self) -> Sequence[Change]:
        """Wait for changes; see `ports.Backend`.

        Raises SchedulerRefused if Slurm will never run what is queued.
        """
        return await self._told.take()

    async def cancel(self, runs: Collection[RunId]) -> None:
        """End the array tasks of runs, and wait until they have ended; see `ports.Backend`."""
        self._ledger.give_up(runs)
        self._wake.set()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_STOP_PATIENCE_S):
                while self._ledger.runs().intersection(runs) and self._is_tending():
                    await self._stepped.wait()

    async def sweep(self) -> None:
        """End every array of the campaign; see `ports.Backend`. Raises SchedulerSilent."""
        if self._tending is None:
            # `adopt` was never called, so find the arrays that earlier drivers left.
            adopt(self._ledger, self._paths.submission)
        await self._end_tending()
        # By name and comment: an array without a record, or counted as lost, may still run.
        if self._ledger.batches or self._left_any:
            await asyncio.to_thread(end_arrays, self.slurm, self._campaign_id)
        self._ledger.drop(everything=True)
        status.write_waiting(self._paths, {})
        with contextlib.suppress(OSError):  # not empty, or never made
            self._paths.submission.rmdir()

    async def close(self) -> None:
        """Leave queued and running tasks to Slurm; see `ports.Backend`."""
        await self._end_tending()

    def _wake_up(self) -> None:
        self._wake.set()

    def _is_tending(self) -> bool:
        return self._tending is not None and not self._tending.done()

    async def _end_tending(self) -> None:
        if self._tending is not None and not self._tending.done():
            self._tending.cancel()
            await asyncio.wait({self._tending})
        await self._accounting.close()

    async def _submit(self, live: LiveBatch, avoid: Sequence[str]) -> Answer:
        record, folder = live.batch, live.folder
        send = self._sender.submit
        try:
            live.job_id = await asyncio.to_thread(
                send, record, folder, self._avoidable(record, avoid)
            )
        except SchedulerSilent as error:
            self._left_any = True
            self._silent(error)  # the next round finds out whether the array was created
            return Unknown()
        except SchedulerRefused as error:
            self._ledger.drop_one(live)
            return await self._refused(str(error), record)
        except OSError as error:
            self._ledger.drop_one(live)
            if error.errno in NO_SPACE:
                where = self._paths.submission
                raise DiskFull(f"no space to submit below {where}: make room") from error
            raise
        self._left_any = True
        self._learned.accepted()
        return Accepted()

    async def _refused(self, said: str, record: ArrayRecord) -> Refused:
        if await self._is_too_large(record):
            self._told.tell(
                Held(
                    "limits changed",
                    f"Slurm's limits are lower now ({said}); trying smaller arrays",
                )
            )
            return Refused(said, transient=True)
        if self._learned.is_limit(said):
            # The site has a limit that could not be read: submit fewer, and wait for room.
            self._learned.refused(self._ledger.count_live(), self._others, len(record.tasks))
            self._hold(_LIMIT_PAUSE_S)
            self._told.tell(
                Held("submit limit", f"Slurm's submit limit is reached ({said}); waiting")
            )
            return Refused(said, transient=True)
        if is_closed(said):
            self._hold(_LIMIT_PAUSE_S)
            self._told.tell(Held("closed", f"Slurm takes no jobs there now ({said}); waiting"))
            return Refused(said, transient=True)
        return Refused(
            f"Slurm refused an array: {said}; fix the site profile (or --partition, "
            "--account, --qos, --constraint) and run `hpcsci resume`",
            transient=False,
        )

    async def _is_too_large(self, record: ArrayRecord) -> bool:
        """Return whether an array has more tasks than Slurm's current limits allow.

        Reading the limits again also makes the next array smaller.
        """
        try:
            limits = await asyncio.to_thread(self._limits.read, self._site_of(record), loop_time())
        except SchedulerError:
            return False
        return len(record.tasks) > min(limits.max_array, limits.max_submit)

    def _most(self, site: SlurmSite, limits: Limits) -> int:
        """Return how many array tasks of trials with these limits run side by side at most."""
        known, slots = self._limits.last(site), min(self._slots, self._learned.most)
        return at_once(known, site, slots, limits.cpus) if known else slots

    def _site_of(self, record: ArrayRecord) -> SlurmSite:
        """Return the settings of the profile's partition that accepts an array."""
        return choose(self._site, need_of(self._site.slurm, record))

    def _avoidable(self, record: ArrayRecord, avoid: Sequence[str]) -> Sequence[str]:
        """Return the nodes to exclude: at most half of the partition's, or one if unknown."""
        limits = self._limits.last(self._site_of(record))
        nodes = limits.nodes if limits else 0
        return avoid[: nodes // 2] if nodes else avoid[:1]

    async def _tend(self) -> None:
        try:
            while True:
                self._wake.clear()
                async with self._turn:
                    await self._step()
                # Not `wait_for`: before Python 3.12 it loses a cancellation that comes as it wakes,
                # and then `close` would wait for ever.
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._pause_s()):
                        await self._wake.wait()
        except Exception as error:  # noqa: BLE001 (passed on to whoever asks for changes)
            self._told.fail(error)
        finally:
            self._tell_waiting()

    async def _step(self) -> None:
        """Do everything that is due."""
        if self._stops:
            with self._listening():
                await self._stops.carry_out()
            self._backoff.hurry(loop_time(), _STOP_POLL_S)
        if self._must_look() and loop_time() >= self._backoff.due:
            await self._round()
        if (answered := self._rounds.heed_accounting()) is not None:
            self._heed(answered)
        self._progress.look()
        self._running.close_idle()
        self._ledger.drop()
        self._tell_waiting()

    def _tell_waiting(self) -> None:
        self._stepped.set()
        self._stepped = asyncio.Event()

    async def _round(self) -> None:
        self._backoff.done(loop_time())
        said, known = self._site.slurm.accounting, self._limits.any()
        with self._listening():
            findings = await self._rounds.ask(known.accounting if known else said != "no")
            if findings.others < self._others:
                self._ease()
            self._others = findings.others
            self._heed(findings)
            await asyncio.to_thread(status.write_waiting, self._paths, self._ledger.waiting())
            await asyncio.to_thread(cancel_jobs, self.slurm, findings.unwanted)

    def _heed(self, findings: Findings) -> None:
        if findings.changed:
            self._ease()
        self._tell_of_accounting(findings.lost)
        for live in findings.void:  # never submitted: its driver was killed before `sbatch`
            self._progress.end_void(live)
            self._ledger.drop_one(live)
        for reason in sorted(findings.reasons - _ORDINARY):
            said = f"array tasks wait in the queue: {meaning(reason)}"
            self._told.tell(Held(f"queue {reason}", said))
        findings.raise_if_hopeless()

    def _tell_of_accounting(self, lost: int) -> None:
        if self._accounting.silent_since is None:
            return
        limit_s = self._site.watch.accounting_s
        self._told.tell(
            Held(
                "accounting",
                f"Slurm's accounting does not answer ({self._accounting.said}); what became of "
                f"tasks that left the queue is asked again, and after {limit_s:g} s they are lost",
            )
        )
        if lost:
            text = f"accounting has been silent for {limit_s:g} s: {lost} tasks are run again"
            self._told.tell(Held("accounting lost", text))

    @contextlib.contextmanager
    def _listening(self) -> Iterator[None]:
        """Catch SchedulerSilent: hold submissions and ask again later."""
        try:
            yield
        except SchedulerSilent as error:
            self._silent(error)

    def _silent(self, error: SchedulerSilent) -> None:
        self._backoff.done(loop_time())
        self._hold(self._backoff.interval)
        self._told.tell(Held("silent", f"Slurm does not answer ({error}); it is asked again"))

    def _tell(self, change: Started | Ended) -> None:
        if isinstance(change, Ended):
            self._not_before = min(self._not_before, loop_time())
        self._told.tell(change)

    def _hold(self, pause_s: float) -> None:
        """Submit nothing for `pause_s` seconds."""
        self._not_before = max(self._not_before, loop_time() + pause_s)

    def _ease(self) -> None:
        self._not_before = min(self._not_before, loop_time())
        self._told.tell(Freed())

    def _must_look(self) -> bool:
        """Return whether to look at the queue: we have tasks in it, or wait for room in it."""
        lately = loop_time() - self._looked_for_room < 2 * _LIMIT_PAUSE_S
        return bool(self._ledger.batches) or lately

    def _pause_s(self) -> float:
        """Return the seconds until the next step is due."""
        waits = [_IDLE_S]
        if self._must_look():
            waits.append(self._backoff.due - loop_time())
        if self._ledger.batches:
            waits.append(self._progress.pause_s())
        return max(0.02, min(waits))


def _paused(pause_s: float) -> Capacity:
    return Capacity(room=0, batch_max=0, at_once=0, pause_s=pause_s)
