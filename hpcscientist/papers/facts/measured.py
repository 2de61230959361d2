"""Makes the facts that trials measured: statistics by idea, further run, split and metric.

Each fact carries the result rows that it is computed from. The journal, the result files and
claim.json must agree on every trial; each disagreement is reported with the trial's id.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from hpcscientist.campaign import claims
from hpcscientist.feedback.statistics import compare
from hpcscientist.files.handed import read_regular
from hpcscientist.files.hashing import hash_file
from hpcscientist.files.rundir import RunPaths
from hpcscientist.history.entities import TrialState
from hpcscientist.history.frozen import CampaignConfig
from hpcscientist.history.state import CampaignState
from hpcscientist.recipe.load import Recipe
from hpcscientist.records.facts import (
    BASELINE,
    Fact,
    FactIdea,
    FactKind,
    FileHash,
    RunOf,
    Scope,
    Source,
    Statistic,
    TrialRow,
    decimals_for,
    printed,
    significant,
)
from hpcscientist.records.findings import Claim, Comparison, Evidence, ResultRow
from hpcscientist.records.idea import BASELINE_ATTEMPT, BASELINE_ID
from hpcscientist.records.trial import Direction, MetricSpec, Scored, Split, is_measured
from hpcscientist.results.compact import keys_in
from hpcscientist.results.scan import Row, part_files, rows_of

# Words in the names of metrics whose values are shares of 1, and can be given in percent.
_SHARES = frozenset(
    (
        *("accuracy", "acc", "error", "precision", "recall", "f1", "auc", "auroc", "auprc", "iou"),
        *("dice", "rate", "hit", "hits", "top1", "top5", "em", "jaccard", "sensitivity"),
    )
)

_NO_SHARES = frozenset(["absolute", "squared", "square", "angular"])  # errors that are no shares


def slug(name: str) -> str:
    """Return a name in the form that a fact's id can contain."""
    return re.sub(r"[^A-Za-z0-9_\-]+", "-", name).strip("-") or "x"


@dataclass(frozen=True, slots=True)
class Group:
    """The trials of one attempt on one split."""

    prefix: str  # prefix of the facts' ids
    whose: str  # name in the facts' labels
    idea: str
    attempt: int
    run: RunOf
    split: Split
    trials: Mapping[str, TrialState]


