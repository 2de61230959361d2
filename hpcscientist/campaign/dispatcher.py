"""Gathers waiting trials into batches, submits them and follows them to their end.

One task of the event loop does all the work; callers of `run` only wait. Runs that were lost before
they cost anything (see `records.trial.NOTHING_LOST`) are silently submitted again here.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import secrets
import statistics
import time
from bisect import insort
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Sequence
from itertools import pairwise

from hpcscientist.campaign.waiting import OnEnd, OnStart, WaitedRun, turn
from hpcscientist.errors import SchedulerRefused, SchedulerSilent
from hpcscientist.history.journal import Journal
from hpcscientist.history.state import CampaignState
from hpcscientist.ports import Backend, Notify
from hpcscientist.records.events import BatchQueued
from hpcscientist.records.trial import (
    NOTHING_LOST,
    Accepted,
    Batch,
    Capacity,
    Change,
    Ended,
    EndState,
    Freed,
    Held,
    Intent,
    Refused,
    RunId,
    Started,
    TrialSpec,
    Unknown,
)

# Which trials go into which batch: pure, the same for every backend.

_REMEMBERED = 200

Expect = Callable[[TrialSpec], float]


def shape(spec: TrialSpec) -> tuple[int, int, int, float]:
    """Return the resources that a trial asks for; trials with equal shapes can share a batch."""
    limits = spec.limits
    return limits.cpus, limits.gpus, limits.memory_mb, limits.deadline_s


def arrange(
    specs: Sequence[TrialSpec], capacity: Capacity, expect: Expect
) -> list[list[TrialSpec]]:
    """Arrange trials of one shape, in order, as the elements of one batch.

    Trials expected to be shorter than `capacity.pack_s` share an element until it is about that
    long, but only if there are more trials than can run concurrently. Elements are equally full, in
    whole waves of concurrent elements: a last element that runs alone would cost more than packing
    saves. Trials that do not fit are left out. `expect` returns a trial's expected seconds.
    """
    fit = min(capacity.room, capacity.batch_max)
    if not specs or fit < 1:
        return []
    longest = max(expect(spec) for spec in specs)
    by_length = max(1, int(min(capacity.pack_s / longest, len(specs)))) if longest > 0 else 1
    wave = max(1, min(fit, capacity.at_once))
    share = math.ceil(len(specs) / wave)
    each = max(1, min(by_length, capacity.each, share))
    count = min(len(specs), fit, wave * math.ceil(share / each))
    short, longer = divmod(min(len(specs), count * each), count)
    ends = [short * k + min(k, longer) for k in range(count + 1)]
    return [list(specs[begin:end]) for begin, end in pairwise(ends)]


def make_batch(
    elements: Sequence[Sequence[TrialSpec]],
    avoid: Sequence[str] = (),
    expect_s: float = math.inf,
) -> Batch:
    """Return a batch of these elements with a unique id: the time and a nonce."""
    return Batch(
        batch_id=f"{int(time.time()):x}{secrets.token_hex(3)}",
        elements=tuple(tuple(element) for element in elements),
        avoid=tuple(avoid),
        expect_s=expect_s,
    )


class Durations:
    """Durations of past trials in seconds, by deadline; packing uses them."""

    def __init__(self) -> None:
        self._seen: dict[float, deque[float]] = defaultdict(lambda: deque(maxlen=_REMEMBERED))

    def add(self, spec: TrialSpec, seconds: float) -> None:
        """Remember a trial's duration."""
        self._seen[spec.limits.deadline_s].append(max(0.0, seconds))

    def expect(self, spec: TrialSpec) -> float:
        """Return the median duration of trials with this deadline, the deadline if none ended."""
        seen = self._seen.get(spec.limits.deadline_s)
        return statistics.median(seen) if seen else spec.limits.deadline_s


_IDLE_S = 3600.0
_SHORTEST_S = 0.02  # the shortest pause: one due within a rounding error would spin


def journalled(
    backend: Backend, journal: Journal, state: CampaignState, generation: int, notify: Notify
) -> Dispatcher:
    """Return the dispatcher of a campaign, which continues with the journal's open intents."""

    def on_batch(batch: Batch) -> None:
        if backend.outlives_driver:
            journal.record(
                BatchQueued(batch_id=batch.batch_id, generation=generation, elements=batch.runs)
            )
            journal.flush()

    return Dispatcher(backend, intents=state.intents.open(), on_batch=on_batch, notify=notify)


