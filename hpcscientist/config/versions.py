"""How many versions of an idea's code there will be: what is likely, and the most."""

from __future__ import annotations

from dataclasses import dataclass

MENDS = 1  # guess: how often an idea's code is mended
RUNS = 2  # guess: further runs of an idea, or ablations of its plan


@dataclass(frozen=True, slots=True)
class Versions:
    """Versions of one idea. Guesses: `mends`, `improvements`, `runs`; the rest are bounds.

    `first` are written from the reference; `beside` have a pilot and no seeds, for another
    version of their tree is better. `ablates`: further runs are those that a plan names.
    """

    first: int
    beside: int
    mends: int
    improvements: int
    runs: int
    runs_at_most: int
    ablates: bool


ONE = Versions(1, 0, 0, 0, 0, 0, ablates=False)  # of an idea of the control arm