@dataclass(slots=True)
class MeasuredFacts:
    """The measured facts of one campaign; `problems` lists where its records disagree."""

    paths: RunPaths
    state: CampaignState
    metrics: tuple[MetricSpec, ...]
    problems: list[str] = field(default_factory=list)
    _rows: dict[str, list[Row]] = field(default_factory=dict)
    _files: dict[str, str] = field(default_factory=dict)
    _hashes: dict[str, str] = field(default_factory=dict)
    _shares: dict[str, bool] = field(default_factory=dict)

    def of(self, groups: Iterable[Group], rows: Mapping[str, ResultRow]) -> Iterator[Fact]:
        """Yield the facts of all groups; `rows` are those of `hpcsci results` by idea."""
        groups = list(groups)
        self._read({trial for group in groups for trial in group.trials})
        baselines = {g.split: g for g in groups if g.idea == BASELINE_ID and g.run == "main"}
        for group in groups:
            for metric in self.metrics:
                against = None if group.idea == BASELINE_ID else baselines.get(group.split)
                row = rows.get(group.idea) if metric is self.metrics[0] else None
                yield from self._statistics(group, metric, against, row)

    def is_share(self, metric: str) -> bool:
        """Return whether a metric's values are shares of 1, by its name and all of its values."""
        if metric not in self._shares:
            words = set(re.split(r"[^a-z0-9]+", metric.lower()))
            values = [
                row["value"]
                for rows in self._rows.values()
                for row in rows
                if row["metric"] == metric and row["value"] is not None
            ]
            self._shares[metric] = (
                bool(words & _SHARES)
                and not words & _NO_SHARES
                and all(0 <= v <= 1 for v in values)
            )
        return self._shares[metric]

    def hashed(self, name: str) -> FileHash:
        """Return a file of the run directory with its hash."""
        if name not in self._hashes:
            self._hashes[name] = hash_file(self.paths.root / name)
        return FileHash(file=name, sha256=self._hashes[name])

    def _read(self, trials: set[str]) -> None:
        self._rows = rows_of(self.paths, trials)
        root = self.paths.root
        for part in part_files(self.paths):
            for trial, _ in keys_in([part], trials):
                self._files[trial] = part.relative_to(root).as_posix()
        for trial in trials:
            loose = self.paths.trial(trial).result
            if loose.exists():
                self._files[trial] = loose.relative_to(root).as_posix()

    def values(self, group: Group, metric: MetricSpec) -> dict[int, TrialRow]:
        """Return a group's measured rows by seed, as the result files hold them.

        If several trials have the same seed, the last one counts, as in findings.
        """
        found: dict[int, TrialRow] = {}
        for trial in group.trials.values():
            report = trial.report
            if report is None or not isinstance(report.outcome, Scored):
                continue
            journalled = report.outcome.metrics.get(metric.name)
            if journalled is None or not is_measured(journalled):
                continue
            rows = [
                row
                for row in self._rows.get(trial.trial_id, ())
                if row["run"] == report.run and row["metric"] == metric.name
            ]
            where = f"{group.prefix}.{slug(metric.name)}"
            if not rows:
                self._disagree(where, trial.trial_id, "its result file is gone or cannot be read")
                continue
            row = rows[0]
            if row["value"] != journalled or row["seed"] != trial.seed:
                self._disagree(
                    where,
                    trial.trial_id,
                    f"{metric.name} is {journalled!r} by the journal and {row['value']!r} by "
                    f"{self._files.get(trial.trial_id, 'its result')}",
                )
            if row["value"] is None or not is_measured(row["value"]):
                continue
            found[trial.seed] = TrialRow(
                trial=trial.trial_id,
                run=report.run,
                position=row["position"],
                seed=trial.seed,
                value=row["value"],
                file=self._files.get(trial.trial_id, ""),
                row_hash=_row_hash(row),
            )
        return dict(sorted(found.items()))

    def _disagree(self, where: str, trial: str, what: str) -> None:
        self.problems.append(f"{where}: {trial}: {what}")

    def _statistics(
        self, group: Group, metric: MetricSpec, against: Group | None, row: ResultRow | None
    ) -> Iterator[Fact]:
        rows = self.values(group, metric)
        theirs = self.values(against, metric) if against is not None else {}
        if not rows:
            return
        make = Maker(group, metric, self.is_share(metric.name), self._source(rows))
        yield from statistics(make, rows, theirs, self._source(rows, theirs), row)

    def _source(self, *groups: Mapping[int, TrialRow]) -> Source:
        rows = [row for group in groups for row in group.values()]
        files = dict.fromkeys(row.file for row in rows if row.file)
        return Source(trials=tuple(rows), files=tuple(map(self.hashed, files)))

    def check_claims(self, config: CampaignConfig, recipe: Recipe, ideas: Iterable[str]) -> None:
        """Check every claim.json against the claim that the journal implies."""
        for idea in ideas:
            derived = claims.derive(config, recipe, self.state, idea)
            path = self.paths.idea(idea).claim
            if derived is None or not path.exists():
                continue
            try:
                written = Claim.model_validate_json(read_regular(path))
            except (OSError, ValueError):
                self.problems.append(f"{idea}: claim.json: cannot be read")
                continue
            for split, evidence in derived.evidence.items():
                self._check_evidence(idea, split, written.evidence.get(split), evidence)

    def _check_evidence(
        self, idea: str, split: Split, written: Evidence | None, derived: Evidence
    ) -> None:
        if written == derived or written is None:
            return
        pairs = [
            *zip(written.idea, derived.idea, strict=False),
            *zip(written.baseline, derived.baseline, strict=False),
        ]
        changed = [(w, d) for w, d in pairs if w != d]
        for was, now in changed:
            self._disagree(
                f"{idea}.{split}",
                now.trial_id,
                f"claim.json says {was.metrics}, the journal {now.metrics}",
            )
        if not changed:
            self.problems.append(
                f"{idea}.{split}: claim.json: its comparison is not what its trials come to"
            )


