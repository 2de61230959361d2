"""Compares the two arms of a campaign, model and search, in total and at equal cost.

A claim about a model should be compared with a search that knows nothing (the control arm). Both
share the baseline, the seeds and the family of tests. Cost is the compute time of trials; a model's
tokens are reported separately. Confirmations do not count: otherwise an arm that finds more would
be charged for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from hpcscientist.history.state import CampaignState
from hpcscientist.records.findings import ResultRow, Verdict
from hpcscientist.records.idea import Arm
from hpcscientist.records.trial import Direction, Stage

_HOUR_S = 3600.0


@dataclass(frozen=True, slots=True)
class ArmOutcomes:
    """The outcomes of some ideas of one arm. `hours`: of their trials; `best`: the largest gain
    among the improvements, in the metric's unit, None without any.
    """

    ideas: int
    scored: int
    improved: int
    confirmed: int
    hours: float
    tokens: int
    best: float | None


@dataclass(frozen=True, slots=True)
class Contest:
    """The comparison of both arms, in total and at equal cost.

    `equal` covers each arm's first ideas by number whose trials together took no more than `hours`,
    the hours of the arm that spent less. `unit` is "GPU-hours" if any trial used a GPU, else
    "CPU-hours". `curves`: after each idea, the hours that its arm had spent and the number of
    improvements that it had found.
    """

    whole: Mapping[Arm, ArmOutcomes]
    equal: Mapping[Arm, ArmOutcomes]
    hours: float
    unit: str
    metric: str
    curves: Mapping[Arm, tuple[tuple[float, int], ...]]

    def lines(self) -> list[str]:
        """Return the comparison as text: a line for all ideas and one for equal cost."""
        whole = "; ".join(f"{_NAMES[arm]}: {self._words(t)}" for arm, t in self.whole.items())
        equal = "; ".join(f"{_NAMES[arm]}: {self._words(t)}" for arm, t in self.equal.items())
        return [whole, f"at {self.hours:.3g} {self.unit} each: {equal}"]

    def _words(self, tally: ArmOutcomes) -> str:
        said = f"{tally.improved} of {tally.ideas} ideas improved"
        if tally.confirmed:
            said += f", {tally.confirmed} confirmed"
        if tally.best is not None:
            said += f", best {self.metric} {tally.best:+.4g}"
        said += f", {tally.hours:.3g} {self.unit}"
        return said + (f", {tally.tokens:,} tokens" if tally.tokens else "")


_NAMES: Mapping[Arm, str] = {"model": "model", "control": "search"}


def compare(rows: Sequence[ResultRow], state: CampaignState) -> Contest | None:
    """Return the comparison of the arms from a campaign's result rows, None if it has only one."""
    ideas = sorted(
        (row for row in rows if row.idea_id in state.ideas),
        key=lambda row: state.ideas[row.idea_id].number,
    )
    by_arm: dict[Arm, list[ResultRow]] = {
        arm: [row for row in ideas if state.ideas[row.idea_id].arm == arm] for arm in _NAMES
    }
    if not all(by_arm.values()):
        return None
    used = search_hours(state)
    on_gpus = any(gpu for _, gpu in used.values())

    def hours(row: ResultRow) -> float:
        cpu, gpu = used.get(row.idea_id, (0.0, 0.0))
        return gpu if on_gpus else cpu

    spent = {arm: sum(map(hours, own)) for arm, own in by_arm.items()}
    least = min(spent.values())
    affordable = {
        arm: own if spent[arm] <= least else within(own, [hours(row) for row in own], least)
        for arm, own in by_arm.items()
    }

    def tally(own: Sequence[ResultRow]) -> ArmOutcomes:
        improved = [row for row in own if row.finding is Verdict.IMPROVEMENT]
        return ArmOutcomes(
            ideas=len(own),
            scored=sum(row.status == "scored" for row in own),
            improved=len(improved),
            confirmed=sum(row.confirmed is True for row in own),
            hours=sum(map(hours, own)),
            tokens=sum(state.tokens.get(row.idea_id, 0) for row in own),
            best=_best(improved),
        )

    return Contest(
        whole={arm: tally(own) for arm, own in by_arm.items()},
        equal={arm: tally(own) for arm, own in affordable.items()},
        hours=least,
        unit="GPU-hours" if on_gpus else "CPU-hours",
        metric=ideas[0].metric,
        curves={arm: _curve(own, [hours(row) for row in own]) for arm, own in by_arm.items()},
    )


def search_hours(state: CampaignState) -> dict[str, tuple[float, float]]:
    """Return CPU-hours and GPU-hours of each idea's trials, without those on the test split."""
    found: dict[str, tuple[float, float]] = {}
    for trial in state.trials.values():
        if (report := trial.report) is not None and trial.stage is not Stage.CONFIRM:
            cpu, gpu = found.get(trial.idea_id, (0.0, 0.0))
            usage = report.usage
            own = (cpu + usage.cpu_s / _HOUR_S, gpu + usage.gpu_s / _HOUR_S)
            found[trial.idea_id] = own
    return found


def within(rows: Sequence[ResultRow], hours: Sequence[float], least: float) -> list[ResultRow]:
    """Return the leading rows whose hours together are at most `least`."""
    total, found = 0.0, []
    for row, own in zip(rows, hours, strict=True):
        total += own
        if total > least:
            break
        found.append(row)
    return found


def _curve(rows: Sequence[ResultRow], hours: Sequence[float]) -> tuple[tuple[float, int], ...]:
    improved = (row.finding is Verdict.IMPROVEMENT for row in rows)
    return tuple(zip(accumulate(hours), accumulate(map(int, improved)), strict=True))


def _best(improved: Sequence[ResultRow]) -> float | None:
    """Return the delta of the largest gain: the smallest delta if the metric is minimised."""
    deltas = [row.delta for row in improved if row.delta is not None]
    if not deltas:
        return None
    return (max if improved[0].direction == Direction.MAXIMIZE.value else min)(deltas)
