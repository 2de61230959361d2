"""The result table: what the journal says of each idea, with the numbers of the result files.

Every number is computed here from the trials' result files, never taken from a model or
from the candidate. A number that was not measured is None.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hpcscientist.campaign import frozen
from hpcscientist.campaign.frozen import CampaignConfig
from hpcscientist.campaign.specs import BASELINE_ATTEMPT
from hpcscientist.campaign.state import CampaignState, IdeaState
from hpcscientist.campaign.status import read_state
from hpcscientist.feedback.decision import findings
from hpcscientist.feedback.statistics import compare
from hpcscientist.files.rundir import RunPaths
from hpcscientist.recipe.load import load
from hpcscientist.records.events import IdeaEnded
from hpcscientist.records.finding import Comparison, Finding, ResultRow
from hpcscientist.records.idea import BASELINE_ID
from hpcscientist.records.trial import Isolation, MetricSpec
from hpcscientist.results.aggregate import Overview, overview


@dataclass(frozen=True, slots=True)
class Summary:
    """The rows, baseline first, and what a reader must know to trust them.

    `unreadable` counts result files left out as broken; `missing` counts scored trials of
    the journal whose results are gone or say otherwise: their ideas have no finding.
    """

    rows: tuple[ResultRow, ...]
    isolation: Isolation
    unreadable: int
    missing: int
    notes: tuple[str, ...]


def read_rows(paths: RunPaths) -> Summary:
    """Return the result rows of a campaign, at whatever point it is.

    An idea that has not ended yet has no row. Raises RunDirectoryError.
    """
    state = read_state(paths)
    config = frozen.read(paths)
    metric = load(paths.recipe).spec.primary
    found = overview(paths, metric.name)
    ended = [idea for idea in state.ideas.values() if idea.ended is not None]
    ended.sort(key=lambda idea: idea.number)
    missing = _missing(state, ended, found, metric)
    whole = [idea for idea in ended if not missing.get(idea.idea_id)]
    table = _Table(metric, found, _judge(whole, found, metric, config))
    rows = [table.baseline()] if state.trials else []
    rows += [table.idea(idea, idea.ended) for idea in ended if idea.ended is not None]
    return Summary(
        tuple(rows), config.isolation, found.unreadable, sum(missing.values()), tuple(state.notes)
    )


def _missing(
    state: CampaignState, ended: list[IdeaState], found: Overview, metric: MetricSpec
) -> dict[str, int]:
    """By idea, how many scored trials of the journal have no result file with that value."""
    standing = [(BASELINE_ID, BASELINE_ATTEMPT)]
    standing += [(i.idea_id, i.ended.attempt) for i in ended if i.ended and i.ended.attempt]
    return {
        idea_id: len(
            state.scores(idea_id, attempt, metric.name).items()
            ^ found.validation.of(idea_id, attempt).items()
        )
        for idea_id, attempt in standing
    }


def _judge(
    ended: list[IdeaState], found: Overview, metric: MetricSpec, config: CampaignConfig
) -> dict[str, Finding]:
    """Findings of the ideas that were scored on every seed; the others are no evidence."""
    scored: dict[str, Mapping[int, float]] = {}
    for idea in ended:
        if idea.ended is not None and idea.ended.status == "scored" and idea.ended.attempt:
            scored[idea.idea_id] = found.validation.of(idea.idea_id, idea.ended.attempt)
    baseline = found.validation.of(BASELINE_ID, BASELINE_ATTEMPT)
    return findings(baseline, scored, metric, config.settings.loop.q)


@dataclass(frozen=True, slots=True)
class _Table:
    metric: MetricSpec
    found: Overview
    findings: Mapping[str, Finding]

    def baseline(self) -> ResultRow:
        values = self.found.validation.of(BASELINE_ID, BASELINE_ATTEMPT)
        alone = compare(values, values) if values else None
        return self._row(
            IdeaState(BASELINE_ID, 0, 0, "the recipe's reference code", (), attempts=1),
            None,
            alone,
            None,
        )

    def idea(self, idea: IdeaState, ended: IdeaEnded) -> ResultRow:
        finding = self.findings.get(idea.idea_id)
        comparison = finding.comparison if finding else self._partial(ended)
        return self._row(idea, ended, comparison, finding)

    def _partial(self, ended: IdeaEnded) -> Comparison | None:
        """The good seeds of an idea that failed on others: shown, and no finding."""
        baseline = self.found.validation.of(BASELINE_ID, BASELINE_ATTEMPT)
        if ended.attempt is None or not baseline:
            return None
        values = self.found.validation.of(ended.idea_id, ended.attempt)
        return compare(baseline, values) if values else None

    def _row(
        self,
        idea: IdeaState,
        ended: IdeaEnded | None,
        comparison: Comparison | None,
        finding: Finding | None,
    ) -> ResultRow:
        cost = self.found.costs.get(idea.idea_id)
        against = comparison if ended is not None else None  # the baseline has no delta
        return ResultRow(
            idea_id=idea.idea_id,
            parent_ids=idea.parent_ids,
            round=idea.round,
            title=idea.title,
            status=ended.status if ended is not None else "baseline",
            reason=ended.reason if ended is not None else None,
            finding=finding.verdict if finding is not None else None,
            metric=self.metric.name,
            direction=self.metric.direction.value,
            mean=comparison.mean if comparison else None,
            std=comparison.std if comparison else None,
            n=comparison.n if comparison else None,
            baseline_mean=comparison.baseline_mean if comparison else None,
            delta=against.delta if against else None,
            ci_low=against.ci_low if against else None,
            ci_high=against.ci_high if against else None,
            p_adjusted=finding.p_adjusted if finding is not None else None,
            confirmed=None,
            test_delta=None,
            test_ci_low=None,
            test_ci_high=None,
            gpu_hours=cost.gpu_hours if cost else None,
            cpu_hours=cost.cpu_hours if cost else None,
            attempts=idea.attempts or None,
        )