def statistics(
    make: Maker,
    rows: Mapping[int, TrialRow],
    baseline: Mapping[int, TrialRow],
    both: Source,
    row: ResultRow | None,
) -> Iterator[Fact]:
    """Yield the statistics of the measured rows, alone and against the baseline's rows.

    `both` is the source of a comparison. `row` is the idea's row of `hpcsci results`, or None for
    any metric but the primary one.
    """
    own = {seed: found.value for seed, found in rows.items()}
    alone = compare(own, own)
    error = alone.std / alone.n**0.5 if alone.std is not None else None
    yield make(Statistic.MEAN, "mean", alone.mean, error)
    yield make.count(len(own))
    if alone.std is not None:
        yield make(Statistic.SD, "standard deviation", alone.std, text=significant(alone.std, 2))
        up = make.metric.direction is Direction.MAXIMIZE
        best, worst = (max, min) if up else (min, max)
        yield make(Statistic.BEST, "best seed", best(own.values()))
        yield make(Statistic.WORST, "worst seed", worst(own.values()))
    if baseline:
        make = replace(make, source=both)
        compared = compare({seed: found.value for seed, found in baseline.items()}, own)
        yield from _changes(make, compared, row)


def _changes(make: Maker, compared: Comparison, row: ResultRow | None) -> Iterator[Fact]:
    low, high, reach = compared.ci_low, compared.ci_high, None
    if low is not None and high is not None:
        reach = (high - low) / 2
        places = max(0, decimals_for(reach)) if reach else None
        yield make(Statistic.LOW, "lower end of the interval", low, reach, signed=True)
        yield make(Statistic.HIGH, "upper end of the interval", high, reach, signed=True)
        yield make.interval(low, high, f"[{_fixed(low, places)}, {_fixed(high, places)}]")
    label = "difference from the baseline"
    yield make(Statistic.DELTA, label, compared.delta, reach, signed=True)
    if compared.p_value is not None:
        yield make.p(Statistic.P, "two-sided p-value", compared.p_value)
    if row is None or make.group.run != "main":
        return
    if make.group.split is Split.VALIDATION and row.p_adjusted is not None:
        yield make.p(Statistic.P_ADJUSTED, "adjusted p-value", row.p_adjusted)
    if make.group.split is Split.TEST and row.shrinkage is not None:
        yield make.shrinkage(row.shrinkage)


