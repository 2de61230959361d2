"""Applies a reviewer's calibration to its reviews, and reads and writes calibration files.

A logistic map turns a review's scores into the probability that people would accept the paper, and
a threshold turns that into a decision. The file also holds the errors of these decisions on papers
that were not used for the fit.
"""

from __future__ import annotations

import math
from pathlib import Path

from pydantic import Field, ValidationError

from hpcscientist.errors import UsageError
from hpcscientist.files.atomic import write_json
from hpcscientist.files.handed import read_regular
from hpcscientist.records.base import Record
from hpcscientist.records.reviews import Calibrated, Measure, Review

TOLD = ("balanced accuracy", "FPR", "FNR")  # measures of the calibration that each review shows


class LogisticMap(Record):
    """The probability of acceptance: the logistic function of a weighted sum of standardised
    scores.

    A score that does not vary on the fitted half is left out.
    """

    fields: tuple[str, ...]
    centres: tuple[float, ...]
    scales: tuple[float, ...]
    weights: tuple[float, ...]
    intercept: float
    threshold: float

    def probability(self, scores: dict[str, float]) -> float:
        """Return the probability of acceptance. Raises KeyError for a score that is missing."""
        parts = zip(self.fields, self.centres, self.scales, self.weights, strict=True)
        total = self.intercept + math.fsum(
            weight * (scores[name] - centre) / scale for name, centre, scale, weight in parts
        )
        return 1 / (1 + math.exp(-min(700.0, max(-700.0, total))))


class Calibration(Record):
    """`calibration.json`: the labelled set, the reviewer, the map, and its errors.

    `fitted` and `held_out` count papers. `measures` are those of the map's decisions on the
    held-out papers, `uncalibrated` those of the form's own threshold on the same papers.
    """

    version: int = Field(default=1, le=1)
    models: tuple[str, ...]
    form: str
    form_sha256: str
    ensemble: int
    reflections: int
    temperature: float
    examples: int
    expected: bool
    labelled: str
    labelled_sha256: str
    fitted: int
    held_out: int
    map: LogisticMap
    measures: dict[str, Measure]
    uncalibrated: dict[str, Measure]


def load(path: Path) -> Calibration:
    """Read a calibration. Raises UsageError."""
    try:
        return Calibration.model_validate_json(read_regular(path))
    except OSError as error:
        raise UsageError(f"--calibration {path}: cannot be read: {error.strerror}") from error
    except ValidationError as error:
        raise UsageError(
            f"--calibration {path}: is none; make one with `hpcsci bench review --labelled DIR`"
        ) from error


def save(calibration: Calibration, path: Path) -> None:
    """Write a calibration. Raises OSError."""
    write_json(path, calibration.model_dump(mode="json"))


def file_name(calibration: Calibration) -> str:
    """Return the name of a calibration's file, from its model and its form."""
    model = "+".join(calibration.models) or "model"
    safe = "".join(c if c.isalnum() or c in "._-+" else "-" for c in model)
    return f"{safe[:120]}.{calibration.form}.json"


def apply(calibration: Calibration, review: Review) -> Calibrated:
    """Return what a calibration says of a review; it is not applied to another reviewer's."""
    for name, mine, its in (
        ("model", calibration.models, review.models),
        ("form", calibration.form_sha256, review.form_sha256),
        ("ensemble", calibration.ensemble, review.ensemble),
        ("reflections", calibration.reflections, review.reflections),
        ("temperature", calibration.temperature, review.temperature),
        ("examples", calibration.examples, review.examples),
    ):
        if mine != its:
            shown = (calibration.form, review.form) if name == "form" else (mine, its)
            return Calibrated(
                applied=False,
                note=f"the calibration is of another {name}: {_shown(shown[0])}, "
                f"not {_shown(shown[1])}; calibrate this one with `hpcsci bench review`",
            )
    if calibration.expected != has_expectations(review):
        return Calibrated(
            applied=False,
            note="the calibration and this review differ in whether the server told probabilities; "
            "serve the model as it was calibrated",
        )
    probability = calibration.map.probability(values(review))
    threshold = calibration.map.threshold
    return Calibrated(
        applied=True,
        note=f"calibrated on {calibration.fitted} papers of {calibration.labelled}, its errors "
        f"measured on {calibration.held_out} others",
        probability=probability,
        decision="accept" if probability >= threshold else "reject",
        threshold=threshold,
        labelled=calibration.labelled,
        papers=calibration.fitted + calibration.held_out,
        measures=calibration.measures,
    )


def values(review: Review) -> dict[str, float]:
    """Return a review's scores by field name."""
    return {name: spread.value for name, spread in review.spread.items()}


def has_expectations(review: Review) -> bool:
    """Return whether all scores are expectations."""
    return all(spread.expected is not None for spread in review.spread.values())


def _shown(value: object) -> str:
    return ", ".join(value) if isinstance(value, tuple) else str(value)
