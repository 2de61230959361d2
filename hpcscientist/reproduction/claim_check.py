"""Judges from the reports of a rerun whether the claim holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from hpcscientist.confirmation.decision import Agreement, agreement, confirm, is_same, shows
from hpcscientist.feedback.decision import Limited
from hpcscientist.feedback.statistics import compare
from hpcscientist.records.findings import (
    Claim,
    Comparison,
    Effect,
    Evidence,
    Holding,
    Measured,
    Reproduction,
    SeedAgain,
    Verdict,
)
from hpcscientist.records.trial import MachineFailed, Scored, Split, TrialReport


@dataclass(frozen=True, slots=True)
class Said:
    """What the campaign reports about the idea: its finding, if any, and whether it is confirmed.

    `q` is the level of that decision; `by_mean`: any difference of means counted.
    """

    finding: Verdict | None
    confirmed: bool | None
    q: float
    by_mean: bool = False


def check_claim(
    claim: Claim, said: Said, reports: Mapping[str, TrialReport], notes: tuple[str, ...] = ()
) -> Reproduction:
    """Compare a claim with the reports of its trials by trial id, without machine failures.

    The claim holds in bits if all predictions are bitwise the same and score the same. Otherwise it
    holds in figures if on each split the effect agrees (see `confirmation.decision`) and the rerun
    by itself shows what the campaign reports. With one seed, a different effect cannot be told from
    chance: the outcome is then open, unless the rerun fails to show what the campaign reports.
    """
    rows = tuple(_rows(claim, reports))
    effects = {
        split: _effect(claim, evidence, reports) for split, evidence in claim.evidence.items()
    }
    same = all(row.same_bits for row in rows)
    reasons: list[str] = []
    untold: list[str] = []
    if not same:
        reasons += _broken(claim, rows, reports)
    if not same and not reasons:
        for split, evidence in claim.evidence.items():
            found = agreement(*_by_seed(rows, split), claim.metric.minimum_effect)
            differs = _astray(split, evidence, found, effects[split])
            (untold if found.too_few else reasons).extend(differs)
            reasons += _unshown(claim, said, split, reports, effects[split])
    outcome = Holding.BITS if same else Holding.FIGURES
    if reasons or untold:
        outcome = Holding.NOT if reasons else Holding.OPEN
    return Reproduction(
        campaign_id=claim.campaign_id,
        idea_id=claim.idea_id,
        attempt=claim.attempt,
        metric=claim.metric.name,
        outcome=outcome,
        reasons=tuple(reasons or untold),
        notes=(*notes, *(untold if reasons else ())),
        rows=rows,
        effects=effects,
    )


def _trials(evidence: Evidence) -> Iterator[tuple[Literal["baseline", "idea"], Measured]]:
    for baseline, idea in zip(evidence.baseline, evidence.idea, strict=True):
        yield "baseline", baseline
        yield "idea", idea


def _rows(claim: Claim, reports: Mapping[str, TrialReport]) -> Iterator[SeedAgain]:
    name = claim.metric.name
    for split, evidence in claim.evidence.items():
        for of, trial in _trials(evidence):
            report = reports[trial.trial_id]
            outcome = report.outcome
            assert not isinstance(outcome, MachineFailed)
            scored = isinstance(outcome, Scored)
            failure = (
                None if isinstance(outcome, Scored) else f"{outcome.failure}: {outcome.detail}"
            )
            yield SeedAgain(
                split=split,
                of=of,
                trial_id=trial.trial_id,
                seed=trial.seed,
                recorded=trial.metrics[name],
                again=outcome.metrics[name] if isinstance(outcome, Scored) else None,
                same_bits=scored and _same_bits(trial, report) and _scores_alike(trial, report),
                failure=failure,
            )


def _same_bits(trial: Measured, report: TrialReport) -> bool:
    known = trial.predictions_hash
    return known is not None and known == report.predictions_hash


def _scores_alike(trial: Measured, report: TrialReport) -> bool:
    """Return whether all metrics are the same, up to rounding."""
    again = report.outcome.metrics if isinstance(report.outcome, Scored) else {}
    return again.keys() == trial.metrics.keys() and all(
        is_same(value, again[name]) for name, value in trial.metrics.items()
    )


def _broken(
    claim: Claim, rows: tuple[SeedAgain, ...], reports: Mapping[str, TrialReport]
) -> Iterator[str]:
    """Yield what noise cannot explain: a failed trial, or equal predictions with another score."""
    trials = {t.trial_id: t for e in claim.evidence.values() for _, t in _trials(e)}
    for row in rows:
        report, trial = reports[row.trial_id], trials[row.trial_id]
        if row.failure is not None:
            yield f"{row.trial_id} was scored when it was recorded, and failed now: {row.failure}"
        elif _same_bits(trial, report) and not _scores_alike(trial, report):
            yield (
                f"{row.trial_id}: the same predictions score {row.again:.6g}, and were recorded "
                f"with {row.recorded:.6g}"
            )


def _effect(claim: Claim, evidence: Evidence, reports: Mapping[str, TrialReport]) -> Effect:
    again = _again(evidence, reports, claim.metric.name)
    both = again[0].keys() & again[1].keys()
    return Effect(recorded=evidence.comparison, again=compare(*again) if both else None)


def _again(
    evidence: Evidence, reports: Mapping[str, TrialReport], metric: str
) -> tuple[dict[int, float], dict[int, float]]:
    """Return a metric's values by seed in the rerun: the baseline's, and the idea's."""
    again: tuple[dict[int, float], dict[int, float]] = {}, {}
    for side, trials in zip(again, (evidence.baseline, evidence.idea), strict=True):
        for trial in trials:
            outcome = reports[trial.trial_id].outcome
            if isinstance(outcome, Scored):
                side[trial.seed] = outcome.metrics[metric]
    return again


