"""The main loop: decide, start actions, wait, repeat, until the campaign ends or the driver stops.

    journal --fold--> state --decide--> actions --perform--> events --> journal

All decisions depend only on the state, which is computed from the journal. So recovery needs no
separate code path: a driver that resumes decides what is missing, and adopts what the scheduler
still runs.

If an endpoint does not answer, actions that ask it are held and trials continue. The loop retries
one held action now and then. The driver stops once nothing else is left to do.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from importlib import import_module

from hpcscientist.campaign.claims import Claims
from hpcscientist.campaign.proposals.admission import Admission
from hpcscientist.campaign.pursuit.effort import EffortDecider
from hpcscientist.campaign.pursuit.idea_runner import IdeaRunner
from hpcscientist.campaign.result_files import Compactor
from hpcscientist.campaign.trial_runner import DueTrials, TrialRunner
from hpcscientist.conduct import reference
from hpcscientist.conduct.actions import (
    Action,
    Admit,
    BriefIdea,
    Compact,
    Decide,
    Finish,
    JudgeFindings,
    Propose,
    RunTrial,
    Spend,
    Stop,
    Take,
)
from hpcscientist.conduct.agenda import AgendaCache
from hpcscientist.conduct.decide import decide
from hpcscientist.conduct.rules import Rules
from hpcscientist.conduct.strategy.steps import Conclude, Read, Review, Write
from hpcscientist.confirmation.looks import Looks
from hpcscientist.errors import (
    BaselineFailed,
    BaselineNoisy,
    EndpointError,
    HpcsciError,
    IdeaDamaged,
    MachineTrouble,
    RunDirectoryError,
)
from hpcscientist.history.journal import Journal
from hpcscientist.history.state import CampaignState
from hpcscientist.judgement.baseline_drift import BaselineDrift
from hpcscientist.records.events import NoteTaken
from hpcscientist.records.idea import BASELINE_ID
from hpcscientist.records.trial import Stage

# Maps each action to the object that performs it. A finished action's events are journalled.


@dataclass(frozen=True, slots=True)
class Performers:
    """All performers of one driver."""

    rules: Rules
    state: CampaignState
    admission: Admission
    idea_runner: IdeaRunner
    effort: EffortDecider
    due: DueTrials
    trials: TrialRunner
    baseline_drift: BaselineDrift
    looks: Looks
    compactor: Compactor
    claims: Claims

    def begin(self) -> None:
        """Restore what an earlier driver left to what its journal says. Raises OSError."""
        self.compactor.results.restore()
        self.catch_up()

    def end(self) -> None:
        """Restore the run directory to what the journal says, and write all claims, before this
        driver leaves. Raises OSError.
        """
        self.catch_up()
        self.idea_runner.attempt_store.integrity.look()
        self.compactor.results.restore()
        self.claims.write_all()

    def catch_up(self) -> None:
        """Emit the decisions that follow from finished baseline trials, in case a killed driver
        did not.
        """
        if reference.has_run(self.state, self.rules):
            self.baseline_drift.tell()
            self.looks.tell()

    async def perform(self, action: Action) -> None:
        """Perform an action. Raises EndpointError, MachineTrouble, DiskFull, RunDirectoryError."""
        try:
            match action:
                case RunTrial():
                    spec = self.due.spec(action)
                    with self.due.integrity.trial_of(action.idea_id):
                        await self.trials.once(spec)
                    await self._follow_up(action.idea_id)
                case Propose(number, round_number):
                    await self.admission.propose(number, round_number)
                case Admit(number):
                    await self.admission.admit(number)
                case BriefIdea(idea_id):
                    await self.idea_runner.brief(idea_id)
                case Take(idea_id, step):
                    await self.idea_runner.take(action)
                    if isinstance(step, Conclude):
                        self.claims.write(idea_id)
                case Decide(idea_id, after):
                    self.effort.decide(idea_id, after)
                    await self.idea_runner.note(idea_id)
                case JudgeFindings(ended, last):
                    self.looks.choose(ended, last=last)
                case Spend(idea_id):
                    self.looks.spend(idea_id)
                case Compact():
                    await self.compactor.compact()
                case _:
                    raise AssertionError(f"{action.key} is the conductor's")
        except IdeaDamaged as error:
            self._leave(action, error)

    def _leave(self, action: Action, error: IdeaDamaged) -> None:
        """Leave a damaged idea to the next driver; other ideas go on. Raises the error if no idea
        can be left.
        """
        idea_id = action.idea_id if isinstance(action, RunTrial | Take | BriefIdea) else ""
        progress = self.state.progress
        if isinstance(action, RunTrial) and action.stage is Stage.CONFIRM:
            self.looks.set_aside(idea_id, str(error))
        elif idea_id in progress.open or idea_id in progress.aside:
            self.idea_runner.leave(idea_id, str(error))
        else:
            raise error

    async def _follow_up(self, idea_id: str) -> None:
        """Record what follows from the end of a trial."""
        if idea_id == BASELINE_ID:
            self.catch_up()
        elif idea_id in self.state.progress.open:
            await self.idea_runner.note(idea_id)


_FLUSH_S = 0.5
_ASKED_AGAIN_S, _SELDOM_S = 30.0, 600.0  # pause before a retry: the first, doubled up to the last
_ERRORS: dict[str, type[HpcsciError]] = {
    "machine": MachineTrouble,
    "damaged": RunDirectoryError,
    "baseline": BaselineFailed,
    "noisy": BaselineNoisy,
}

# Modules that import slowly: importing one inside the loop would block it and leave slots idle. The
# bank compares texts with the first, statistics use the next two, and code checks use the last.
_SLOW = ("scipy.sparse", "scipy.special", "numpy.polynomial.legendre", "pyflakes.checker")


@dataclass(slots=True)
class Conductor:
    """Runs the loop of one campaign for one driver. `now` returns seconds since the epoch."""

    rules: Rules
    state: CampaignState
    journal: Journal
    performers: Performers
    now: Callable[[], float] = time.time

    async def run(self) -> None:
        """Run the campaign to its end.

        Raises BaselineFailed, MachineTrouble, EndpointError, DiskFull or RunDirectoryError;
        everything recorded by then is kept, and a new conductor continues from there.
        """
        stale = _Stale(asyncio.get_running_loop())
        with self.journal.grouped(stale.soon):
            await self._run(stale)

    async def _run(self, stale: _Stale) -> None:
        self.performers.begin()
        memory, held = AgendaCache(), _Held()
        under_way: dict[asyncio.Task[None], str] = {}
        try:
            while True:
                begun = under_way.values()
                busy = {*begun, *held.waiting(begun, self.now())}
                found = decide(self.state, self.rules, busy, self.now(), memory)
                if stale.event.is_set() or any(map(_acts, found.actions)):
                    self.journal.flush()
                    stale.clear()
                for action in found.actions:
                    if isinstance(action, Stop | Finish):
                        self.performers.end()
                        if isinstance(action, Stop):
                            raise _ERRORS[action.kind](action.why)
                        return
                    task = asyncio.create_task(self.performers.perform(action), name=action.key)
                    under_way[task] = action.key
                if held.error is not None:
                    self._go_on_without(held.error, under_way, found.wake_at)
                wake_at = min(filter(None, (found.wake_at, held.again_at)), default=None)
                await self._wait(under_way, held, stale, wake_at)
        finally:
            await _end(under_way)

    def _go_on_without(
        self, error: EndpointError, under_way: dict[asyncio.Task[None], str], wake_at: float | None
    ) -> None:
        """Raise the endpoint's error once no work is left that can go on without the endpoint."""
        if not under_way and wake_at is None:
            raise error
        if any(key.startswith("run/") for key in under_way.values()):
            text = f"{error}; trials go on meanwhile, and it is asked again"
            self.journal.record(NoteTaken(name="endpoint", text=text))

    async def _wait(
        self,
        under_way: dict[asyncio.Task[None], str],
        held: _Held,
        stale: _Stale,
        wake_at: float | None,
    ) -> None:
        """Wait until an action is done, or until it is time to decide again."""
        pause_s = None if wake_at is None else max(0.0, wake_at - self.now())
        flush = asyncio.create_task(stale.event.wait())
        try:
            done, _ = await asyncio.wait(
                {*under_way, flush}, timeout=pause_s, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            flush.cancel()
        errors = []
        for task in [task for task in under_way if task in done]:
            key, error = under_way.pop(task), task.exception()
            if isinstance(error, EndpointError):
                held.hold(key, error, self.now())
            elif error is not None:
                errors.append(error)
            else:
                held.ended_well(key)
        if errors:
            # Of several errors, prefer one that people can fix.
            raise next((e for e in errors if isinstance(e, HpcsciError)), errors[0])


def _acts(action: Action) -> bool:
    """Return whether the journal must be flushed to disk before this action.

    It must if the action asks a model or a library, or ends this driver. All other actions record
    more, or wait for the disk themselves (`Journal.settled`).
    """
    match action:
        case Take(_, step):
            return isinstance(step, Write | Review | Read)
        case _:
            return isinstance(action, Propose | BriefIdea | Stop | Finish)


@dataclass(slots=True)
class _Held:
    """The keys of actions held for an endpoint, and when to retry one of them."""

    error: EndpointError | None = None  # the last error; None if nothing is held
    again_at: float | None = None
    _keys: dict[str, None] = field(default_factory=dict)
    _tried: str = ""
    _pause_s: float = 0.0

    def waiting(self, under_way: Collection[str], now: float) -> set[str]:
        """Return the keys that stay held; once a retry is due, all but one."""
        if self._tried and self._tried not in under_way:  # it is no longer wanted
            self._tried = ""
            self.error, self.again_at = (self.error, now) if self._keys else (None, None)
        if self._keys and self.again_at is not None and now >= self.again_at:
            self._tried, self.again_at = next(iter(self._keys)), None
            del self._keys[self._tried]
        return set(self._keys)

    def hold(self, key: str, error: EndpointError, now: float) -> None:
        """Hold an action that failed because the endpoint did not answer."""
        self._keys[key] = None
        self.error = error
        if key == self._tried:
            self._tried, self._pause_s = "", min(2 * self._pause_s, _SELDOM_S)
            self.again_at = now + self._pause_s
        elif not self._tried and self.again_at is None:
            self._pause_s = _ASKED_AGAIN_S
            self.again_at = now + self._pause_s

    def ended_well(self, key: str) -> None:
        """Release all held actions if this is the one that was retried."""
        if key == self._tried:
            self._keys.clear()
            self._tried, self.error, self.again_at = "", None, None


class _Stale:
    """An event that is set a while after a journal record that needs no new decision.

    An example is a trial that left the queue.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.event = asyncio.Event()
        self._loop = loop
        self._timers: list[asyncio.TimerHandle] = []

    def soon(self) -> None:
        """Set the event in a while. Callable from any thread."""
        self._loop.call_soon_threadsafe(self._arm)

    def _arm(self) -> None:
        self._timers.append(self._loop.call_later(_FLUSH_S, self.event.set))

    def clear(self) -> None:
        """Clear the event and its timers, after the journal was flushed."""
        self.event.clear()
        while self._timers:
            self._timers.pop().cancel()


async def _end(under_way: dict[asyncio.Task[None], str]) -> None:
    """Cancel all tasks and wait for them to end."""
    for task in under_way:
        task.cancel()
    if under_way:
        await asyncio.wait(under_way)
    for task in under_way:
        if not task.cancelled():
            task.exception()  # the first error is the one that counts


def warm_up() -> None:
    """Import the slow modules before the loop begins. Raises ImportError.

    In a thread beside the loop they would delay the first ideas for longer than this takes.
    """
    for name in _SLOW:
        import_module(name)
