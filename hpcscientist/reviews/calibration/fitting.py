"""A map from scores to the probability of acceptance, and the threshold, fitted on one half."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from hpcscientist.reviews.calibrated import LogisticMap

_DIGITS = 9


def fit(scores: Sequence[Mapping[str, float]], accepted: Sequence[bool]) -> LogisticMap:
    """Return a logistic map of all scores, weakly regularised, with the threshold that has the best
    balanced accuracy on these papers. `scores` are by the form's fields, the same of each paper.

    Raises ValueError without papers of both kinds.
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
    if not named:  # a reviewer that gives every paper the same scores tells nothing
        share = float(truth.mean())
        return LogisticMap(
            fields=(), centres=(), scales=(), weights=(),
            intercept=float(np.log(share / (1 - share))), threshold=share,
        )  # fmt: skip
    model = LogisticRegression(C=1.0, max_iter=1000).fit((table - centres) / scales, truth)
    told = model.predict_proba((table - centres) / scales)[:, 1]
    false, true, at = roc_curve(truth, told)
    best = int(np.argmax(true - false))
    # Halfway to the next lower probability, so that a rounding moves no paper across.
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