class Dispatcher:
    """Submits trials to a backend in order; implements `Runs`.

    `intents` are the batches that earlier drivers journalled and that have not fully ended.
    `on_batch` is called with each batch before it is submitted, to journal the intent. `notify`
    gets a name and a sentence for people. Create it inside the event loop that uses it.
    """

    def __init__(
        self,
        backend: Backend,
        *,
        intents: Sequence[Intent] = (),
        on_batch: Callable[[Batch], None] = lambda batch: None,
        notify: Notify = lambda name, text: None,
    ) -> None:
        self.backend = backend
        self._intents, self._on_batch, self._notify = intents, on_batch, notify
        self._waiting: list[WaitedRun] = []
        self._entries: dict[RunId, WaitedRun] = {}  # all callers, submitted or not
        self._followed: set[RunId] = set()
        self._untold: dict[RunId, list[Started | Ended]] = {}  # adopted, without a caller yet
        self._said: set[str] = set()
        self._durations = Durations()
        self._avoided: tuple[str, ...] = ()
        self._not_before = 0.0
        self._wake = asyncio.Event()
        self._tending: asyncio.Task[None] | None = None
        self._kept = False

    @property
    def outlives_driver(self) -> bool:
        """Return whether trials that were let go continue without the driver."""
        return self.backend.outlives_driver

    async def run(self, trials: Sequence[TrialSpec], on_start: OnStart, on_end: OnEnd) -> None:
        """Run trials to their end; see `Runs`.

        Raises the backend's errors; `close` then ends the runs that are left.
        """
        if self._tending is None:
            self._tending = asyncio.create_task(self._tend(), name="dispatcher")
        elif self._tending.done():
            self._tending.result()  # raises the error that ended it
        loop = asyncio.get_running_loop()
        entries = [
            WaitedRun(spec, on_start, on_end, loop.create_future(), loop.time()) for spec in trials
        ]
        for entry in entries:
            self._put(entry)
        self._wake.set()
        try:
            await asyncio.wait(
                [entry.done for entry in entries], return_when=asyncio.FIRST_EXCEPTION
            )
            for done in (entry.done for entry in entries if entry.done.done()):
                done.result()
        finally:
            if not self._kept or not self.outlives_driver:
                await self._stop(entries)

    def avoid(self, nodes: Collection[str]) -> None:
        """Exclude nodes from batches submitted from now on."""
        self._avoided = tuple(sorted(nodes))

    def let_go(self) -> None:
        """Leave queued and running trials to a scheduler that outlives us; see `Runs`."""
        self._kept = True

    async def close(self) -> None:
        """End everything that was not let go, and stop following runs. Idempotent."""
        if self._tending is not None:
            self._tending.cancel()
            await asyncio.wait({self._tending})
            if not self._tending.cancelled():
                self._tending.exception()  # all callers have been notified
        entries = list(self._entries.values())
        if not self._kept:
            # If the scheduler does not answer, a driver that resumes finds what is left.
            with contextlib.suppress(SchedulerSilent):
                await self.backend.sweep()
        elif not self.outlives_driver:
            await self.backend.cancel(list(self._followed))
        await self.backend.close()
        for entry in entries:
            entry.give_up()
        self._entries.clear()
        self._waiting.clear()

    def _put(self, entry: WaitedRun) -> None:
        """Queue a run, or give its caller the changes of a run that is already followed."""
        if entry.run in self._entries:
            raise ValueError(f"{entry.run} is asked for already: nobody else may meanwhile")
        self._entries[entry.run] = entry
        if entry.run not in self._followed and entry.run not in self._untold:
            self._wait(entry)
            return
        for change in self._untold.pop(entry.run, []):
            self._apply(change)

    async def _tend(self) -> None:
        told: asyncio.Task[Sequence[Change]] | None = None
        try:
            self._followed |= set(await self.backend.adopt(self._intents))
            self._waiting = [e for e in self._waiting if e.run not in self._followed]
            told = asyncio.create_task(self._changes())
            while True:
                self._wake.clear()
                await self._submit()
                woken = asyncio.create_task(self._wake.wait())
                try:
                    await asyncio.wait(
                        {told, woken},
                        timeout=max(_SHORTEST_S, self._pause_s()),
                        return_when=asyncio.FIRST_COMPLETED,
                    )
                finally:
                    woken.cancel()
                if told.done():
                    changes = told.result()
                    told = None
                    try:
                        if self._may_refill(changes):
                            await self._submit()
                    finally:  # apply what is known, whatever was raised
                        for change in changes:
                            self._apply(change)
                    told = asyncio.create_task(self._changes())
        except Exception as error:
            if told is not None and told.done():
                with contextlib.suppress(Exception):  # apply what is known, whatever was raised
                    for change in told.result():
                        self._apply(change)
            # Notify all callers; `close` ends their runs.
            for entry in list(self._entries.values()):
                entry.fail(error)
                entry.gone.set()
            raise
        finally:
            if told is not None:
                # If it has just failed, this keeps asyncio from reporting that nobody asked why.
                told.cancel()

    async def _changes(self) -> Sequence[Change]:
        return await self.backend.changes()

    def _may_refill(self, changes: Sequence[Change]) -> bool:
        """Return whether to refill freed slots before notifying waiters: notification is slow and
        would leave slots idle. Not if a run has to be submitted again, which goes first, and not
        for a scheduler, whose queue keeps its slots busy.
        """
        ends = [change for change in changes if isinstance(change, Ended)]
        if ends:
            self._ease()
        again = any(end.state in NOTHING_LOST for end in ends)
        return bool(ends) and not (again or self.outlives_driver)

    def _apply(self, change: Change) -> None:
        match change:
            case Held() if change.name not in self._said:
                self._said.add(change.name)
                self._notify(change.name, change.why)
            case Held():
                return
            case Freed():
                self._ease()
            case Started() | Ended():
                self._apply_to_run(change)

    def _apply_to_run(self, change: Started | Ended) -> None:
        entry = self._entries.get(change.run)
        if isinstance(change, Ended):
            self._followed.discard(change.run)
        if entry is None:
            self._untold.setdefault(change.run, []).append(change)
        elif isinstance(change, Started):
            entry.start()
        elif entry.stopping:
            self._forget(entry)
            entry.give_up()
        elif change.state in NOTHING_LOST:
            self._wait(entry)
        else:
            if change.state is EndState.ENDED and change.began_at is not None:
                self._durations.add(entry.spec, change.ended_at - change.began_at)
            self._forget(entry)
            entry.end(change)

    def _wait(self, entry: WaitedRun) -> None:
        """Queue an entry in order; a resubmitted one keeps its place."""
        insort(self._waiting, entry, key=turn)

    def _forget(self, entry: WaitedRun) -> None:
        if self._entries.get(entry.run) is entry:
            del self._entries[entry.run]

    def _ease(self) -> None:
        """Allow a submission now: something ended, so there may be room."""
        self._not_before = min(self._not_before, asyncio.get_running_loop().time())

    def _hold(self, pause_s: float) -> None:
        until = asyncio.get_running_loop().time() + pause_s
        self._not_before = max(self._not_before, until)

    def _pause_s(self) -> float:
        """Return the seconds until a submission is due."""
        if not self._waiting:
            return _IDLE_S
        gathered = min(entry.since for entry in self._waiting) + self.backend.gather_s
        return max(gathered, self._not_before) - asyncio.get_running_loop().time()

    async def _submit(self) -> None:
        """Submit the trials that there is room for, in as few batches as possible, if it is due."""
        if self._pause_s() > 0:
            return
        while self._waiting:
            first = self._waiting[0].spec
            expect_s = self._durations.expect(first)
            capacity = await self.backend.capacity(first, expect_s)
            group = [entry for entry in self._waiting if shape(entry.spec) == shape(first)]
            elements = arrange([entry.spec for entry in group], capacity, self._durations.expect)
            if not group:
                continue  # their callers gave up meanwhile
            if not elements:
                self._hold(capacity.pause_s)
                return
            taken = group[: sum(len(element) for element in elements)]
            batch = make_batch(elements, self._avoided, expect_s)
            self._on_batch(batch)
            gone = {id(entry) for entry in taken}
            self._waiting = [entry for entry in self._waiting if id(entry) not in gone]
            self._followed.update(entry.run for entry in taken)
            match await self.backend.submit(batch):
                case Accepted():
                    continue
                case Unknown():
                    return
                case Refused() as refusal:
                    self._take_back(taken)
                    if not refusal.transient:
                        raise SchedulerRefused(refusal.why)
                    return

    def _take_back(self, refused: Sequence[WaitedRun]) -> None:
        self._followed.difference_update(entry.run for entry in refused)
        for entry in refused:
            if entry.stopping:
                self._forget(entry)
                entry.give_up()
        for entry in refused:
            if not entry.stopping:
                self._wait(entry)

    async def _stop(self, entries: Sequence[WaitedRun]) -> None:
        """End the entries that still wait or run; return when they have ended."""
        mine = {id(entry) for entry in entries}
        for entry in [entry for entry in self._waiting if id(entry) in mine]:
            entry.gone.set()
            self._forget(entry)
        self._waiting = [entry for entry in self._waiting if id(entry) not in mine]
        alive = [entry for entry in entries if not entry.gone.is_set()]
        for entry in alive:
            entry.stopping = True
        if not alive or self._tending is None or self._tending.done():
            return
        stopping = asyncio.ensure_future(self.backend.cancel([entry.run for entry in alive]))
        # Shielded: a second cancellation must not leave jobs behind.
        await asyncio.shield(stopping)
