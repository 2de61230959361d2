"""Which trials go into which batch: pure, for every backend."""

from __future__ import annotations

import math
import secrets
import statistics
import time
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from itertools import pairwise

from hpcscientist.records.runs import Batch, Capacity
from hpcscientist.records.trial import TrialSpec

_REMEMBERED = 200

Expect = Callable[[TrialSpec], float]


def shape(spec: TrialSpec) -> tuple[int, int, int, float]:
    """Return what a trial asks for; those with equal answers can share a batch."""
    limits = spec.limits
    return limits.cpus, limits.gpus, limits.memory_mb, limits.deadline_s


def arrange(
    specs: Sequence[TrialSpec], capacity: Capacity, expect: Expect
) -> list[list[TrialSpec]]:
    """Arrange trials of one shape, in order, as the elements of one batch.

    Trials that are expected to be shorter than `capacity.pack_s` share an element until it is
    about that long, but only once there are more of them than can run side by side. Elements hold
    equally many, in whole waves of those that run side by side: a last element that runs alone
    would cost more than packing wins. What does not fit is left out. `expect` returns the seconds
    that a trial is expected to take.
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


def make_batch(elements: Sequence[Sequence[TrialSpec]], avoid: Sequence[str] = ()) -> Batch:
    """Return a batch of these elements, with an id that no other has: when, and a nonce."""
    return Batch(
        batch_id=f"{int(time.time()):x}{secrets.token_hex(3)}",
        elements=tuple(tuple(element) for element in elements),
        avoid=tuple(avoid),
    )


class Durations:
    """How long trials took, by their deadline; what packing goes by. Seconds."""

    def __init__(self) -> None:
        self._seen: dict[float, deque[float]] = defaultdict(lambda: deque(maxlen=_REMEMBERED))

    def add(self, spec: TrialSpec, seconds: float) -> None:
        """Remember one."""
        self._seen[spec.limits.deadline_s].append(max(0.0, seconds))

    def expect(self, spec: TrialSpec) -> float:
        """Return the median of trials like this one; its deadline while there is none."""
        seen = self._seen.get(spec.limits.deadline_s)
        return statistics.median(seen) if seen else spec.limits.deadline_s