@dataclass(frozen=True, slots=True)
class Maker:
    """A factory of facts for one group of trials and one metric."""

    group: Group
    metric: MetricSpec
    share: bool
    source: Source

    def __call__(
        self,
        statistic: Statistic,
        label: str,
        value: float,
        uncertainty: float | None = None,
        *,
        text: str = "",
        signed: bool = False,
    ) -> Fact:
        """Return a fact in the metric's unit."""
        return Fact(
            id=self._id(statistic),
            label=self._label(label),
            kind=FactKind.METRIC,
            unit=self.metric.name,
            value=value,
            uncertainty=uncertainty,
            text=text or printed(value, uncertainty, signed=signed),
            share=self.share,
            signed=signed,
            scope=self._scope(statistic),
            source=self.source.model_copy(update={"method": label}),
        )

    def count(self, n: int) -> Fact:
        """Return the number of measured seeds."""
        return self._other(Statistic.N, "number of seeds", FactKind.COUNT, float(n), str(n))

    def interval(self, low: float, high: float, text: str) -> Fact:
        """Return an interval as one fact."""
        made = self(Statistic.INTERVAL, "95% interval of the difference", low, text=text)
        return made.model_copy(update={"kind": FactKind.INTERVAL, "upper": high})

    def p(self, statistic: Statistic, label: str, value: float) -> Fact:
        """Return a p-value."""
        return self._other(statistic, label, FactKind.P_VALUE, value, significant(value, 2))

    def shrinkage(self, value: float) -> Fact:
        """Return the share of the validation gain that is lost on the test split."""
        label = "share of the validation gain that is lost on the test split"
        text = printed(round(value, 2), 0.1, signed=True)
        return self._other(Statistic.SHRINKAGE, label, FactKind.RATIO, value, text)

    def _other(
        self, statistic: Statistic, label: str, kind: FactKind, value: float, text: str
    ) -> Fact:
        return Fact(
            id=self._id(statistic),
            label=self._label(label),
            kind=kind,
            unit="seeds" if statistic is Statistic.N else "",
            value=value,
            text=text,
            signed=statistic is Statistic.SHRINKAGE,
            scope=self._scope(statistic),
            source=self.source.model_copy(update={"method": label}),
        )

    def _id(self, statistic: Statistic) -> str:
        group = self.group
        return f"{group.prefix}.{slug(self.metric.name)}.{statistic}"

    def _label(self, label: str) -> str:
        return f"{label} of {self.metric.name} on {self.group.split} of {self.group.whose}"

    def _scope(self, statistic: Statistic) -> Scope:
        group = self.group
        return Scope(
            idea=group.idea,
            attempt=group.attempt,
            run=group.run,
            split=group.split,
            metric=self.metric.name,
            statistic=statistic,
        )


def groups_of(
    state: CampaignState, ideas: Iterable[FactIdea], runs: Mapping[tuple[str, int], RunOf]
) -> Iterator[Group]:
    """Yield the groups of trials of the baseline, the ideas and their further runs.

    A further run with the same predictions as the main run changed nothing, and is left out.
    """
    groups: tuple[tuple[Split, Mapping[tuple[str, int], Mapping[str, TrialState]]], ...] = (
        (Split.VALIDATION, state.full),
        (Split.TEST, state.confirming),
    )
    main = {idea.idea_id: idea.attempt for idea in ideas}
    main[BASELINE_ID] = BASELINE_ATTEMPT
    found = defaultdict[tuple[str, int], dict[Split, Mapping[str, TrialState]]](dict)
    for split, by_attempt in groups:
        for key, trials in by_attempt.items():
            found[key][split] = trials
    for (idea, attempt), splits in sorted(found.items()):
        run: RunOf = "main" if main.get(idea) == attempt else runs.get((idea, attempt), "main")
        if run == "main" and main.get(idea) != attempt:
            continue  # an earlier version of the code, or a rerun of the baseline
        for split, trials in splits.items():
            standing = found.get((idea, main.get(idea) or 0), {}).get(split, {})
            if run != "main" and _hashes(trials) and _hashes(trials) <= _hashes(standing):
                continue
            part = "" if run == "main" else f"{run}-{attempt}."
            name = BASELINE if idea == BASELINE_ID else idea
            whose = name if run == "main" else f"{run} {attempt} of {name}"
            yield Group(f"{name}.{part}{split}", whose, idea, attempt, run, split, trials)


def _hashes(trials: Mapping[str, TrialState]) -> set[tuple[int, str | None]]:
    return {
        (trial.seed, report.predictions_hash)
        for trial in trials.values()
        if (report := trial.report) is not None and isinstance(report.outcome, Scored)
    }


def _row_hash(row: Mapping[str, Any]) -> str:
    text = json.dumps({name: repr(value) for name, value in row.items()}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _fixed(value: float, places: int | None) -> str:
    if places is None:
        return printed(value, signed=True)
    return printed(value, 10.0 ** (1 - places), signed=True)
