"""A competition in MLE-bench's form: prepared, cut, graded, and refused where that cannot be."""

from __future__ import annotations

import io
import json
import os
import random
import runpy
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from import_kit import draft_of, hpcsci, told, write

from hpcscientist.errors import RecipeError
from hpcscientist.importers import registry
from hpcscientist.importers.draft import Fate
from hpcscientist.importers.request import ImportRequest
from hpcscientist.importers.source import open_source

pytest.importorskip("pandas", reason="graders of MLE-bench take pandas' tables")

CONFIG = """\
id: pond-colours
name: Colours of ponds
competition_type: simple
description: mlebench/competitions/pond-colours/description.md
dataset:
  answers: pond-colours/prepared/private/answers.csv
  sample_submission: pond-colours/prepared/public/sample_submission.csv
grader:
  name: accuracy
  grade_fn: mlebench.competitions.pond-colours.grade:grade
preparer: mlebench.competitions.pond-colours.prepare:prepare
"""
PREPARE = """\
from mlebench.utils import extract, read_csv
from .names import TARGET

def prepare(raw, public, private):
    extract(raw / "ponds.csv.zip", raw)
    rows = read_csv(raw / "ponds.csv")
    test = rows[rows["pond"] % 5 == 0]
    rows.drop(test.index).to_csv(public / "train.csv", index=False)
    test.drop(columns=[TARGET]).to_csv(public / "test.csv", index=False)
    sample = test[["pond"]].assign(**{TARGET: "green"})
    sample.to_csv(public / "sample_submission.csv", index=False)
    test[["pond", TARGET]].to_csv(private / "answers.csv", index=False)
"""
GRADE = """\
from sklearn.metrics import accuracy_score
from mlebench.competitions.utils import prepare_for_accuracy_metric
from mlebench.grade_helpers import InvalidSubmissionError
from .names import TARGET

def grade(submission, answers):
    if len(submission) != len(answers):
        raise InvalidSubmissionError("another length")
    given = prepare_for_accuracy_metric(submission, answers, TARGET, "pond")
    return accuracy_score(**given)
"""
TASK: dict[str, str | bytes] = {
    "config.yaml": CONFIG,
    "description.md": "# Ponds\nSay which colour each pond has.",
    "prepare.py": PREPARE,
    "grade.py": GRADE,
    "names.py": 'TARGET = "colour"\n',
    "checksums.yaml": f"zip: {'ab' * 16}\n",
}


@pytest.fixture
def task(tmp_path: Path) -> Path:
    return write(tmp_path / "pond-colours", TASK)


def archive(folder: Path) -> Path:
    """Write the host's archive to a folder of its own."""
    draw = random.Random(4)
    lines = ["pond,depth,shade,colour"]
    for pond in range(1500):
        depth, shade = draw.gauss(0, 1), draw.choice(("none", "half", "full"))
        green = depth + {"none": 0.0, "half": 0.7, "full": -0.9}[shade] + draw.gauss(0, 0.4) > 0
        lines.append(f"{pond},{depth:.4f},{shade},{'green' if green else 'blue'}")
    folder.mkdir(parents=True)
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w") as opened:
        opened.writestr("ponds.csv", "\n".join(lines) + "\n")
    with zipfile.ZipFile(folder / "pond-colours.zip", "w") as opened:
        opened.writestr("ponds.csv.zip", inner.getvalue())
    return folder


