"""The statistics of reviews, held against scikit-learn's and SciPy's, and against the truth."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.stats import spearmanr
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import (
    accuracy_score,
    balanced_accuracy_score,
    confusion_matrix,
    f1_score,
    roc_auc_score,
)
from sklearn.preprocessing import StandardScaler

from hpcscientist.feedback.statistics import wilson
from hpcscientist.reviews.calibration import measures
from hpcscientist.reviews.calibration.bench import fit

LABELS = st.lists(
    st.tuples(st.booleans(), st.booleans(), st.integers(1, 10)), min_size=4, max_size=40
)
FEW = settings(max_examples=15, deadline=None)


def both(rows: list[tuple[bool, bool, int]]) -> tuple[list[bool], list[bool], list[int]]:
    truth, said, scores = (list(of) for of in zip(*rows, strict=True))
    assume(any(truth) and not all(truth))
    return truth, said, scores  # type: ignore[return-value]


@FEW
@given(LABELS)
def test_decisions_are_counted_as_scikit_learn_does(rows: list[tuple[bool, bool, int]]) -> None:
    truth, said, _ = both(rows)
    found = measures.of_decisions(truth, said)
    (tn, fp), (fn, tp) = confusion_matrix(truth, said, labels=[False, True])
    assert found["balanced accuracy"].value == pytest.approx(balanced_accuracy_score(truth, said))
    assert found["accuracy"].value == pytest.approx(accuracy_score(truth, said))
    assert found["F1"].value == pytest.approx(f1_score(truth, said, zero_division=0.0))
    assert found["FPR"].value == pytest.approx(fp / (fp + tn))
    assert found["FNR"].value == pytest.approx(fn / (fn + tp))
    assert found["FPR"].interval == wilson(int(fp), int(fp + tn))
    for measure in found.values():
        assert measure.value is not None and measure.interval is not None
        assert measure.interval[0] <= measure.value + 1e-9
        assert measure.value <= measure.interval[1] + 1e-9


@FEW
@given(LABELS)
def test_the_area_is_scikit_learn_s_and_so_is_each_resample_s(
    rows: list[tuple[bool, bool, int]],
) -> None:
    truth, _, scores = both(rows)
    assert measures.auroc(truth, scores).value == pytest.approx(roc_auc_score(truth, scores))
    values, labels = np.asarray(scores, dtype=float), np.asarray(truth)
    own = measures._areas(values[labels][None], values[~labels][None])
    assert own[0] == pytest.approx(roc_auc_score(labels, values))


@FEW
@given(st.lists(st.tuples(st.integers(1, 10), st.integers(1, 10)), min_size=3, max_size=40))
def test_rank_correlations_are_scipy_s(rows: list[tuple[int, int]]) -> None:
    one, other = (list(map(float, of)) for of in zip(*rows, strict=True))
    found = measures.spearman(one, other)
    if len(set(one)) == 1 or len(set(other)) == 1:
        assert found.value is None
    else:
        assert found.value == pytest.approx(spearmanr(one, other).statistic)
        own = measures._correlations(np.array([one]), np.array([other]))
        assert own[0] == pytest.approx(spearmanr(one, other).statistic)


@FEW
@given(st.lists(st.tuples(st.booleans(), st.floats(0, 1)), min_size=1, max_size=60))
def test_the_calibration_error_is_what_it_is_defined_as(rows: list[tuple[bool, float]]) -> None:
    truth, told = (list(of) for of in zip(*rows, strict=True))
    whole = 0.0
    for low in range(measures.BINS):
        inside = [(y, p) for y, p in rows if min(int(p * measures.BINS), measures.BINS - 1) == low]
        if inside:
            share = np.mean([y for y, _ in inside]) - np.mean([p for _, p in inside])
            whole += abs(float(share)) * len(inside) / len(rows)
    assert measures.calibration_error(truth, told).value == pytest.approx(whole)


def test_there_is_no_measure_of_papers_of_one_kind() -> None:
    assert measures.auroc([True, True], [1, 2]).value is None
    found = measures.of_decisions([True, True], [True, False])
    assert (found["FPR"].value, found["balanced accuracy"].value) == (None, None)
    assert found["FNR"].value == 0.5
    assert measures.run_deviation([[1.0], [2.0]]).value is None
    assert measures.between_humans([[1.0]]).value is None


def drawn(seed: int, papers: int = 150) -> tuple[list[bool], list[float]]:
    rng = np.random.default_rng(seed)
    truth = rng.random(papers) < 0.3
    return list(truth), list(np.where(truth, 1.0, 0.0) + rng.normal(size=papers))


@pytest.mark.full
def test_intervals_of_the_area_cover() -> None:
    """Two normals one standard deviation apart: the area is Phi(1 / sqrt 2)."""
    _covers(200, 0.91)


def test_intervals_of_the_area_cover_mostly() -> None:
    _covers(30, 0.8)


def _covers(runs: int, least: float) -> None:
    held = 0
    for seed in range(runs):
        found = measures.auroc(*drawn(seed))
        assert found.interval is not None
        held += found.interval[0] <= 0.76025 <= found.interval[1]
    assert held / runs >= least


def test_the_deviation_from_run_to_run_is_recovered_within_its_interval() -> None:
    held = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        runs = rng.uniform(1, 10, size=(20, 1)) + rng.normal(0, 0.7, size=(20, 5))
        found = measures.run_deviation([list(map(float, of)) for of in runs])
        assert found.value is not None and found.interval is not None
        held += found.interval[0] <= 0.7 <= found.interval[1]
    assert 183 <= held <= 198


def test_humans_agree_with_each_other_as_far_as_they_do() -> None:
    rng = np.random.default_rng(3)
    worth = rng.normal(size=(800, 1))
    ratings = worth + rng.normal(size=(800, 4))  # so two of them correlate by one half
    found = measures.between_humans([list(map(float, of)) for of in ratings])
    # Spearman's of normals that correlate by r is 6 / pi arcsin(r / 2).
    assert found.value == pytest.approx(6 / np.pi * np.arcsin(0.25), abs=0.05)
    assert found.interval is not None and found.interval[0] < 0.4826 < found.interval[1]


def test_the_map_is_scikit_learn_s_without_scikit_learn() -> None:
    rng = np.random.default_rng(1)
    table = rng.normal(5, 2, size=(80, 3))
    truth = table[:, 0] + rng.normal(size=80) > 5
    rows = [{"a": r[0], "b": r[1], "c": r[2], "same": 3.0} for r in table]
    found = fit(rows, list(truth))
    assert found.fields == ("a", "b", "c")
    scaled = StandardScaler().fit_transform(table)
    own = LogisticRegression(C=1.0, max_iter=1000).fit(scaled, truth).predict_proba(scaled)[:, 1]
    assert [found.probability(row) for row in rows] == pytest.approx(list(own), abs=1e-6)
    decided = [found.probability(row) >= found.threshold for row in rows]
    best = max(balanced_accuracy_score(truth, own >= at) for at in own)
    assert balanced_accuracy_score(truth, decided) == pytest.approx(best)


def test_a_reviewer_that_always_says_the_same_gives_the_share_of_accepted_papers() -> None:
    found = fit([{"overall": 5.0}] * 8, [True] * 2 + [False] * 6)
    assert found.fields == ()
    assert found.probability({"overall": 9.0}) == pytest.approx(0.25)
    with pytest.raises(ValueError, match="both"):
        fit([{"overall": 5.0}] * 3, [True] * 3)