def _by_seed(
    rows: tuple[SeedAgain, ...], split: Split
) -> tuple[dict[int, float], dict[int, float]]:
    """Return the effect of each seed, idea minus baseline: as recorded, and rerun."""
    recorded: dict[int, float] = {}
    again: dict[int, float] = {}
    for row in rows:
        if row.split is split and row.again is not None:
            sign = 1.0 if row.of == "idea" else -1.0
            recorded[row.seed] = recorded.get(row.seed, 0.0) + sign * row.recorded
            again[row.seed] = again.get(row.seed, 0.0) + sign * row.again
    return recorded, again


def _astray(split: Split, evidence: Evidence, found: Agreement, effect: Effect) -> Iterator[str]:
    """Yield a reason if an effect differs from the recorded one by more than chance explains."""
    if found.agrees or effect.again is None:
        return
    within = (
        "too few seeds to tell whether that is chance"
        if found.too_few
        else "nothing varies with the seed"
        if found.low is None or found.high is None
        else f"95 % of honest reruns differ by {(found.high - found.low) / 2:.3g} at most"
    )
    yield (
        f"{split.value}: the effect is {effect.again.delta:+.4g}, and was recorded as "
        f"{evidence.comparison.delta:+.4g}; {within}"
    )


def _unshown(
    claim: Claim, said: Said, split: Split, reports: Mapping[str, TrialReport], effect: Effect
) -> Iterator[str]:
    """Yield what the campaign reports but the rerun by itself does not show."""
    again = effect.again
    if again is None:
        return
    evidence = claim.evidence[split]
    limits = [Limited(m, *_again(evidence, reports, m.name)) for m in claim.tolerances]
    if split is Split.VALIDATION and said.finding is not None:
        level = None if said.by_mean else said.q
        if not shows(again, said.finding, claim.metric, level, limits):
            yield f"validation: the rerun by itself shows no {said.finding.value}{_p(again)}"
    if split is Split.TEST and said.confirmed:
        baseline, idea = _again(evidence, reports, claim.metric.name)
        verdict = confirm(baseline, idea, claim.metric, said.q, limits)
        if not verdict.confirmed:
            yield f"test: the rerun by itself does not confirm it: {verdict.reason}"


def _p(comparison: Comparison) -> str:
    return "" if comparison.p_value is None else f" (two-sided p {comparison.p_value:.2g})"