@pytest.fixture
def given(tmp_path: Path) -> Path:
    return archive(tmp_path / "given")


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recipe in `recipe`, and its data beside it as prepare.py lays them out."""
    room = tmp_path_factory.mktemp("prepared")
    task, given = write(room / "pond-colours", TASK), archive(room / "given")
    draft_of("mle-bench", task, data=given).write(room / "recipe")
    command = [sys.executable, room / "recipe" / "prepare.py", "--out", room, "--data", given]
    subprocess.run(command, check=True, capture_output=True)
    return room


@pytest.mark.full
def test_a_competition_runs_as_a_recipe(task: Path, given: Path, tmp_path: Path) -> None:
    more = ("--data", given, "--run-source", "--out", "made")
    done = hpcsci(tmp_path, "recipe", "import", "mle-bench", task, *more)
    assert done.returncode == 0, done.stderr
    assert "warning" not in done.stderr  # labels were looked for, and none follows
    done = hpcsci(tmp_path, "recipe", "check", "./made", "--run", "--data", given)
    assert done.returncode == 0, done.stderr
    (value,) = [float(line.split()[-1]) for line in done.stderr.splitlines() if "budget" in line]
    assert 0.6 < value < 1.0


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines()


def test_a_validation_split_is_cut_from_the_training_rows(room: Path) -> None:
    ponds = {
        name: {line.split(",")[0] for line in lines(room / name)[1:]}
        for name in (
            *("public/train/train.csv", "public/validation/test.csv", "public/test/test.csv"),
            *("private/validation/answers.csv", "private/test/answers.csv"),
        )
    }
    train, validation, test, held, last = ponds.values()
    assert (validation, test) == (held, last)
    assert not train & validation
    assert len(train | validation | test) == len(train) + len(validation) + len(test) == 1500
    assert test == {str(pond) for pond in range(0, 1500, 5)}
    for split in ("validation", "test"):
        assert lines(room / f"public/{split}/test.csv")[0] == "pond,depth,shade"
        sample = lines(room / f"public/{split}/sample_submission.csv")
        assert {line.split(",")[1] for line in sample} == {"colour", "green"}


def test_the_baseline_hands_in_what_is_asked_for(room: Path, tmp_path: Path) -> None:
    command = [sys.executable, room / "recipe" / "reference" / "experiment.py", "--out", tmp_path]
    command += ["--data", room / "public", "--seed", "1", "--budget", "full", "--split", "test"]
    alone = {**os.environ, "OMP_NUM_THREADS": "1"}  # threads wait for each other, busily
    subprocess.run(command, check=True, capture_output=True, env=alone)
    handed, known = (
        dict(line.split(",") for line in lines(path))
        for path in (tmp_path / "submission.csv", room / "private" / "test" / "answers.csv")
    )
    assert handed.keys() == known.keys()
    assert sum(handed[pond] == known[pond] for pond in known) > 0.75 * len(known)


def test_the_competitions_grader_scores(
    room: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    labels = room / "private" / "validation"
    right = lines(labels / "answers.csv")

    def score(rows: list[str]) -> dict[str, float] | int:
        (tmp_path / "s.csv").write_text("\n".join(rows))
        words = ["--predictions", str(tmp_path / "s.csv"), "--labels", str(labels)]
        with monkeypatch.context() as patched:
            patched.setattr(sys, "argv", ["score.py", *words])
            patched.setattr(sys, "meta_path", [*sys.meta_path])
            code = runpy.run_path(str(room / "recipe" / "score.py"))["main"]()
        for name in [name for name in sys.modules if name.startswith("mlebench")]:
            del sys.modules[name]
        return json.loads(capsys.readouterr().out) if code == 0 else code

    assert score(right[:1] + right[:0:-1]) == {"accuracy": 1.0}  # in any order
    assert score(right[:-1]) == 3
    assert score(["a,b", *right[1:]]) == 3


def test_data_that_were_prepared_before_run_nothing_of_the_task(task: Path, tmp_path: Path) -> None:
    """And ways to labels are looked for without asking."""
    again = tmp_path / "again"
    text = "pond,depth,colour\n" + "".join(
        f"{n},{n % 7},{'red' if n % 2 else 'blue'}\n" for n in range(90)
    )
    asked = "pond,depth,tint\n" + "".join(
        f"{n},1,{'red' if n % 2 else 'blue'}\n" for n in range(100, 140)
    )
    answers = "pond,colour\n" + "".join(
        f"{n},{'red' if n % 2 else 'blue'}\n" for n in range(100, 140)
    )
    sample = "pond,colour\n" + "".join(f"{n},red\n" for n in range(100, 140))
    text = text.replace("depth,colour", "depth,tint,colour").replace(",red\n", ",red,red\n")
    text = text.replace(",blue\n", ",blue,blue\n")
    write(
        again,
        {
            "public/train.csv": text,
            "public/test.csv": asked,
            "public/sample_submission.csv": sample,
            "private/answers.csv": answers,
        },
    )
    write(task, {"prepare.py": "raise SystemExit('the preparation was run')\n"})
    request = ImportRequest(open_source(task), data=again)
    draft = registry.draft_of(registry.format_of("mle-bench"), request, Path("ponds"))
    assert draft.runs_source is False
    registry.search_labels(draft, request)
    warned = [line.why for line in draft.lines if line.fate is Fate.WARNING]
    assert any("'tint'" in why for why in warned)


def test_without_leave_the_tasks_code_is_not_run(task: Path, given: Path, tmp_path: Path) -> None:
    trap = f"import pathlib\npathlib.Path({str(tmp_path / 'ran')!r}).touch()\n"
    write(task, {name: trap + str(TASK[name]) for name in ("prepare.py", "grade.py", "names.py")})
    request = ImportRequest(open_source(task), data=given)
    draft = registry.draft_of(registry.format_of("mle-bench"), request, Path("ponds"))
    registry.search_labels(draft, request)
    draft.write(tmp_path / "made")
    assert "labels" in told(draft, Fate.WARNING)
    assert not (tmp_path / "ran").exists()


def test_without_data_the_hosts_archive_is_asked_for_by_its_sum(task: Path) -> None:
    draft = draft_of("mle-bench", task)
    assert draft.files["data.sha256"] == f"{'ab' * 16}  pond-colours.zip\n".encode()


@pytest.mark.parametrize(
    ("files", "refused"),
    [
        ({"grade.py": "from mlebench.metrics import dice\n"}, ["grade.py:1"]),
        ({"grade.py": "from .colours import C\n"}, ["grade.py:1"]),
        ({"config.yaml": CONFIG.replace("answers.csv", "answers.jsonl")}, ["config.yaml: answers"]),
        ({"config.yaml": CONFIG.replace("private/a", "private/../../a")}, ["config.yaml: answers"]),
        ({"config.yaml": CONFIG.replace("grade:grade", "os:system")}, []),
        (
            {"config.yaml": CONFIG.replace("mlebench.competitions.pond-colours.grade", "os")},
            ["config.yaml"],
        ),
        ({"config.yaml": CONFIG.replace("name: accuracy", "name: greenness")}, ["metric"]),
    ],
)
def test_what_cannot_be_a_recipe_is_refused_by_name(
    files: dict[str, str | bytes], refused: list[str], task: Path
) -> None:
    write(task, files)
    assert told(draft_of("mle-bench", task), Fate.REFUSED) == refused


@pytest.mark.parametrize(
    "files",
    [
        {"config.yaml": "a: [1, 2"},
        {"config.yaml": "- 1"},
        {"config.yaml": "!!python/object/apply:os.system ['true']"},
        {"config.yaml": "id: " + "[" * 5000},
        {"prepare.py": "def prepare(:\n"},
        {"grade.py": b"\xff\xfe\x00g"},
    ],
)
def test_broken_parts_are_one_error(files: dict[str, str | bytes], task: Path) -> None:
    write(task, files)
    with pytest.raises(RecipeError):
        draft_of("mle-bench", task)


@pytest.mark.parametrize("name", ["config.yaml", "description.md", "grade.py", "prepare.py"])
def test_a_missing_part_is_named(name: str, task: Path) -> None:
    (task / name).unlink()
    with pytest.raises(RecipeError, match=name):
        draft_of("mle-bench", task)


def test_a_draft_that_is_refused_writes_nothing(task: Path, tmp_path: Path) -> None:
    draft = draft_of("mle-bench", task, tmp_path / "made" / "ponds")
    draft.refuse("a", "b")
    with pytest.raises(RecipeError):
        draft.write()
    assert not (tmp_path / "made").exists()


def test_yaml_makes_no_objects(task: Path, tmp_path: Path) -> None:
    made = f"made: !!python/object/apply:os.mkdir [{str(tmp_path / 'ran')!r}]\n"
    write(task, {"config.yaml": CONFIG + made})
    with pytest.raises(RecipeError):
        draft_of("mle-bench", task)
    assert not (tmp_path / "ran").exists()
