"""`hpcsci bench review`: reviews a labelled set, fits a calibration on one half, tests on the
other.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from hpcscientist.errors import UsageError
from hpcscientist.ports import Tell
from hpcscientist.records.base import Record
from hpcscientist.records.reviews import Effort, Measure, Review
from hpcscientist.reviews import calibrated
from hpcscientist.reviews.calibrated import Calibration, LogisticMap
from hpcscientist.reviews.calibration import labelled, measures
from hpcscientist.reviews.calibration.labelled import LabelledPaper, LabelledSet
from hpcscientist.reviews.page import measure
from hpcscientist.reviews.review import NotReviewed, ReviewOptions, review_all

# Fits the map from scores to the probability of acceptance, and the threshold, on one half.

_DIGITS = 9


def fit(scores: Sequence[Mapping[str, float]], accepted: Sequence[bool]) -> LogisticMap:
    """Return a logistic map of all scores, weakly regularised, with its threshold.

    The threshold has the best balanced accuracy on these papers. `scores` maps the form's fields to
    values, with the same fields for each paper. Raises ValueError without papers of both kinds.
    """
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415 (slow to import)
    from sklearn.metrics import roc_curve  # noqa: PLC0415

    truth = np.asarray(accepted, dtype=bool)
    if not truth.any() or truth.all():
        raise ValueError("papers of both decisions are needed")
    fields = list(scores[0])
    table = np.array([[of[name] for name in fields] for of in scores], dtype=float)
    varies = table.std(axis=0) > 1e-9
    named = [name for name, kept in zip(fields, varies, strict=True) if kept]
    table = table[:, varies]
    centres, scales = table.mean(axis=0), table.std(axis=0)
    if not named:  # every paper has the same scores, which say nothing
        share = float(truth.mean())
        return LogisticMap(
            fields=(), centres=(), scales=(), weights=(),
            intercept=float(np.log(share / (1 - share))), threshold=share,
        )  # fmt: skip
    model = LogisticRegression(C=1.0, max_iter=1000).fit((table - centres) / scales, truth)
    told = model.predict_proba((table - centres) / scales)[:, 1]
    false, true, at = roc_curve(truth, told)
    best = int(np.argmax(true - false))
    # Halfway to the next lower probability, so that rounding moves no paper across.
    lower = told[told < at[best]]
    threshold = float((at[best] + lower.max()) / 2) if len(lower) else float(at[best])
    return LogisticMap(
        fields=tuple(named),
        centres=_rounded(centres),
        scales=_rounded(scales),
        weights=_rounded(model.coef_[0]),
        intercept=round(float(model.intercept_[0]), _DIGITS),
        threshold=round(min(1.0, threshold), _DIGITS),
    )


def _rounded(values: Sequence[float]) -> tuple[float, ...]:
    return tuple(round(float(value), _DIGITS) for value in values)


class Report(Record):
    """The result of a calibration. `scores` compares the overall score as sampled and by
    expectation.

    `lost` names papers without a review, and the reason.
    """

    calibration: Calibration
    file: str
    scores: dict[str, Measure]
    humans: dict[str, Measure]
    run_deviation: dict[str, Measure]
    cost: dict[str, float]
    lost: tuple[str, ...] = ()
    missing: int = 0


@dataclass(frozen=True, slots=True)
class _Known:
    paper: LabelledPaper
    review: Review

    @property
    def scores(self) -> dict[str, float]:
        return calibrated.values(self.review)


def calibrate(of: LabelledSet, wanted: ReviewOptions, tell: Tell) -> Report:
    """Review all papers of a set, calibrate, and write the calibration beside the reviews.

    Resumes an interrupted run. Raises UsageError, ModelError, OSError.
    """
    papers, lost = labelled.readable(of.papers)
    by_id = {paper.paper_id: paper for paper in of.papers}
    tell(f"{len(papers)} papers of {of.name}, {wanted.ensemble} reviewers each")
    made = review_all(papers, replace(wanted, chair=False, calibration=None))
    reviews = [one for one in made if isinstance(one, Review)]
    lost += [f"{one.paper}: {one.reason}" for one in made if isinstance(one, NotReviewed)]
    known = {r.paper: _Known(by_id[r.paper], r) for r in reviews}
    if len({r.models for r in reviews}) > 1:
        raise UsageError("the papers were reviewed by several models; give one --model for all")
    return _report(of, known, wanted, tell, lost)


def _report(
    of: LabelledSet,
    known: Mapping[str, _Known],
    wanted: ReviewOptions,
    tell: Tell,
    lost: Sequence[str],
) -> Report:
    first, second = of.halves(wanted.settings.seed)
    fitted = [known[p.paper_id] for p in first if p.paper_id in known]
    held_out = [known[p.paper_id] for p in second if p.paper_id in known]
    for half, name in ((fitted, "the fitted half"), (held_out, "the other half")):
        if len({one.paper.accepted for one in half}) < 2:
            raise UsageError(
                f"{name} of {of.name} has reviews of papers of one decision alone "
                f"({len(lost)} papers are lost); see why, and run it again"
            )
    expected = all(calibrated.has_expectations(one.review) for one in known.values())
    found = fit([one.scores for one in fitted], [one.paper.accepted for one in fitted])
    a_review = next(iter(known.values())).review
    truth = [one.paper.accepted for one in held_out]
    told = [found.probability(one.scores) for one in held_out]
    overall = [one.scores[wanted.form.overall] for one in held_out]
    made = Calibration(
        models=a_review.models,
        form=wanted.form.name,
        form_sha256=wanted.form.sha256,
        ensemble=wanted.ensemble,
        reflections=wanted.reflections,
        temperature=wanted.temperature,
        examples=len(wanted.examples),
        expected=expected,
        labelled=of.name,
        labelled_sha256=of.sha256,
        fitted=len(fitted),
        held_out=len(held_out),
        map=found,
        measures=measures.rounded(
            {
                "AUROC": measures.auroc(truth, told),
                **measures.of_decisions(truth, [p >= found.threshold for p in told]),
                "ECE": measures.calibration_error(truth, told),
                "Spearman with humans": _with_humans(held_out, told),
            }
        ),
        uncalibrated=measures.rounded(
            {
                "AUROC": measures.auroc(truth, overall),
                **measures.of_decisions(truth, [o >= wanted.form.accept for o in overall]),
                "Spearman with humans": _with_humans(held_out, overall),
            }
        ),
    )
    place = wanted.out / "calibrations"
    place.mkdir(parents=True, exist_ok=True)
    file = place / calibrated.file_name(made)
    calibrated.save(made, file)
    tell(f"the calibration is {file}; `hpcsci review --calibration` takes it")
    return Report(
        calibration=made,
        file=str(file),
        scores=measures.rounded(_by_kind([*fitted, *held_out], wanted.form.overall)),
        humans=measures.rounded(
            {"Spearman between humans": measures.between_humans([p.scores for p in of.papers])}
        ),
        run_deviation=measures.rounded(_deviations(held_out, wanted)),
        cost=_cost([one.review.effort for one in known.values()]),
        lost=tuple(lost),
        missing=len(of.missing),
    )


def _with_humans(known: Sequence[_Known], told: Sequence[float]) -> Measure:
    pairs = [
        (score, statistics.fmean(one.paper.scores))
        for one, score in zip(known, told, strict=True)
        if one.paper.scores
    ]
    return measures.spearman([p for p, _ in pairs], [h for _, h in pairs])


def _by_kind(known: Sequence[_Known], overall: str) -> dict[str, Measure]:
    """Return the AUROC of the overall score, as sampled and by expectation, and the difference.

    Both for one reviewer and for all. Nothing is fitted, so all papers count.
    """
    truth = [one.paper.accepted for one in known]
    found = dict[str, Measure]()
    for whose, marks in (
        ("all reviewers", [one.review.spread[overall] for one in known]),
        ("one reviewer", [one.review.members[0].marks[overall] for one in known]),
    ):
        sampled = [float(of.sampled) for of in marks]
        expected = [of.expected for of in marks if of.expected is not None]
        found[f"{whose}, sampled"] = measures.auroc(truth, sampled)
        if len(expected) == len(sampled):
            found[f"{whose}, expected"] = measures.auroc(truth, expected)
            found[f"{whose}, gain"] = measures.auroc_gain(truth, sampled, expected)
    return found


def _deviations(known: Sequence[_Known], wanted: ReviewOptions) -> dict[str, Measure]:
    overall = wanted.form.overall
    marks = [[m.marks[overall] for m in one.review.members] for one in known]
    sampled = measures.run_deviation([[float(m.sampled) for m in of] for of in marks])
    found = {"one reviewer, sampled": sampled}
    if all(m.expected is not None for of in marks for m in of):
        found["one reviewer, expected"] = measures.run_deviation(
            [[m.value for m in of] for of in marks]
        )
    # The mean of n independent reviewers varies less by a factor of sqrt(n).
    share = 1 / math.sqrt(wanted.ensemble)
    for name, of in list(found.items()):
        if of.value is not None and of.interval is not None:
            low, high = of.interval
            found[name.replace("one reviewer", "all reviewers")] = Measure(
                value=of.value * share, interval=(low * share, high * share), count=of.count
            )
    return found


def _cost(efforts: Sequence[Effort]) -> dict[str, float]:
    """Return the mean cost of a paper."""
    names = ("replies", "repairs", "prompt_tokens", "completion_tokens", "seconds")
    return {
        name: round(statistics.fmean(float(getattr(effort, name)) for effort in efforts), 3)
        for name in names
    }


# What `hpcsci bench review --labelled` prints.


def of_report(report: Report) -> Iterator[str]:
    """Yield the lines of a report, each figure with its interval and, if any, its comparison."""
    made = report.calibration
    yield (
        f"{', '.join(made.models)}, form {made.form}, {made.ensemble} reviewers: fitted on "
        f"{made.fitted} papers of {made.labelled}, measured on {made.held_out} others"
    )
    yield f"{'':24}{'calibrated':22}the form's own threshold"
    for name, found in made.measures.items():
        beside = made.uncalibrated.get(name)
        yield f"{name:24}{measure(found):22}{measure(beside) if beside else '-'}"
    for title, group in (
        ("AUROC of the overall score, all papers", report.scores),
        ("humans", report.humans),
        ("SD from run to run", report.run_deviation),
    ):
        for name, found in group.items():
            yield f"{title}: {name} {measure(found)}"
    cost = report.cost
    yield (
        f"a paper: {cost['replies']:.1f} replies, {cost['prompt_tokens']:,.0f} tokens read, "
        f"{cost['completion_tokens']:,.0f} written, {cost['seconds']:.1f} s of the model's time"
    )
    if report.missing:
        yield f"{report.missing} papers of the table have no text and were left out"
    for text in report.lost:
        yield f"lost: {text}"
    yield f"calibration: {report.file}"
