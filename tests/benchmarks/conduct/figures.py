"""What a decision costs beside how many ideas are open and have ended, and taking up again.

A decision is timed as the loop makes it: after a trial has ended, with what was wanted of all
other ideas remembered. Taking up again is timed beside reading the journal and parsing its lines.
Last, what a driver does for each trial of a campaign: see `driver`.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from statistics import median

from benchmarks.conduct import history
from benchmarks.conduct.driver import costs
from hpcscientist.bench.figure import Figure
from hpcscientist.conduct.agenda import AgendaCache
from hpcscientist.conduct.decide import decide
from hpcscientist.history.journal import Journal
from hpcscientist.history.state import CampaignState, fold
from hpcscientist.history.upcasting import JournalLine, SignatureChain, group, text_of
from hpcscientist.ports import Tell
from hpcscientist.records.events import Event
from hpcscientist.records.idea import idea_id_of
from hpcscientist.records.trial import Stage

COUNTS = (100, 1_000, 10_000, 100_000)
RESUMED = 3.0  # at most so many times a bare read and parse
FLAT = 1.5  # a decision's time with many ideas that have ended, against the least
_OPEN = 64  # ideas, where it is about those that have ended
_DECISIONS = 200


@dataclass(frozen=True, slots=True)
class Options:
    """How many ideas have ended, or are open: a figure each; and how many a driver is given."""

    counts: tuple[int, ...] = COUNTS
    driven: int = 64


def measure(options: Options, tell: Tell) -> list[Figure]:
    """Measure all of it, one thing after the other."""
    shown: list[Figure] = []
    first: float | None = None
    for count in options.counts:
        tell(f"{count} ideas that have ended")
        found = decisions(count, _OPEN)
        first = median(found) if first is None else first
        shown.append(_beside(f"a decision after {count} ideas", found, first, options.counts[0]))
    for count in options.counts:
        tell(f"{count} ideas that are open")
        shown.append(_plain(f"a decision with {count} open ideas", decisions(0, count)))
    for count in options.counts:
        tell(f"a journal of {count} ideas")
        shown.append(resuming(count))
    tell(f"a campaign of {options.driven} ideas")
    shown += costs(options.driven)
    return shown


def decisions(ended: int, opened: int) -> list[float]:
    """Return the microseconds of decisions, each after another idea's pilot has ended."""
    numbers = range(ended + 1, ended + opened + 1)
    state = fold(_history(ended, numbers))
    rules, memory = history.rules_of(ended + opened, opened), AgendaCache()
    busy = {action.key for action in decide(state, rules, (), 0.0, memory).actions}
    times: list[float] = []
    for number in numbers[:_DECISIONS]:
        state.apply(history.trial_ended(idea_id_of(number), Stage.PILOT, 0))
        begin = time.perf_counter()
        found = decide(state, rules, busy, 0.0, memory)
        times.append((time.perf_counter() - begin) * 1e6)
        busy.update(action.key for action in found.actions)
    return times


def resuming(ideas: int, runs: int = 3) -> Figure:
    """Return how long it takes to take a campaign up again beside a bare read and parse."""
    with tempfile.TemporaryDirectory(prefix="hpcsci-bench-") as folder:
        path = Path(folder) / "journal.jsonl"
        _write(path, _history(ideas, ()))
        bare = [_timed(lambda: _parse(path)) for _ in range(runs)]
        ours = [_timed(lambda: Journal(path, CampaignState().apply).close()) for _ in range(runs)]
    return Figure(
        name=f"taking up {ideas} ideas",
        value=median(ours),
        unit="s",
        compared_with=f"a bare read and parse: {median(bare):.3g} s",
        ratio=median(ours) / median(bare),
        target=RESUMED,
        spread=max(ours) - min(ours),
        runs=runs,
    )


def _history(ended: int, opened: Iterable[int]) -> Iterable[Event]:
    return chain(
        history.begun(),
        chain.from_iterable(history.ended(number) for number in range(1, ended + 1)),
        chain.from_iterable(history.opened(number) for number in opened),
    )


def _write(path: Path, events: Iterable[Event]) -> None:
    seals = SignatureChain()
    with path.open("wb") as file:
        for number, event in enumerate(events, 1):
            line = JournalLine(n=number, t=float(number), event=event)
            file.write(group([text_of(line)], seals))


def _parse(path: Path) -> None:
    with path.open("rb") as file:
        for line in file:
            json.loads(line)


def _timed(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def _plain(name: str, found: Sequence[float]) -> Figure:
    return Figure(
        name=name,
        value=median(found),
        unit="us",
        compared_with=None,
        ratio=None,
        target=None,
        spread=max(found) - min(found),
        runs=len(found),
    )


def _beside(name: str, found: Sequence[float], first: float, ideas: int) -> Figure:
    return Figure(
        name=name,
        value=median(found),
        unit="us",
        compared_with=f"after {ideas} ideas: {first:.3g} us",
        ratio=median(found) / first,
        target=FLAT,
        spread=max(found) - min(found),
        runs=len(found),
    )
