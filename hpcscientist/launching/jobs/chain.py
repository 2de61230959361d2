"""The chain of controller jobs, and when it is stopped. Pure.

Each job that drives a campaign is a link; its continuation is the next. A campaign whose jobs
fail or are killed link after link, and bring nothing new, only burns an allocation, so the chain
ends then. Jobs that were stopped in an orderly way are none of these: a training or the queue may
well take longer than several of them.
"""

from __future__ import annotations

from collections.abc import Iterable

from hpcscientist.records.base import Record
from hpcscientist.records.events import (
    AttemptWritten,
    CampaignEnded,
    DriverStopped,
    Event,
    IdeaEnded,
    IdeaProposed,
    ReplyRecorded,
    TrialEnded,
    TrialStarted,
)

# So many links in a row that failed, or ended without a word, and brought nothing new, are the
# last. One that its time limit or preemption stopped (a DriverStopped that is not failed) is not
# fruitless, whatever it brought; `controller.max_links` bounds those.
FRUITLESS_LINKS = 3
_PROGRESS = (ReplyRecorded, IdeaProposed, AttemptWritten, TrialEnded, IdeaEnded, CampaignEnded)


class Chain(Record):
    """How far the chain has come. `links`: jobs that drove; `fruitless`: the last of them that
    were fruitless, as seen when the next began; `progress`: what the journal held then."""

    job_id: str = ""
    links: int = 0
    fruitless: int = 0
    progress: int = 0


def progress(events: Iterable[Event]) -> int:
    """Count the events that show that a link was not fruitless.

    A run of a trial counts once, for each driver that takes it over records its start anew.
    """
    count, runs = 0, set()
    for event in events:
        if isinstance(event, TrialStarted):
            runs.add((event.trial_id, event.run))
        elif isinstance(event, DriverStopped):
            count += not event.failed
        else:
            count += isinstance(event, _PROGRESS)
    return count + len(runs)


def advance(chain: Chain, job_id: str, reached: int) -> Chain:
    """Return the chain with a job added that finds so much progress in the journal.

    A job that Slurm started again is the same link.
    """
    if job_id == chain.job_id:
        return chain
    fruitless = chain.fruitless + 1 if chain.links and reached == chain.progress else 0
    return Chain(job_id=job_id, links=chain.links + 1, fruitless=fruitless, progress=reached)


def why_stop(chain: Chain, max_links: int) -> str | None:
    """Say why the last link must not drive; None where it may."""
    if chain.fruitless >= FRUITLESS_LINKS:
        return f"{chain.fruitless} controller jobs in a row brought nothing new"
    if chain.links > max_links:
        return f"{max_links} controller jobs have driven this campaign (controller.max_links)"
    return None
