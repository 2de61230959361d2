"""A task in AIRS-Bench's form: its scripts run twice, and tasks that cannot be cut are refused."""

from __future__ import annotations

import importlib.util
import random
from pathlib import Path

import pytest
from import_kit import draft_of, hpcsci, told, write

from hpcscientist.errors import RecipeError
from hpcscientist.importers.draft import Fate

METADATA = """\
metric_lower_is_better: false
logging_info:
  name: PondMoods
  dataset: acme/ponds
  category: Text Classification
  research_problem: Moods
  train_split: train
  test_split: test
  input_columns: [said]
  scoring_column: mood
  metric: Accuracy
  sota: [{sota_score: 0.9}]
"""
PREPARE = """\
import os
from datasets import load_from_disk
from helpers import INPUT

def main(global_shared_data_dir, agent_data_mount_dir, agent_log_dir):
    rows = load_from_disk(os.path.join(global_shared_data_dir, 'acme/ponds/default'))
    rows['train'].save_to_disk(os.path.join(agent_data_mount_dir, 'train'))
    asked = rows['test'].select_columns([INPUT])
    asked.save_to_disk(os.path.join(agent_data_mount_dir, 'test'))
"""
EVALUATE_PREPARE = """\
import os, shutil
from datasets import load_from_disk

def main(global_shared_data_dir, agent_data_mount_dir, agent_log_dir):
    rows = load_from_disk(os.path.join(global_shared_data_dir, 'acme/ponds/default'))
    rows['test'].save_to_disk(os.path.join(agent_data_mount_dir, 'test_with_labels'))
    shutil.copy2(os.path.join(agent_log_dir, 'submission.csv'), agent_data_mount_dir)
"""
EVALUATE = """\
import argparse, csv, json
from datasets import load_from_disk

def _cli():
    parser = argparse.ArgumentParser()
    parser.add_argument("--submission-file")
    path = parser.parse_args().submission_file
    known = load_from_disk('./data/test_with_labels')["mood"]
    with open(path) as file:
        given = [int(float(row["mood"])) for row in csv.DictReader(file)]
    if len(given) != len(known):
        parser.error("another number of rows")
    print("--- EVALUATION RESULT ---")
    print(json.dumps({"Accuracy": sum(a == b for a, b in zip(given, known)) / len(known)}))
"""
TASK: dict[str, str | bytes] = {
    "metadata.yaml": METADATA,
    "project_description.md": "Say the mood of a pond.",
    "prepare.py": PREPARE,
    "evaluate_prepare.py": EVALUATE_PREPARE,
    "evaluate.py": EVALUATE,
    "helpers.py": "INPUT = 'said'\n",
}


@pytest.fixture
def task(tmp_path: Path) -> Path:
    return write(tmp_path / "PondMoods", TASK)


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    return write(tmp_path / "raw", {"acme/ponds/default/dataset_dict.json": "{}"})


def test_a_task_maps_and_its_own_names_do_not_hide_packages(task: Path, raw: Path) -> None:
    draft = draft_of("airs-bench", task, data=raw)
    assert draft.refusals == []
    assert draft.document["metrics"] == [{"name": "Accuracy", "direction": "maximize"}]
    assert b"'task_evaluate': (" in draft.files["score.py"]
    assert b"'helpers': (" in draft.files["score.py"]
    assert told(draft, Fate.LOST) == ["sota"]


EXECUTES = "from helpers import run\n" + EVALUATE
CODE = "def run(text):\n    exec(text)\n"


@pytest.mark.parametrize(
    ("files", "refused"),
    [
        ({"evaluate.py": EXECUTES, "helpers.py": CODE}, ["PondMoods"]),
        ({"evaluate.py": EVALUATE.replace("_cli", "main")}, ["PondMoods"]),
        ({"evaluate.py": "from prepare import main\n" + EVALUATE}, ["PondMoods"]),
        ({"metadata.yaml": METADATA.replace("Text Classification", "Time Series")}, ["PondMoods"]),
        (
            {"metadata.yaml": METADATA.replace("test_split: test", "test_split: train")},
            ["PondMoods"],
        ),
        ({"prepare.py": PREPARE.replace("acme/ponds", "../ponds")}, ["PondMoods", "--data"]),
        ({"helpers.py": "INPUT = 'said'\nimport re\nre.compile('x')\n"}, []),
    ],
)
def test_what_cannot_be_separated_or_cut_is_refused_by_name(
    files: dict[str, str | bytes], refused: list[str], task: Path, raw: Path
) -> None:
    write(task, files)
    assert set(told(draft_of("airs-bench", task, data=raw), Fate.REFUSED)) <= set(refused)
    assert bool(draft_of("airs-bench", task, data=raw).refusals) is bool(refused)


def test_the_raw_data_are_asked_for(task: Path, tmp_path: Path) -> None:
    assert told(draft_of("airs-bench", task), Fate.REFUSED) == ["data"]
    other = write(tmp_path / "other", {"x": "x"})
    assert told(draft_of("airs-bench", task, data=other), Fate.REFUSED) == ["--data"]


@pytest.mark.parametrize("name", sorted({*TASK} - {"helpers.py"}))
def test_a_missing_part_is_named(name: str, task: Path) -> None:
    (task / name).unlink()
    with pytest.raises(RecipeError, match=name):
        draft_of("airs-bench", task)


@pytest.mark.full
@pytest.mark.skipif(
    importlib.util.find_spec("datasets") is None, reason="the package datasets is not installed"
)
def test_a_task_runs_as_a_recipe(task: Path, tmp_path: Path) -> None:
    from datasets import Dataset, DatasetDict  # noqa: PLC0415

    draw = random.Random(7)
    words = ("calm still bright", "dark wild stormy")

    def rows(count: int) -> Dataset:
        moods = [draw.randrange(2) for _ in range(count)]
        texts = [f"{draw.choice(words[mood].split())} pond {draw.randrange(99)}" for mood in moods]
        return Dataset.from_dict({"said": texts, "mood": moods})

    raw = tmp_path / "shared"
    splits = DatasetDict({"train": rows(200), "test": rows(50)})
    splits.save_to_disk(str(raw / "acme" / "ponds" / "default"))
    more = ("--data", raw, "--run-source", "--out", "made")
    done = hpcsci(tmp_path, "recipe", "import", "airs-bench", task, *more)
    assert done.returncode == 0, done.stderr
    done = hpcsci(tmp_path, "recipe", "check", "./made", "--run", "--full", "--data", raw)
    assert done.returncode == 0, done.stderr
    values = [float(line.split()[-1]) for line in done.stderr.splitlines() if "budget" in line]
    assert values[1] > 0.9
