"""How many versions of an idea's code there will be: what is likely, and the most."""

from __future__ import annotations

from dataclasses import dataclass

from hpcscientist.config.settings import Settings
from hpcscientist.config.steps import Step

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


def versions(settings: Settings, steps: tuple[Step, ...]) -> Versions:
    """Return how many versions a model's idea has: of a line, or of a tree that is grown whole."""
    authoring, tree = settings.authoring, settings.authoring.search == "tree"
    ablates = tree and "plan" in steps and "analyse" not in steps
    most = authoring.further_runs if ablates or "analyse" in steps else 0
    first = min(authoring.drafts, authoring.nodes) if tree else 1
    later = authoring.nodes - first if tree else 0
    mends = round(later * authoring.debug_share) if tree else min(MENDS, settings.loop.debug_rounds)
    return Versions(
        first=first,
        beside=authoring.nodes - 1 if tree else 0,
        mends=mends,
        improvements=later - mends if tree else 0,
        runs=min(RUNS, most),
        runs_at_most=most,
        ablates=ablates,
    )
