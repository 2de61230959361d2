from __future__ import annotations

import threading

import pytest
from trialkit import Bench

from hpcscientist.errors import Interrupted
from hpcscientist.execution import scoring
from hpcscientist.execution.bounds.supervise import CommandEnd, Reason
from hpcscientist.files import vault
from hpcscientist.files.hashing import hash_file
from hpcscientist.records.idea import BASELINE_ID
from hpcscientist.records.trial import IdeaFailed, MachineFailed, Outcome, Scored


def score(
    bench: Bench, scorer: str, stop: threading.Event | None = None, **limits: float
) -> Outcome:
    bench.scorer.write_text(scorer)
    spec = bench.trial("predict()")
    spec = spec.model_copy(update={"limits": spec.limits.model_copy(update=limits)})
    sources = spec.sources.model_copy(update={"scorer_hash": hash_file(bench.scorer)})
    paths = bench.run.trial(spec.trial_id)
    (paths.out / "predictions.csv").write_text("1\n")
    spec = spec.model_copy(update={"sources": sources})
    return scoring.score(spec, paths, stop or threading.Event())[0]


def test_only_declared_metrics_are_kept(bench: Bench) -> None:
    outcome = score(bench, 'print(\'{"other": 2, "accuracy": 1, "more": "text"}\')')
    assert outcome == Scored(metrics={"accuracy": 1.0})


@pytest.mark.parametrize(
    "scorer",
    [
        "raise ValueError('broken')",
        "import os; os.kill(os.getpid(), 9)",
        "print('accuracy: 1')",
        "print('[1]')",
        "print('{}')",
        "print('{\"other\": 1}')",
        "print('{\"accuracy\": true}')",
        'print(\'{"accuracy": "1"}\')',
        "print('[' * 60000)",
        "print('{\"accuracy\": 1}'); print('done')",
        "import sys; sys.exit(2)",
    ],
)
def test_a_scorer_that_fails_is_the_machines_fault(bench: Bench, scorer: str) -> None:
    outcome = score(bench, scorer)
    assert isinstance(outcome, MachineFailed)
    assert outcome.failure.value == "scorer"
    assert "\n" not in outcome.detail


@pytest.mark.parametrize(
    ("scorer", "bound", "limits"),
    [
        ("import time; time.sleep(60)", "deadline", {"scorer_s": 1.0}),
        (
            "import time; held = b'x' * (800 << 20); time.sleep(60)",
            "memory",
            {"scorer_mb": 600},
        ),
    ],
)
def test_the_recipe_bounds_the_scorer(
    bench: Bench, scorer: str, bound: str, limits: dict[str, float]
) -> None:
    outcome = score(bench, scorer, **limits)
    assert isinstance(outcome, MachineFailed)
    assert outcome.failure.value == "scorer"
    assert f" {bound} (" in outcome.detail
    assert "[scorer] of recipe.toml" in outcome.detail


def test_bad_predictions_come_with_the_scorers_words(bench: Bench) -> None:
    outcome = score(bench, "import sys; print('row 3: not a digit', file=sys.stderr); sys.exit(3)")
    assert outcome == IdeaFailed.model_validate_json(
        '{"failure": "bad_predictions", "detail": "row 3: not a digit"}'
    )


def test_what_a_scorer_says_of_labels_names_no_path_to_them(bench: Bench) -> None:
    labels = vault.path_of("topic-1/test") / "labels.csv"
    outcome = score(bench, f"raise ValueError('{labels}: row 2')")
    assert isinstance(outcome, MachineFailed)
    assert outcome.detail.endswith("ValueError: topic-1/test/labels.csv: row 2")


@pytest.mark.parametrize("value", ["1e160", "-2e150"])
def test_a_score_beyond_any_metric_is_the_candidates_fault(bench: Bench, value: str) -> None:
    outcome = score(bench, f"print('{{\"accuracy\": {value}}}')")
    assert isinstance(outcome, IdeaFailed)
    assert outcome.failure.value == "bad_predictions"
    assert f" accuracy is {float(value):g}:" in outcome.detail


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity", "1" + "0" * 400])
def test_no_finite_number_is_the_candidates_fault_unless_it_is_the_reference(
    bench: Bench, value: str
) -> None:
    scorer = f"print('{{\"accuracy\": {value}}}')"
    outcome = score(bench, scorer)
    assert isinstance(outcome, IdeaFailed)
    assert outcome.failure.value == "bad_predictions"
    assert outcome.detail.endswith(f" accuracy is {float(value):g}")
    spec = bench.trial("predict()", trial_id="reference")
    ended = CommandEnd(0, None, Reason.EXITED, wall=1.0, cpu_s=1.0, peak_mb=1.0)
    reference = spec.model_copy(update={"idea_id": BASELINE_ID})
    told = scoring.outcome_of(reference, ended, f'{{"accuracy": {value}}}'.encode(), "")
    assert isinstance(told, MachineFailed)
    assert told.detail == "the scorer gave no finite number for 'accuracy'"


def test_the_scorer_sees_a_copy(bench: Bench) -> None:
    text = (
        "import sys, pathlib; p = pathlib.Path(sys.argv[2]); p.write_text('')\n"
        "print('{\"accuracy\": 1}' if p.name == 'predictions.csv' else '')"
    )
    assert isinstance(score(bench, text), Scored)
    assert (bench.run.trial("trial-1").out / "predictions.csv").read_text() == "1\n"


def test_a_module_planted_beside_the_scorer_is_not_imported(bench: Bench) -> None:
    (bench.scorer.parent / "json.py").write_text("raise SystemExit(9)")
    assert isinstance(score(bench, "import json; print(json.dumps({'accuracy': 1}))"), Scored)


def test_stopping(bench: Bench) -> None:
    stop = threading.Event()
    stop.set()
    with pytest.raises(Interrupted):
        score(bench, "print('{\"accuracy\": 1}')", stop)
