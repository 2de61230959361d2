"""Whether the baseline is steady: checked before ideas are spent on, and looked at while they are.

When the baseline's seeds have run they are checked, and only then do ideas run theirs: proposals,
code and pilots go on meanwhile, unless a noisy baseline is to end the campaign: then nothing is
proposed before. Later the baseline's first seed is run again with the ideas: once
for those numbered `drift_every` to 2 `drift_every` - 1, as soon as the first of them runs its
seeds, once for as many after them, and so on; so it follows from the ideas' numbers alone which
reruns there are. With rounds there is one in each but the first, which has the baseline: as soon as
an idea of the round runs its seeds, and one more for every further `drift_every` ideas of it.
They are attempts 2, 3, ... of the baseline, and judge nothing but the baseline. Where a noisy
baseline is to end the campaign, one that has drifted for good ends it too.
"""

from __future__ import annotations

import bisect
from dataclasses import dataclass
from functools import cache

from hpcscientist.config.extent import Extent
from hpcscientist.config.settings import Settings
from hpcscientist.feedback import selfcheck
from hpcscientist.feedback.drift import LASTING, Rerun, drift, listing
from hpcscientist.history.entities import TrialState
from hpcscientist.history.journal import Journal
from hpcscientist.history.state import CampaignState
from hpcscientist.recipe.schema import RecipeSpec
from hpcscientist.records.events import NoteTaken
from hpcscientist.records.idea import BASELINE_ATTEMPT, BASELINE_ID
from hpcscientist.records.trial import MachineFailed, MetricSpec, Scored, Stage, trial_name


def reruns_at_most(settings: Settings) -> int:
    """Return how often the baseline is run again at most."""
    return rerun_with(settings, settings.ideas)


def rerun_with(settings: Settings, number: int) -> int:
    """Return which rerun of the baseline goes with an idea, counted from 1; 0: none."""
    every = settings.loop.drift_every
    if not every:
        return 0
    if not settings.rounds:
        return number // every
    return bisect.bisect(_first_ideas(settings.ideas, settings.rounds, every), number) - 1


@cache
def _first_ideas(ideas: int, rounds: int, every: int) -> tuple[int, ...]:
    """The ideas from which on another run of the baseline goes with them; the first has its own."""
    extent = Extent(ideas, rounds, in_flight=1, lag=1, model_name="", seed=0)
    return tuple(number for _, numbers in extent.chunks() for number in numbers[::every])


def check(state: CampaignState, spec: RecipeSpec, settings: Settings) -> selfcheck.Check | None:
    """Check the seeds of the baseline; None where there are too few of them to tell anything."""
    published = spec.published.value if spec.published else None
    return _check(state, spec.primary, published, settings)


def _check(
    state: CampaignState, metric: MetricSpec, published: float | None, settings: Settings
) -> selfcheck.Check | None:
    values = state.scores(BASELINE_ID, BASELINE_ATTEMPT, metric.name)
    if len(values) < 2:
        return None
    return selfcheck.check(values, metric, settings.loop.q, published=published)


def too_noisy(
    state: CampaignState, metric: MetricSpec, published: float | None, settings: Settings
) -> str:
    """Say why the baseline, whose seeds have run, is no ground to stand on where `loop.noisy` is
    "stop"; "" if it is.
    """
    found = _check(state, metric, published, settings)
    if found is None:
        return ""
    if found.noisy:
        return _noise(found)
    told = drift(_runs(state, metric), metric, found.deviation, found.seeds)
    return next((_lasting(told[name]) for name in LASTING if name in told), "")


def drifted(state: CampaignState, metric: MetricSpec) -> str:
    """Return the baseline's reruns in one line, with their nodes; "" if all gave the same."""
    runs = _runs(state, metric)
    return listing(runs, metric) if len(runs) > 1 else ""


@dataclass(frozen=True, slots=True)
class BaselineDrift:
    """Says what shows of the baseline, for one driver."""

    spec: RecipeSpec
    settings: Settings
    journal: Journal
    state: CampaignState

    def tell(self) -> None:
        """Note what people should know by now, each thing once; all seeds of the baseline have
        run. What the machine fails is no evidence.
        """
        found, metric = check(self.state, self.spec, self.settings), self.spec.primary
        if found is not None:
            self._note("baseline", selfcheck.statement(found))
            for name, text in selfcheck.warnings(found).items():
                self._note(name, text)
        deviation, seeds = (found.deviation, found.seeds) if found is not None else (0.0, 0)
        told = drift(_runs(self.state, metric), metric, deviation, seeds)
        for name, text in told.items():
            self._note(name, text)

    def _note(self, name: str, text: str) -> None:
        self.journal.record(NoteTaken(name=name, text=text))


def _noise(found: selfcheck.Check) -> str:
    return (
        "the baseline is too noisy for the recipe's minimum effect; "
        f"{selfcheck.fix(found)}"
        '; then launch anew (or with loop.noisy = "warn")'
    )


def _lasting(told: str) -> str:
    return (
        f"{told}; find out what changed on the machines, then launch anew "
        '(or with loop.noisy = "warn")'
    )


def _runs(state: CampaignState, metric: MetricSpec) -> list[Rerun]:
    """The first run of the baseline's first seed and the reruns that have ended, in order.

    There are none before the first has ended.
    """
    attempts = sorted(attempt for idea_id, attempt in state.full if idea_id == BASELINE_ID)
    trials = (state.full[BASELINE_ID, attempt].get(_first_of(attempt)) for attempt in attempts)
    found = [run for trial in trials if trial is not None and (run := _run(trial, metric))]
    return found if found and found[0].number == 0 else []


def _first_of(attempt: int) -> str:
    """The trial of the first seed."""
    return trial_name(BASELINE_ID, attempt, Stage.BASELINE, 0)


def _run(trial: TrialState, metric: MetricSpec) -> Rerun | None:
    """A run as it ended; None while it goes on, and where the machine failed it."""
    report = trial.report
    if report is None or isinstance(report.outcome, MachineFailed):
        return None
    outcome, number = report.outcome, trial.attempt - BASELINE_ATTEMPT
    if isinstance(outcome, Scored):
        return Rerun(
            number=number,
            value=outcome.value(metric.name),
            node=report.usage.node,
            predictions=report.predictions_hash,
        )
    failure = f"{outcome.failure.value}: {outcome.detail}"
    return Rerun(number=number, value=None, node=report.usage.node, failure=failure)
