"""A script that prints a metric: what is read of it, and a recipe that runs."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest
from import_kit import RIDGE, draft_of, hpcsci, rehearsed, told, write

from hpcscientist.errors import RecipeError
from hpcscientist.importers.draft import Fate
from hpcscientist.importers.program import Program, direction_of
from hpcscientist.recipe.load import load
from hpcscientist.records.trial import Direction


@pytest.fixture
def script(tmp_path: Path) -> Path:
    return write(tmp_path, {"ridge.py": RIDGE}) / "ridge.py"


def test_what_a_script_says_of_itself_is_read(script: Path) -> None:
    draft = draft_of("script", script)
    metrics = [{"name": "self-reported validation loss", "direction": "minimize"}]
    assert draft.document["metrics"] == metrics
    assert draft.document["scorer"] == {"kind": "self-reported"}
    knobs = {knob["name"]: knob["file"] for knob in draft.document["knobs"]}
    # Neither how long it trains, nor its seed, nor on how much it is tested.
    assert knobs == {"LAMBDA": "ridge.py", "LEARNING_RATE": "run_program.py"}
    assert "metrics" in told(draft, Fate.WARNING)
    assert draft.refusals == []


def test_a_script_runs_as_a_recipe_at_both_budgets(script: Path, tmp_path: Path) -> None:
    done = hpcsci(tmp_path, "recipe", "import", "script", script, "--out", "made/ridge")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "made/ridge\n"
    assert load(tmp_path / "made" / "ridge").spec.primary.is_self_reported
    done = hpcsci(tmp_path, "recipe", "check", "made/ridge", "--run", "--full")
    assert done.returncode == 0, done.stderr
    values = [float(line.split()[-1]) for line in done.stderr.splitlines() if "reference" in line]
    assert values[1] < 0.5 * values[0]  # a pilot has a tenth of the steps


def run(recipe: Path, room: Path, seed: int) -> float:
    """Run a recipe's reference by hand; return what it reports."""
    for part in ("data/train", "data/validation", "out"):
        (room / part).mkdir(parents=True)
    command = [sys.executable, recipe / "reference" / "run_program.py", "--data", room / "data"]
    command += ["--out", room / "out", "--seed", str(seed), "--budget", "full"]
    subprocess.run([*command, "--split", "validation"], check=True, capture_output=True, cwd=room)
    (value,) = json.loads((room / "out" / "metrics.json").read_text()).values()
    return float(value)


SEEDED = """import random
from random import seed
random.seed(3)
print("score:", random.random())
"""


def test_seeds_that_a_script_sets_itself_differ_between_trials(tmp_path: Path) -> None:
    script = write(tmp_path, {"lucky.py": SEEDED}) / "lucky.py"
    draft_of("script", script).write(tmp_path / "made")
    values = [
        run(tmp_path / "made", tmp_path / f"out{n}", seed) for n, seed in enumerate((5, 5, 6))
    ]
    assert values[0] == values[1] != values[2]


def test_data_are_listed_and_not_copied(tmp_path: Path) -> None:
    script = write(tmp_path, {"mean.py": 'print("error:", open("in/x.txt").read())'}) / "mean.py"
    data = write(tmp_path / "data", {"in/x.txt": "0.25"})
    draft = draft_of("script", script, data=data)
    assert draft.document["data"]["required"] is True
    assert draft.files["data.sha256"].endswith(b"  in/x.txt\n")
    assert not any(b"0.25" in content for content in draft.files.values())
    draft.write(tmp_path / "made")
    assert rehearsed(tmp_path / "made", tmp_path, data)[1] == {"self-reported error": 0.25}


SCORER = """import argparse, json
from pathlib import Path
parser = argparse.ArgumentParser()
parser.add_argument("--predictions")
parser.add_argument("--labels")
args = parser.parse_args()
right = Path(args.labels, "y.txt").read_text() == Path(args.predictions).read_text()
print(json.dumps({"accuracy": float(right)}))
"""


def test_a_scorer_of_ones_own_makes_the_metric_measured(tmp_path: Path) -> None:
    guess = 'open("guess.txt", "w").write(open("x.txt").read()); print("accuracy: 1.0")'
    script = write(tmp_path, {"guess.py": guess}) / "guess.py"
    scorer = write(tmp_path, {"own.py": SCORER}) / "own.py"
    parts = {f"public/{part}/x.txt": f"x{part}" for part in ("train", "validation", "test")}
    parts |= {f"private/{part}/y.txt": f"y{part}" for part in ("validation", "test")}
    data = write(tmp_path / "data", dict(parts))
    asked = {"metric": "accuracy", "scorer": scorer, "predictions": "guess.txt", "data": data}
    draft = draft_of("script", script, **asked)
    assert draft.document["metrics"] == [{"name": "accuracy", "direction": "maximize"}]
    assert "metrics" not in told(draft, Fate.WARNING)
    draft.write(tmp_path / "made")
    assert rehearsed(tmp_path / "made", tmp_path, data)[1] == {
        "accuracy": 0.0
    }  # whatever it prints
    lacking = draft_of("script", script, **asked | {"predictions": None, "data": data / "public"})
    assert told(lacking, Fate.REFUSED) == ["--predictions", "--data"]


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ('print(f"Val Accuracy: {acc:.3f}, loss = {loss}")', ["Val Accuracy", "loss"]),
        ('print("RMSE:", rmse)', ["RMSE"]),
        ('print("score %.3f of it" % x)', ["score"]),
        ('print("F1 is {:.2f}".format(x))', ["F1"]),
        ('print("done")', []),
        ('print(f"{name}: {x}")', []),
    ],
)
def test_names_of_printed_numbers(line: str, names: list[str]) -> None:
    assert list(Program("a.py", line).printed) == names


@pytest.mark.parametrize(
    ("metric", "direction"),
    [
        ("val_accuracy", Direction.MAXIMIZE),
        ("validationLoss", Direction.MINIMIZE),
        ("ROC AUC", Direction.MAXIMIZE),
        ("log loss score", None),
        ("peak", None),
    ],
)
def test_which_way_a_name_is_better(metric: str, direction: Direction | None) -> None:
    assert direction_of(metric) is direction


@pytest.mark.parametrize(
    ("text", "asked", "refused"),
    [
        ('print("accuracy:", a); print("loss:", b)', {}, ["metric"]),
        ("print(1)", {}, ["metric"]),
        ('print("peak:", a)', {"metric": "peak"}, ["metric"]),
        ('print("peak:", a)', {"metric": "peak", "direction": Direction.MAXIMIZE}, []),
    ],
)
def test_no_metric_is_chosen_in_silence(
    text: str, asked: dict[str, object], refused: list[str], tmp_path: Path
) -> None:
    script = write(tmp_path, {"a.py": text}) / "a.py"
    assert told(draft_of("script", script, **asked), Fate.REFUSED) == refused


def test_what_python_is_not_is_refused_with_its_line(tmp_path: Path) -> None:
    script = write(tmp_path, {"a.py": "x = 1\ndef:\n"}) / "a.py"
    with pytest.raises(RecipeError, match=r"a\.py:2"):
        draft_of("script", script)


def test_the_script_that_runs_programs_parses_whatever_it_is_filled_with(tmp_path: Path) -> None:
    text = 'print("it\'s \\"loss\\":", 1)\nEPOCHS = 3\n'
    draft = draft_of("script", write(tmp_path, {"a.py": text}) / "a.py", metric='it\'s "loss"')
    tree = ast.parse(draft.files["reference/run_program.py"])
    texts = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    assert 'it\'s "loss"' in texts
