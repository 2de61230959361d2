"""Checks the baseline's noise before ideas run their seeds, and its drift while they run.

The baseline's seeds are checked when they have run, and only then do ideas run theirs. Proposals,
code and pilots go on meanwhile, unless a noisy baseline stops the campaign (`loop.noisy`): then
nothing is proposed before the check. Later the baseline's first seed is rerun along with the ideas:
once for ideas `drift_every` to 2 `drift_every` - 1, as soon as the first of them runs its seeds,
once for as many after them, and so on. So the ideas' numbers alone determine the reruns. With
rounds, each round but the first has a rerun, as soon as an idea of the round runs its seeds, and
every round has one more for every further `drift_every` ideas. Reruns are attempts 2, 3, ... of the
baseline, and judge nothing but the baseline. If a noisy baseline stops the campaign, lasting drift
stops it too.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from statistics import fmean
from typing import Final

from hpcscientist.config.extent import Extent
from hpcscientist.config.settings import Settings
from hpcscientist.feedback import selfcheck
from hpcscientist.history.entities import TrialState
from hpcscientist.history.journal import Journal
from hpcscientist.history.state import CampaignState
from hpcscientist.recipe.schema import RecipeSpec
from hpcscientist.records.base import Record
from hpcscientist.records.events import NoteTaken
from hpcscientist.records.idea import BASELINE_ATTEMPT, BASELINE_ID
from hpcscientist.records.trial import MachineFailed, MetricSpec, Scored, Stage, trial_name

# Tests for drift: does the baseline stay the same while a campaign runs? One of its seeds is rerun.
#
# A deterministic reference gives the same value for the same seed, to the last digit. If it does
# not, reruns are compared with the spread of the baseline's seeds: a rerun differs from the first
# run by no more than two seeds differ, whatever the rest of its noise, so the test errs on the side
# of silence. There are two limits, as in a control chart (Shewhart 1931, Economic Control of
# Quality), by Student's t since the spread is estimated: one for a single rerun against the first
# run, and one for the mean of all. And there is one trend test: Kendall's tau between the values
# and their order (Mann 1945, Econometrica 13), which assumes no distribution and needs at least six
# values. Each has a level of 0.01: a false alarm costs a look. The trend is tested only after 6,
# 12, 24, ... reruns, each time at half the level of the time before, so that all looks of a
# campaign together have that level (Bonferroni), however long it is. The mean is tested after every
# rerun: it hardly moves later, and in simulations of 200 reruns in which the seed explains nothing
# at all, 6 in 1000 campaigns reported a drift that was not there. The mean and the trend can stop
# a campaign (`LASTING`).

LEVEL: Final = 0.01
LASTING: Final = ("drift mean", "drift trend")  # notes that no single run can cause
_TREND: Final = 6  # reruns, doubled at each look; fewer cannot reach a p-value below the level
_SHOWN: Final = 12


class BaselineRerun(Record):
    """One run of the baseline's first seed: number 0 is the first run, reruns count from 1.

    `predictions` is the hash of its predictions, `failure` why it has no value.
    """

    number: int
    value: float | None
    node: str = ""
    predictions: str | None = None
    failure: str | None = None


def drift(
    runs: Sequence[BaselineRerun], metric: MetricSpec, deviation: float, seeds: int
) -> dict[str, str]:
    """Return notes on the reruns so far, by name, in order of the reruns' numbers.

    `deviation` is the standard deviation of the baseline's `seeds` seeds, 0 if seeds change
    nothing: then any difference is beyond their spread.
    """
    if not runs:
        return {}
    first, *again = sorted(runs, key=lambda run: run.number)
    if first.value is None:
        return {}
    told: dict[str, str] = {}
    for run in again:
        if run.failure is not None:
            told[f"drift failed/{run.number}"] = (
                f"the reference failed when the baseline's first seed was run again{_on(run)}: "
                f"{run.failure}; it ran before{_on(first)}"
            )
    values = [run for run in again if run.value is not None]
    unlike = [run for run in values if not _same(first, run)]
    if unlike:
        told["drift unequal"] = (
            f"the same seed of the baseline does not give the same: {_told(first, metric)} at "
            f"first, {_told(unlike[0], metric)} when run again"
        )
    for run in values:
        if _is_beyond(run.value or 0.0, first.value, 1, deviation, seeds):
            told[f"drift beyond/{run.number}"] = (
                f"the baseline has drifted: {_told(run, metric)} when its first seed was run "
                f"again, {_told(first, metric)} at first, more than its seeds differ; look at "
                "what changed, and at that node"
            )
    told |= _together(first.value, [run.value or 0.0 for run in values], metric, deviation, seeds)
    return told


def listing(runs: Sequence[BaselineRerun], metric: MetricSpec) -> str:
    """Return the runs in one line, with their nodes; "" if all gave the same."""
    first, *again = sorted(runs, key=lambda run: run.number)
    if all(run.failure is None and _same(first, run) for run in again):
        return ""
    shown = ", ".join(_told(run, metric) for run in (first, *again)[:_SHOWN])
    more = len(runs) - _SHOWN
    return f"the baseline's first seed, run again: {shown}" + (f", {more} more" * (more > 0))


def _together(
    first: float, values: list[float], metric: MetricSpec, deviation: float, seeds: int
) -> dict[str, str]:
    """Return notes on what all reruns show together: the drift of their mean, and a trend."""
    told = {}
    if len(values) > 1 and _is_beyond(fmean(values), first, len(values), deviation, seeds):
        told["drift mean"] = (
            f"the baseline has drifted: {len(values)} reruns of its first seed have "
            f"{metric.name} {fmean(values):.4g} on average, {first:.4g} at first"
        )
    return told | _trends([first, *values])


def _trends(values: list[float]) -> dict[str, str]:
    """Return a note on the first look that shows a trend; `values` begin with the first run's."""
    reruns, level = _TREND, LEVEL / 2
    while reruns < len(values):
        seen = values[: reruns + 1]
        p = _trend(seen)
        if p is not None and p < level:
            return {
                "drift trend": (
                    f"the baseline drifts: its first seed goes from {seen[0]:.4g} to "
                    f"{seen[-1]:.4g} in {reruns} reruns (Kendall's tau, p {p:.2g}, the level of "
                    f"this look {level:.2g}); results of early and late ideas are not alike"
                )
            }
        reruns, level = 2 * reruns, level / 2
    return {}


