"""Trials that wait to be submitted, and their submission as arrays."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from hpcscientist.errors import DiskFull, SchedulerRefused, SchedulerSilent
from hpcscientist.execution.backends.slurm import batches, clock
from hpcscientist.execution.backends.slurm.batches import Batch, BatchFolder
from hpcscientist.execution.backends.slurm.ledger import Durations, Entry, Ledger, live_batch
from hpcscientist.execution.backends.slurm.limits import SlurmLimits
from hpcscientist.execution.backends.slurm.submit import Sender
from hpcscientist.files.rundir import RunPaths
from hpcscientist.files.space import NO_SPACE

# Slurm's words for a limit on the number of jobs; and for one on a job's size, which stays.
_SUBMIT_LIMIT = re.compile(r"Submit\w*Limit|violates accounting/QOS policy|too many jobs", re.I)
_SIZE_LIMIT = re.compile(r"PerJob|Wall|Max(Cpu|Node|Mem|GRES|Billing|TRES)(?!\w*PerUser)", re.I)
_REFUSALS, _LEARNED_S = 20, 300.0
_CLOSED = re.compile(r"partition not available|inactive or drain", re.IGNORECASE)
_LIMIT_PAUSE_S = 15.0
_UNLIMITED = 10**9


@dataclass(frozen=True, slots=True)
class Batching:
    """Whose trials go into arrays, and where these lie. Seconds.

    `gather_s` is how long trials are gathered before they are submitted.
    """

    paths: RunPaths
    campaign_id: str
    gather_s: float


class Outbox:
    """Waiting trials, first come first served.

    `others`: the user's other tasks in the queue. `lacks_room`: whether trials wait for the
    queue to empty, so that somebody has to look.
    """

    def __init__(
        self,
        sender: Sender,
        batching: Batching,
        ledger: Ledger,
        durations: Durations,
        notify: Callable[[str, str], None],
    ) -> None:
        self._sender, self._paths = sender, batching.paths
        self._campaign_id, self._gather_s = batching.campaign_id, batching.gather_s
        self._ledger, self._durations, self._notify = ledger, durations, notify
        self._waiting: list[Entry] = []
        self._avoided: tuple[str, ...] = ()
        self._not_before = 0.0
        self._learned, self._learned_until, self._refusals = _UNLIMITED, 0.0, 0
        self.others = 0
        self.lacks_room = False

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def put(self, entry: Entry) -> None:
        """Let a trial wait."""
        self._waiting.append(entry)

    def put_back(self, entries: Sequence[Entry]) -> None:
        """Let trials wait again, before all others; those that were given up are gone."""
        for entry in entries:
            if entry.stopping:
                entry.give_up()
        self._waiting[:0] = [entry for entry in entries if not entry.stopping]

    def withdraw(self, entries: Sequence[Entry]) -> None:
        """Take out what has not been submitted."""
        mine = {id(entry) for entry in entries}
        for entry in self._waiting:
            if id(entry) in mine:
                entry.gone.set()
        self._waiting = [entry for entry in self._waiting if id(entry) not in mine]

    def drain(self) -> list[Entry]:
        """Take out everything."""
        taken, self._waiting = self._waiting, []
        return taken

    def avoid(self, nodes: Collection[str]) -> None:
        """Leave these nodes out."""
        self._avoided = tuple(sorted(nodes))

    @property
    def due(self) -> float:
        """When the next submission is due, by the event loop's clock."""
        if not self._waiting:
            return float("inf")
        gathered = min(entry.since for entry in self._waiting) + self._gather_s
        return max(gathered, self._not_before)

    def is_due(self, now: float) -> bool:
        """Whether a submission is due."""
        return now >= self.due

    def hold(self, until: float) -> None:
        """Submit nothing before a time."""
        self._not_before = max(self._not_before, until)

    def ease(self) -> None:
        """Something ended: there may be room again."""
        self._not_before = min(self._not_before, clock.now())

    async def submit(self, limits: SlurmLimits, slots: int) -> bool:
        """Submit what there is room for, as few arrays as possible; tell whether any was.

        Raises SchedulerSilent, SchedulerRefused for what no waiting mends, and DiskFull.
        """
        done = False
        while self._waiting:
            queue = batches.InQueue(self._ledger.count_live(), self.others)
            first = self._waiting[0].spec
            space = batches.room(
                *(limits, self._sender.site, queue, min(slots, self._slots_learned())),
                cpus=first.limits.cpus,
            )
            wanted = batches.resources(first)
            group = [e for e in self._waiting if batches.resources(e.spec) == wanted]
            tasks = batches.arrange(
                [entry.spec for entry in group],
                self._sender.site.pack_s,
                space,
                self._durations.expect,
            )
            self.lacks_room = not tasks
            if self.lacks_room:
                self.hold(clock.now() + _LIMIT_PAUSE_S)
                break
            taken = group[: sum(len(task) for task in tasks)]
            batch = batches.make_batch(
                self._campaign_id, self._paths.trials.absolute(), tasks, time.time()
            )
            if not await self._submit(batch, taken, limits):
                break
            done = True
        return done

    def _slots_learned(self) -> int:
        return self._learned if clock.now() < self._learned_until else _UNLIMITED

    async def _submit(self, batch: Batch, taken: list[Entry], limits: SlurmLimits) -> bool:
        folder = BatchFolder(self._paths.submission.absolute() / batch.batch_id)
        live = live_batch(batch, folder, None)
        gone = {id(entry) for entry in taken}
        self._waiting = [entry for entry in self._waiting if id(entry) not in gone]
        self._ledger.add(live)
        for entry in taken:
            self._ledger.attach(entry)
        try:
            live.job_id = await asyncio.to_thread(
                self._sender.submit, batch, folder, self._avoidable(limits)
            )
        except SchedulerSilent:
            raise  # the next round finds out whether the array was made
        except (SchedulerRefused, OSError) as error:
            self._ledger.drop_one(live)
            self.put_back(taken)
            self._refused(error, len(batch.tasks))
            return False
        self._refusals = 0
        return True

    def _refused(self, error: SchedulerRefused | OSError, tasks: int) -> None:
        if isinstance(error, OSError):
            if error.errno in NO_SPACE:
                where = self._paths.submission
                raise DiskFull(f"no space to submit below {where}: make room") from error
            raise error
        if _is_submit_limit(str(error)) and self._refusals < _REFUSALS:
            # The site has a limit that could not be read: fit below it, and wait for room.
            self._learn(tasks)
            self._notify("submit limit", f"Slurm's submit limit is reached ({error}); waiting")
            return
        if _CLOSED.search(str(error)):
            self.hold(clock.now() + _LIMIT_PAUSE_S)
            self._notify("closed", f"Slurm takes no jobs there now ({error}); waiting")
            return
        raise SchedulerRefused(
            f"Slurm refused an array: {error}; mend the site profile (or --partition, "
            "--account, --qos, --constraint) and run `hpcsci resume`"
        ) from error

    def _learn(self, tasks: int) -> None:
        """Fit below a limit that could not be read, for a while; and wait for room."""
        now = clock.now()
        own = self._ledger.count_live()
        self._learned, self._learned_until = max(1, (own + tasks) // 2), now + _LEARNED_S
        # With nothing of ours in the queue only others can make room, or nobody ever will.
        self._refusals = 0 if own or self.others else self._refusals + 1
        self.hold(now + _LIMIT_PAUSE_S)

    def _avoidable(self, limits: SlurmLimits) -> tuple[str, ...]:
        """Return the nodes to leave out: never more than half of the partition's."""
        return self._avoided[: limits.nodes // 2] if limits.nodes else self._avoided[:1]


def _is_submit_limit(said: str) -> bool:
    """Whether waiting helps: there are too many jobs, and none of them is too large."""
    return bool(_SUBMIT_LIMIT.search(said)) and not _SIZE_LIMIT.search(said)
