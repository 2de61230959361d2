"""The result table: each idea's outcome from the journal, with numbers from the result files.

Every number is computed here from the trials' result files, never taken from a model or from
candidate code. A number that was not measured is None.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hpcscientist.confirmation.outcomes import Confirmed, confirmed, tally
from hpcscientist.feedback.duplicates import repeated, said
from hpcscientist.feedback.statistics import compare
from hpcscientist.files.rundir import RunPaths
from hpcscientist.files.text import one_line
from hpcscientist.history import frozen
from hpcscientist.history.entities import IdeaState
from hpcscientist.history.state import CampaignState
from hpcscientist.history.status import SECONDS_PER_HOUR, read_state, tampering_notice
from hpcscientist.judgement.baseline_drift import drifted
from hpcscientist.judgement.findings import campaign_findings, front, front_line, rule_of
from hpcscientist.judgement.quality import Quality, measure
from hpcscientist.recipe.folder_copy import LaunchedRecipe
from hpcscientist.records.events import IdeaEnded
from hpcscientist.records.findings import Comparison, Finding, ResultRow, Verdict
from hpcscientist.records.idea import BASELINE_ATTEMPT, BASELINE_ID
from hpcscientist.records.site import Host
from hpcscientist.records.trial import Isolation, MetricSpec
from hpcscientist.results.aggregate import Overview, overview

SELF_REPORTED_NOTE = (
    "metrics are self-reported: the code of ideas computes them, so nothing is confirmed or claimed"
)
# Results in the journal that the result files lack or contradict.
#
# A result that is written but not journalled yet does not count: a running campaign has such.


@dataclass(frozen=True, slots=True)
class Missing:
    """The number of scored trials in the journal, by idea, without a result file of that value."""

    validation: Mapping[str, int]
    test: Mapping[str, int]

    def finding(self, idea_id: str) -> bool:
        """Return whether results of an idea or the baseline are missing, so it has no finding."""
        return bool(self.validation.get(idea_id) or self.validation.get(BASELINE_ID))

    def confirmation(self, idea_id: str) -> bool:
        """Return the same for its confirmation on the test split."""
        return bool(self.test.get(idea_id) or self.test.get(BASELINE_ID))

    @property
    def count(self) -> int:
        """The number of these trials."""
        return sum(self.validation.values()) + sum(self.test.values())

    @property
    def warning(self) -> str:
        """A warning for readers, "" if nothing is missing."""
        if not self.count:
            return ""
        what = "their ideas have no finding"
        if self.validation.get(BASELINE_ID):
            what = "the baseline's are among them, so no idea has a finding"
        elif self.test.get(BASELINE_ID):
            what += "; the baseline's on the test split are among them, so nothing is confirmed"
        return (
            f"{self.count} results of scored trials are gone or were changed since they were "
            f"journalled; {what}; `hpcsci resume` writes them again"
        )


def missing(state: CampaignState, found: Overview, metric: str) -> Missing:
    """Compare the result files with the journal, for the baseline and ideas that have ended."""
    standing = [(BASELINE_ID, BASELINE_ATTEMPT)]
    standing += [
        (i.idea_id, i.ended.attempt) for i in state.in_order() if i.ended and i.ended.attempt
    ]
    return Missing(
        validation={
            idea_id: len(
                state.scores(idea_id, attempt, metric).items()
                - found.validation.of(idea_id, attempt).items()
            )
            for idea_id, attempt in standing
        },
        test={
            idea_id: len(
                state.test_scores(idea_id, attempt, metric).items()
                - found.test.of(idea_id, attempt).items()
            )
            for idea_id, attempt in state.confirming
        },
    )


_REASON = 120  # characters of why an idea failed
_SCORED = {
    Verdict.IMPROVEMENT: "improved",
    Verdict.MAINTENANCE: "changed nothing",
    Verdict.DECLINE: "declined",
    None: "came to no finding",
}


@dataclass(frozen=True, slots=True)
class Summary:
    """The rows, baseline first, and what a reader must know to trust them.

    `unreadable` counts result files left out as broken; `missing` counts scored trials of the
    journal whose results are gone or differ: their ideas have no finding. `quality` is that of the
    code, None without reviews. `rule` says how findings were decided, `confirmation` how many of
    the improvements were confirmed, "" if there is nothing to say. `knob_settings` counts the
    model's ideas that only change values of knobs. `front` has the means of the Pareto front by
    idea, {} unless several metrics order ideas; `front_line` says it in words.
    """

    rows: tuple[ResultRow, ...]
    isolation: Isolation
    host: Host
    unreadable: int
    missing: Missing
    notes: tuple[str, ...]
    quality: Quality | None = None
    rule: str = ""
    confirmation: str = ""
    knob_settings: int = 0
    front: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    front_line: str = ""


def read_rows(paths: RunPaths, state: CampaignState | None = None) -> Summary:
    """Return the result rows of a campaign, running or ended.

    An idea that has not ended yet has no row. `state` is the campaign's, if it was read already.
    Raises RunDirectoryError.
    """
    state = state or read_state(paths)
    config = frozen.read(paths)
    spec = LaunchedRecipe(paths.recipe, config.recipe_hash).load().spec
    metric = spec.primary
    runs = {trial.trial_id: trial.run for trial in state.trials.values()}
    found = overview(paths, metric.name, runs)
    ended = [idea for idea in state.in_order() if idea.ended is not None]
    lacking = missing(state, found, metric.name)

    # Results that are not missing have the journal's values in their files, maybe with some that
    # are not journalled yet. An idea whose files are gone has no finding, and keeps its place.
    judged = campaign_findings(state, spec.objective, config.settings, seeds=spec.seeds)
    judged = {i: finding for i, finding in judged.items() if not lacking.finding(i)}

    def test_values(idea_id: str, attempt: int) -> Mapping[int, float]:
        return {} if lacking.confirmation(idea_id) else found.test.of(idea_id, attempt)

    loop = config.settings.loop
    improved = [i for i, finding in judged.items() if finding.verdict is Verdict.IMPROVEMENT]
    told = confirmed(state, spec.objective, loop.q, test_values, improved if loop.confirm else ())
    copies = {i: said(state, i, original) for i, original in repeated(state).items()}
    table = _Table(metric, found, judged, state.ideas, told, state.used, copies)
    best = {} if lacking.count else front(state, spec.objective)
    rows = [table.baseline()] if state.trials else []
    rows += [table.idea(idea, idea.ended) for idea in ended if idea.ended is not None]
    return Summary(
        rows=tuple(rows),
        isolation=config.isolation,
        host=config.site.host,
        unreadable=found.unreadable,
        missing=lacking,
        notes=(
            *state.notes,
            *filter(None, [drifted(state, metric), tampering_notice(state.tampering)]),
            *([SELF_REPORTED_NOTE] if metric.is_self_reported else []),
        ),
        quality=measure(state),
        rule=str(rule_of(config.settings)),
        confirmation=tally(rows, told) if loop.confirm else "",
        knob_settings=state.count_knob_settings(),
        front=best,
        front_line=front_line(best, spec.objective),
    )


@dataclass(frozen=True, slots=True)
class _Table:
    metric: MetricSpec
    found: Overview
    findings: Mapping[str, Finding]
    ideas: Mapping[str, IdeaState]
    confirmed: Mapping[str, Confirmed]
    used: Mapping[str, tuple[float, float]]  # CPU and GPU seconds
    copies: Mapping[str, str]  # phrases for ideas that repeat another one's predictions

    def baseline(self) -> ResultRow:
        values = self.found.validation.of(BASELINE_ID, BASELINE_ATTEMPT)
        alone = compare(values, values) if values else None
        return self._row(
            IdeaState(BASELINE_ID, 0, 0, "the recipe's reference code", (), code_hashes={1: ""}),
            None,
            alone,
            None,
        )

    def idea(self, idea: IdeaState, ended: IdeaEnded) -> ResultRow:
        finding = self.findings.get(idea.idea_id)
        comparison = finding.comparison if finding else self._partial(ended)
        return self._row(idea, ended, comparison, finding)

    def _reason(self, ended: IdeaEnded, finding: Finding | None) -> str | None:
        """Return why an idea ended so, is undecided or unconfirmed; for a look-alike also the fate
        of the other idea.

        That fate is the current one: it may have been unknown when the look-alike was rejected.
        """
        if ended.like is None or ended.like not in self.ideas:
            undecided = finding.reason if finding is not None else None
            told, copied = self.confirmed.get(ended.idea_id), self.copies.get(ended.idea_id)
            reasons = (ended.reason, undecided, copied, told.reason if told else None)
            return "; ".join(why for why in reasons if why) or None
        other = self.findings.get(ended.like)
        became = fate(self.ideas[ended.like].ended, other.verdict if other else None)
        return f"{ended.reason}, which {became}"

    def _partial(self, ended: IdeaEnded) -> Comparison | None:
        """Return the comparison over an idea's scored seeds if others failed: shown, no finding."""
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
        # From the journal, which includes runs that ended in machine failures, as `hpcsci status`.
        used = self.used.get(idea.idea_id)
        against = comparison if ended is not None else None  # the baseline has no delta
        outcome = self.confirmed.get(idea.idea_id)
        told = outcome.confirmation if outcome else None
        on_test = told.comparison if told else None
        return ResultRow(
            idea_id=idea.idea_id,
            parent_ids=idea.parent_ids,
            round=idea.round,
            title=idea.title,
            status=ended.status if ended is not None else "baseline",
            reason=self._reason(ended, finding) if ended is not None else None,
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
            confirmed=told.confirmed if told else None,
            test_delta=on_test.delta if on_test else None,
            test_ci_low=on_test.ci_low if on_test else None,
            test_ci_high=on_test.ci_high if on_test else None,
            gpu_hours=used[1] / SECONDS_PER_HOUR if used else None,
            cpu_hours=used[0] / SECONDS_PER_HOUR if used else None,
            attempts=idea.attempts or None,
            only_knobs=idea.only_sets_knobs if ended and idea.arm == "model" else None,
            undecided=(finding is not None and finding.verdict is None) or idea.left is not None,
        )


def fate(ended: IdeaEnded | None, verdict: Verdict | None) -> str:
    """Return the fate of an admitted idea, as words that follow "which"."""
    if ended is None:
        return "has not come to its end"
    if ended.status == "failed":
        return f"failed: {one_line(ended.reason or 'no reason was recorded', _REASON)}"
    return _SCORED[verdict]