def _is_beyond(value: float, first: float, reruns: int, deviation: float, seeds: int) -> bool:
    if value == first:
        return False
    if deviation == 0 or seeds < 2:
        return True
    from scipy.special import stdtrit  # noqa: PLC0415  (slow to import)

    limit = float(stdtrit(seeds - 1, 1 - LEVEL / 2)) * deviation * math.sqrt(1 + 1 / reruns)
    return abs(value - first) > limit


def _trend(values: list[float]) -> float | None:
    """Return the two-sided p-value of a trend, None if all values are equal."""
    if len(set(values)) == 1:
        return None
    from scipy.stats import kendalltau  # noqa: PLC0415  (slow to import)

    return float(kendalltau(range(len(values)), values).pvalue)


def _same(first: BaselineRerun, run: BaselineRerun) -> bool:
    known = first.predictions is not None and run.predictions is not None
    return first.value == run.value and not (known and first.predictions != run.predictions)


def _told(run: BaselineRerun, metric: MetricSpec) -> str:
    value = "failed" if run.value is None else f"{metric.name} {run.value:.6g}"
    return value + _on(run)


def _on(run: BaselineRerun) -> str:
    return f" on {run.node}" if run.node else ""


def reruns_at_most(settings: Settings) -> int:
    """Return the maximum number of baseline reruns."""
    return rerun_with(settings, settings.ideas)


def rerun_with(settings: Settings, number: int) -> int:
    """Return which baseline rerun accompanies an idea, counted from 1; 0: none."""
    every = settings.loop.drift_every
    if not every:
        return 0
    if not settings.rounds:
        return number // every
    return bisect.bisect(_first_ideas(settings.ideas, settings.rounds, every), number) - 1


@cache
def _first_ideas(ideas: int, rounds: int, every: int) -> tuple[int, ...]:
    """Return the ideas at which a new baseline run begins; the first run is the baseline itself."""
    extent = Extent(ideas, rounds, in_flight=1, lag=1, model_name="", seed=0)
    return tuple(number for _, numbers in extent.chunks() for number in numbers[::every])


def check(
    state: CampaignState, spec: RecipeSpec, settings: Settings
) -> selfcheck.BaselineCheck | None:
    """Return the check of the baseline's seeds, None if fewer than two were scored."""
    published = spec.published.value if spec.published else None
    return _check(state, spec.primary, published, settings)


def _check(
    state: CampaignState, metric: MetricSpec, published: float | None, settings: Settings
) -> selfcheck.BaselineCheck | None:
    values = state.scores(BASELINE_ID, BASELINE_ATTEMPT, metric.name)
    if len(values) < 2:
        return None
    return selfcheck.check(values, metric, settings.loop.q, published=published)


def too_noisy(
    state: CampaignState, metric: MetricSpec, published: float | None, settings: Settings
) -> str:
    """Return why `loop.noisy` = "stop" stops the campaign now that the baseline's seeds have run:
    noise, or lasting drift; "" if it does not.
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
    """Records notes on the baseline's noise and drift, for one driver."""

    spec: RecipeSpec
    settings: Settings
    journal: Journal
    state: CampaignState

    def tell(self) -> None:
        """Record each note once. All seeds of the baseline must have run. Machine failures are no
        evidence.
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


def _noise(found: selfcheck.BaselineCheck) -> str:
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


def _runs(state: CampaignState, metric: MetricSpec) -> list[BaselineRerun]:
    """Return the first run of the baseline's first seed and the reruns that have ended, in order.

    Empty until the first run has ended.
    """
    attempts = sorted(attempt for idea_id, attempt in state.full if idea_id == BASELINE_ID)
    trials = (state.full[BASELINE_ID, attempt].get(_first_of(attempt)) for attempt in attempts)
    found = [run for trial in trials if trial is not None and (run := _run(trial, metric))]
    return found if found and found[0].number == 0 else []


def _first_of(attempt: int) -> str:
    """Return the name of the first seed's trial."""
    return trial_name(BASELINE_ID, attempt, Stage.BASELINE, 0)


def _run(trial: TrialState, metric: MetricSpec) -> BaselineRerun | None:
    """Return an ended run; None while it runs, or if it ended in a machine failure."""
    report = trial.report
    if report is None or isinstance(report.outcome, MachineFailed):
        return None
    outcome, number = report.outcome, trial.attempt - BASELINE_ATTEMPT
    if isinstance(outcome, Scored):
        return BaselineRerun(
            number=number,
            value=outcome.value(metric.name),
            node=report.usage.node,
            predictions=report.predictions_hash,
        )
    failure = f"{outcome.failure.value}: {outcome.detail}"
    return BaselineRerun(number=number, value=None, node=report.usage.node, failure=failure)
