"""The status of a campaign: its state from the journal, and whether a driver is alive."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hpcscientist.errors import CampaignBusy, DiskFull, NoRunDirectory, RunDirectoryError
from hpcscientist.files.atomic import NO_SPACE, write_text
from hpcscientist.files.lock import BEAT_S, STALE_S, FolderLocked, Lock, read_holder
from hpcscientist.files.rundir import RunPaths
from hpcscientist.history import frozen, journal, stale_launch
from hpcscientist.history.state import CampaignState
from hpcscientist.history.upcasting import JournalLine
from hpcscientist.records.base import Record
from hpcscientist.records.events import TamperingFound

# The file that says why array tasks wait in Slurm's queue.
#
# The driver asks Slurm and writes it. All views of a campaign read it instead of asking Slurm.


_NO_REASON = ("", "None", "(null)")


class Waiting(Record):
    """The number of waiting array tasks by Slurm's reason. `seen`: seconds since the epoch."""

    seen: float
    reasons: dict[str, int]


def write_waiting(paths: RunPaths, reasons: Mapping[str, int]) -> None:
    """Write what waits now, or remove the file if nothing waits. Ignores OSError."""
    with contextlib.suppress(OSError):
        if not reasons:
            paths.waiting.unlink(missing_ok=True)
            return
        found = Waiting(seen=time.time(), reasons=dict(reasons))
        write_text(paths.waiting, found.model_dump_json() + "\n", durable=False)


def read_waiting(paths: RunPaths) -> Waiting | None:
    """Return what waited when the driver last asked, None if nothing is known to wait."""
    try:
        return Waiting.model_validate_json(paths.waiting.read_bytes())
    except (OSError, ValueError):
        return None


def waiting_line(waiting: Waiting | None) -> str:
    """Return one line about what waits, "" if nothing is known to wait."""
    if waiting is None:
        return ""
    counts = sorted(waiting.reasons.items(), key=lambda item: (-item[1], item[0]))
    parts = [
        f"{count} {'without a reason yet' if reason in _NO_REASON else reason}"
        for reason, count in counts
    ]
    age = max(0.0, time.time() - waiting.seen)
    return f"array tasks that wait, by Slurm's reason: {', '.join(parts)} (seen {age:.0f} s ago)"


# The driver's lock: at most one driver runs a campaign at a time. See `files.lock`.


__all__ = ["BEAT_S", "STALE_S", "DriverLock", "read_holder"]


class DriverLock:
    """The right to drive a campaign; held from construction to `release`."""

    def __init__(self, folder: Path) -> None:
        """Take the lock. Raises CampaignBusy when another driver is alive."""
        self._folder = folder
        try:
            self._lock = Lock(folder)
        except FolderLocked as holder:
            raise CampaignBusy(
                f"{folder.parent}: {holder} drives it; stop it with `hpcsci cancel`, or follow it "
                "with `hpcsci status`"
            ) from holder
        except OSError as error:
            full = error.errno in NO_SPACE
            kind = DiskFull if full else RunDirectoryError
            raise kind(f"{folder}: cannot be written: {error.strerror}") from error
        self.generation = self._lock.generation

    def check(self) -> None:
        """Raise CampaignBusy if another driver has taken over the campaign meanwhile."""
        if self._lock.replaced():
            raise CampaignBusy(
                f"{self._folder.parent}: another driver took the campaign over while this one "
                "stood still; follow that one with `hpcsci status`"
            )

    def release(self) -> None:
        """Release the lock. If the disk is full, others see from this process's end that it is
        free.
        """
        self._lock.release()


SECONDS_PER_HOUR = 3600.0
_NAMED = 5  # files


def read_state(
    paths: RunPaths, observe: Callable[[JournalLine], None] = lambda line: None
) -> CampaignState:
    """Return the state of a run directory, after one pass over its journal.

    `observe` is called with each line, which has the event's time, after the state has applied it.
    Raises NoRunDirectory, RunDirectoryError.
    """
    if not paths.campaign.is_file() and frozen.trusted_copy(paths) is None:
        stale_launch.check(paths)
        raise NoRunDirectory(paths.root, paths.campaign.name)
    state = CampaignState()
    for line in journal.lines(paths.journal):
        state.apply(line.event)
        observe(line)
    check_campaign(paths, state)
    return state


def check_campaign(paths: RunPaths, state: CampaignState) -> None:
    """Raise RunDirectoryError if journal and campaign.toml belong to different campaigns."""
    try:
        ours = frozen.campaign_id(paths)
    except OSError as error:
        raise RunDirectoryError(
            f"{paths.campaign}: cannot be read: {error.strerror}; restore it"
        ) from error
    if ours and state.campaign_id and state.campaign_id != ours:
        raise RunDirectoryError(
            f"{paths.journal}: is the journal of campaign {state.campaign_id}, and campaign.toml "
            f"is of {ours}; put the one back that belongs here"
        )


def status(
    paths: RunPaths, *, in_queue: bool = False, state: CampaignState | None = None
) -> dict[str, Any]:
    """Return the content of `hpcsci status --json`, contract 1: counts, and hours of run time.

    `in_queue`: a job that will drive the campaign is in Slurm's queue. `state` is the campaign's,
    if it was read already.
    """
    state = state or read_state(paths)
    holder = read_holder(paths.lock)
    alive = holder is not None and bool(holder["alive"])
    running = state.count_trials("running")
    return {
        "campaign": state.campaign_id,
        "state": _phase(state, alive=alive or in_queue),
        "ideas": {
            "proposed": len(state.ideas),
            "rejected": state.count_ideas("rejected"),
            "authored": sum(idea.attempts > 0 for idea in state.ideas.values()),
            "scored": state.count_ideas("scored"),
            "failed": state.count_ideas("failed"),
            "knob_settings": state.count_knob_settings(),
        },
        "trials": {
            # Without a driver no trial counts as running: a resume continues them.
            "queued": state.count_trials("queued") + (0 if alive else running),
            "running": running if alive else 0,
            "scored": state.count_trials("scored"),
            "failed": state.count_trials("failed"),
        },
        "tokens": {"prompt": state.prompt_tokens, "completion": state.completion_tokens},
        "gpu_hours": state.gpu_s / SECONDS_PER_HOUR,
        "cpu_hours": state.cpu_s / SECONDS_PER_HOUR,
    }


def tampering_notice(found: Sequence[TamperingFound]) -> str:
    """Return a line about files that were changed in the run directory, and the ideas whose trials
    ran meanwhile, with counts; "" if none were changed.
    """
    changed = list(dict.fromkeys(name for event in found for name in event.changed))
    if not changed:
        return ""
    more = f" and {len(changed) - _NAMED} more" if len(changed) > _NAMED else ""
    suspects = Counter(idea for event in found for idea in event.suspects)
    who = ", ".join(f"{idea} ({count})" for idea, count in suspects.most_common())
    return (
        f"files were changed by somebody else, {len(found)} times, and restored as recorded before "
        f"they were used: {', '.join(changed[:_NAMED])}{more}; suspected, by the trials that ran "
        f"meanwhile: {who or 'no idea'}"
    )


def _phase(state: CampaignState, *, alive: bool) -> str:
    if state.ended:
        return "finished"
    if alive:
        return "running"
    # Killed, or stopped on purpose: either way `resume` continues.
    return "failed" if state.stopped is not None and state.stopped.failed else "stopped"
