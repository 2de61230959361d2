"""The shipped recipe: its data, its reference, and what its scorer refuses."""

import json
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest

from hpcscientist.recipe import data, load
from hpcscientist.records.trial import Split

DIGITS = load.shipped_folder() / "digits"
SIZE = {"train": 997, "validation": 400, "test": 400}


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    root = tmp_path_factory.mktemp("digits")
    return data.prepare(load.load(DIGITS), root / "data", root / "sealed")


def labels_of(prepared, split):
    rows = (prepared.labels[split] / "labels.csv").read_text().split()
    assert rows[0] == "id,label"
    pairs = [tuple(map(int, row.split(","))) for row in rows[1:]]
    assert [i for i, _ in pairs] == list(range(len(pairs)))
    return np.array([label for _, label in pairs])


def experiment(prepared, out, seed=1, split=Split.VALIDATION, budget="full"):
    out.mkdir()
    script = [sys.executable, str(DIGITS / "reference" / "experiment.py")]
    told = ["--data", str(prepared.views[split]), "--out", str(out), "--split", split.value]
    subprocess.run([*script, *told, "--seed", str(seed), "--budget", budget], check=True)
    return out / "predictions.csv"


def score(predictions, labels):
    script = [sys.executable, str(DIGITS / "score.py")]
    paths = ["--predictions", str(predictions), "--labels", str(labels)]
    return subprocess.run([*script, *paths], check=False, capture_output=True, text=True)


def test_the_split_is_disjoint_complete_and_stratified(prepared):
    from sklearn.datasets import load_digits  # noqa: PLC0415

    bundled = load_digits()
    expected = [
        (image.astype(np.float32).tobytes(), int(label))
        for image, label in zip(bundled.images, bundled.target, strict=True)
    ]
    found = []
    for part, count in SIZE.items():
        split = Split.TEST if part == "test" else Split.VALIDATION
        folder = prepared.views[split] / part
        images = np.load(folder / "images.npy")
        assert images.shape == (count, 8, 8) and images.dtype == np.float32
        if part == "train":
            labels = np.load(folder / "labels.npy")
        else:
            labels = labels_of(prepared, split)
            assert np.load(folder / "ids.npy").tolist() == list(range(count))
        shares = np.bincount(labels) / count
        assert np.abs(shares - np.bincount(bundled.target) / 1797).max() < 0.003
        found += [(i.tobytes(), int(label)) for i, label in zip(images, labels, strict=True)]
    assert sorted(found) == sorted(expected)
    assert len({image for image, _ in found}) == 1797  # no image twice, so none in two splits


def test_no_withheld_labels_below_the_views(prepared):
    needles = []
    for split in Split:
        labels = labels_of(prepared, split)
        needles += [labels.astype(t).tobytes() for t in ("i1", "<i2", "<i4", "<i8", "<f4", "<f8")]
        needles += [
            separator.join(map(str, labels[:40])).encode() for separator in ("", ",", " ", "\n")
        ]
        needles.append(b"".join(b"%d,%d\n" % pair for pair in enumerate(labels[:10])))
    for split, view in prepared.views.items():
        files = sorted(p.relative_to(view).as_posix() for p in view.rglob("*") if p.is_file())
        inputs = [f"{split.value}/ids.npy", f"{split.value}/images.npy"]
        assert files == sorted([*inputs, "train/images.npy", "train/labels.npy"])
        for name in files:
            content = (view / name).read_bytes()
            assert not any(needle in content for needle in needles)


def test_the_data_are_the_same_every_time(prepared, tmp_path):
    again = data.prepare(load.load(DIGITS), tmp_path / "data", tmp_path / "sealed")
    assert again.data_hash == prepared.data_hash


@pytest.mark.parametrize("split", list(Split))
def test_the_reference_runs_and_is_scored(prepared, tmp_path, split):
    predictions = experiment(prepared, tmp_path / "out", split=split)
    done = score(predictions, prepared.labels[split])
    assert (done.returncode, done.stderr) == (0, "")
    metrics = json.loads(done.stdout)
    assert 0.85 < metrics["accuracy"] < 0.97
    rows = np.loadtxt(predictions, delimiter=",", skiprows=1, dtype=int)
    truth = labels_of(prepared, split)
    right = rows[:, 1] == truth
    assert metrics["accuracy"] == pytest.approx(right.mean())
    by_class = [1 - right[truth == c].mean() for c in range(10)]
    assert metrics["balanced_error"] == pytest.approx(np.mean(by_class))
    curve = (tmp_path / "out" / "progress.jsonl").read_text().splitlines()
    losses = [json.loads(line)["train_loss"] for line in curve]
    assert len(losses) == 24 and losses[-1] < losses[0]
    assert sorted(p.name for p in predictions.parent.iterdir()) == [
        "predictions.csv",
        "progress.jsonl",
    ]


def test_the_seed_decides(prepared, tmp_path):
    first = experiment(prepared, tmp_path / "a", seed=3).read_bytes()
    assert experiment(prepared, tmp_path / "b", seed=3).read_bytes() == first
    assert experiment(prepared, tmp_path / "c", seed=4).read_bytes() != first


def test_the_pilot_trains_for_less(prepared, tmp_path):
    experiment(prepared, tmp_path / "out", budget="pilot")
    assert len((tmp_path / "out" / "progress.jsonl").read_text().splitlines()) == 6


def rows(labels=range(400), ids=range(400), header="id,label"):
    pairs = zip(ids, labels, strict=True)
    return (header + "\n" + "".join(f"{i},{label}\n" for i, label in pairs)).encode()


FINE = [i % 10 for i in range(400)]
MALFORMED = {
    "empty": (b"", "header"),
    "no header": (b"\n".join(rows(FINE).split(b"\n")[1:]), "header"),
    "other header": (rows(FINE, header="id,prediction"), "header"),
    "too few": (rows(FINE[:399], range(399)), "1 ids are missing, the first is 399"),
    "header only": (b"id,label\n", "400 ids are missing"),
    "too many": (rows([*FINE, 1], range(401)), "id 400 is not in this split"),
    "twice": (rows(FINE) + b"7,7\n", "id 7 appears twice"),
    "nan": (rows(["nan", *FINE[1:]]), "line 2: expected"),
    "float": (rows(["3.0", *FINE[1:]]), "line 2: expected"),
    "ten": (rows([10, *FINE[1:]]), "line 2: expected"),
    "negative": (rows([-1, *FINE[1:]]), "line 2: expected"),
    "negative id": (rows(FINE, [-1, *range(1, 400)]), "line 2: expected"),
    "missing label": (rows(["", *FINE[1:]]), "line 2: expected"),
    "third column": (rows(["1,0.9", *FINE[1:]]), "line 2: expected"),
    "blank line": (rows(FINE) + b"\n", "line 402: expected"),
    "other digits": (rows(FINE).replace(b",7\n", ",٧\n".encode()), "not ASCII"),
    "pickled": (pickle.dumps(FINE), "not ASCII"),
    "huge": (rows(FINE) + b"0" * 100_000, "larger than"),
    "one huge number": (b"id,label\n0," + b"9" * 50_000 + b"\n", "line 2: expected"),
}


@pytest.mark.parametrize("kind", MALFORMED)
def test_malformed_predictions_are_refused_in_one_line(prepared, tmp_path, kind):
    content, message = MALFORMED[kind]
    (tmp_path / "p.csv").write_bytes(content)
    done = score(tmp_path / "p.csv", prepared.labels[Split.VALIDATION])
    assert (done.returncode, done.stdout) == (3, "")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1 and len(done.stderr) < 200


def test_what_is_no_plain_file_is_refused(prepared, tmp_path):
    labels = prepared.labels[Split.VALIDATION]
    (tmp_path / "link.csv").symlink_to(labels / "labels.csv")
    os.mkfifo(tmp_path / "pipe.csv")
    (tmp_path / "folder.csv").mkdir()
    for name in ("link.csv", "pipe.csv", "folder.csv", "missing.csv"):
        done = score(tmp_path / name, labels)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (3, "", 1)


def test_complete_predictions_in_any_order_and_with_crlf_are_scored(prepared, tmp_path):
    truth = labels_of(prepared, Split.VALIDATION)
    content = rows(truth[::-1], range(399, -1, -1)).replace(b"\n", b"\r\n")
    (tmp_path / "p.csv").write_bytes(content)
    done = score(tmp_path / "p.csv", prepared.labels[Split.VALIDATION])
    assert json.loads(done.stdout) == {"accuracy": 1.0, "balanced_error": 0.0}


def test_a_fault_of_the_labels_is_not_blamed_on_the_candidate(prepared, tmp_path):
    (tmp_path / "p.csv").write_bytes(rows(FINE))
    assert score(tmp_path / "p.csv", tmp_path).returncode not in (0, 3)


@pytest.mark.parametrize(
    ("kind", "magic"), [("png", b"\x89PNG"), ("pdf", b"%PDF"), ("svg", b"<?xml")]
)
def test_figures_are_drawn_from_the_result_table(kind, magic, tmp_path):
    pytest.importorskip("matplotlib")
    common = {"metric": "accuracy", "direction": "maximize", "finding": None}
    nothing = {"delta": None, "ci_low": None, "ci_high": None}
    table = [
        {"idea_id": "baseline", "title": "b", "status": "baseline", "mean": 0.9, **nothing},
        {"idea_id": "idea-0001", "title": "a", "status": "scored", "mean": 0.95}
        | {"delta": 0.05, "ci_low": 0.04, "ci_high": 0.06},
        {"idea_id": "idea-0002", "title": "c", "status": "failed", "mean": None, **nothing},
    ]
    (tmp_path / "results.json").write_text(json.dumps([{**common, **row} for row in table]))
    paths = ["--results", str(tmp_path / "results.json"), "--out", str(tmp_path / "figures")]
    paths += [] if kind == "png" else ["--format", kind]
    subprocess.run([sys.executable, str(DIGITS / "plot.py"), *paths], check=True)
    figures = sorted((tmp_path / "figures").iterdir())
    assert [p.name for p in figures] == [f"effects.{kind}", f"running_best.{kind}"]
    assert all(p.read_bytes().startswith(magic) for p in figures)
