"""A task in autoresearch's form: its evaluator leaves the candidate's process."""

from __future__ import annotations

import json
import random
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from import_kit import draft_of, rehearsed, told, write

from hpcscientist.errors import RecipeError
from hpcscientist.importers.draft import Fate

PREPARE = '''"""Letters as tokens; the evaluator must not be changed."""
import math
import os
import numpy as np

MAX_SEQ_LEN = 8
TIME_BUDGET = 5
CACHE_DIR = os.path.join(os.path.expanduser("~"), ".cache", "letters")
DATA_DIR = os.path.join(CACHE_DIR, "data")
VAL_FILENAME = "held_out.txt"
LETTERS = "_abcdefgh"


class Tokenizer:
    @classmethod
    def from_directory(cls):
        return cls()

    def get_vocab_size(self):
        return len(LETTERS)

    def get_bos_token_id(self):
        return 0

    def encode(self, texts, prepend=None):
        return [[prepend, *(LETTERS.index(letter) for letter in text)] for text in texts]

    def decode(self, ids):
        return "".join(LETTERS[i] for i in ids)


def _document_batches(split):
    epoch = 1
    while True:
        for name in sorted(os.listdir(DATA_DIR)):
            if (name == VAL_FILENAME) == (split == "val"):
                with open(os.path.join(DATA_DIR, name)) as file:
                    yield file.read().split(), epoch
        epoch += 1


def make_dataloader(tokenizer, batch, length, split):
    for documents, epoch in _document_batches(split):
        row = sum(tokenizer.encode(documents, prepend=0), [])
        yield np.array(row), epoch


def evaluate_bpb(model, tokenizer, batch_size):
    row, _ = next(make_dataloader(tokenizer, batch_size, MAX_SEQ_LEN, "val"))
    return float(np.mean(model(row[None, :-1], row[None, 1:]))) / math.log(2)
'''
TRAIN = """\
import numpy as np
from prepare import MAX_SEQ_LEN, TIME_BUDGET, Tokenizer, evaluate_bpb, make_dataloader

SMOOTHING = 0.5
BATCH = 16
np.random.seed(42)
tokenizer = Tokenizer.from_directory()
size = tokenizer.get_vocab_size()
row, _ = next(make_dataloader(tokenizer, BATCH, MAX_SEQ_LEN, "train"))
counts = np.full((size, size), SMOOTHING) + 1e-3 * np.random.random((size, size))
np.add.at(counts, (row[:-1], row[1:]), 1)
table = np.log(counts / counts.sum(axis=1, keepdims=True))


def model(x, y=None):
    logits = table[x]
    return logits if y is None else -np.take_along_axis(logits, y[..., None], 2)


print(f"val_bpb:          {evaluate_bpb(model, tokenizer, BATCH):.6f}")
"""
TASK: dict[str, str | bytes] = {"prepare.py": PREPARE, "train.py": TRAIN, "program.md": "Lower it."}


def words(seed: int, count: int) -> str:
    """Letters that mostly go up by one: a model of pairs learns that."""
    draw = random.Random(seed)
    found = []
    for _ in range(count):
        place = draw.randrange(8)
        letters = []
        for _ in range(12):
            letters.append("abcdefgh"[place])
            place = (place + 1) % 8 if draw.random() < 0.9 else draw.randrange(8)
        found.append("".join(letters))
    return " ".join(found)


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The task, the cache that its prepare.py would have made, and the recipe with its data."""
    room = tmp_path_factory.mktemp("letters")
    write(room / "task", TASK)
    write(room / "cache", {"data/a.txt": words(1, 300), "data/held_out.txt": words(2, 200)})
    draft = draft_of("autoresearch", room / "task", room / "recipe", data=room / "cache")
    draft.write()
    prepare = [sys.executable, room / "recipe" / "prepare.py", "--out", room / "made"]
    (room / "made").mkdir()
    subprocess.run([*prepare, "--data", room / "cache"], check=True, capture_output=True)
    return room


def test_the_validation_text_is_hidden_but_for_contexts(room: Path) -> None:
    made = room / "made"
    assert not list((made / "public").rglob("held_out.txt"))
    assert (made / "public" / "train" / ".cache" / "letters" / "data" / "a.txt").is_file()
    for split in ("validation", "test"):
        contexts = np.load(made / "public" / split / "contexts.npy")
        hidden = np.load(made / "private" / split / "hidden.npz")
        assert contexts.shape == (len(hidden["tokens"]), 8)
        assert len(contexts) > 90
        assert 0 not in hidden["tokens"]
        assert set(hidden["bytes"]) == {1}


def test_the_recipe_runs_and_measures_what_the_model_learnt(room: Path, tmp_path: Path) -> None:
    value = rehearsed(room / "recipe", tmp_path, room / "cache")[1]["bits_per_byte"]
    assert 0.4 < value < 1.5  # of at most 3.2 bits: what mostly goes up by one has 0.8


def test_distributions_are_scored_and_nothing_else(
    room: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    labels = room / "made" / "private" / "test"
    tokens = np.load(labels / "hidden.npz")["tokens"]
    rows = np.full((len(tokens), 9), -9.0, dtype=np.float16)

    def score(array: np.ndarray) -> float | int:  # type: ignore[type-arg]
        np.save(tmp_path / "p.npy", array)
        words = ["--labels", str(labels), "--predictions", str(tmp_path / "p.npy")]
        monkeypatch.setattr(sys, "argv", ["score.py", *words])
        code = runpy.run_path(str(room / "recipe" / "score.py"))["main"]()
        said = capsys.readouterr().out
        return json.loads(said)["bits_per_byte"] if code == 0 else code

    assert score(rows) == pytest.approx(np.log2(9), abs=1e-3)  # rows are made to sum to one
    assert score(rows[:-1]) == 3
    assert score(np.full_like(rows, np.nan)) == 3
    assert score(np.array([None], dtype=object)) == 3  # a pickle


@pytest.mark.parametrize(
    ("name", "before", "after", "refused"),
    [
        ("train.py", "evaluate_bpb, ", "", ["train.py", "prepare.py"]),
        ("prepare.py", "evaluate_bpb", "evaluate_games", ["train.py", "prepare.py"]),
        ("prepare.py", "_document_batches", "batches", ["prepare.py"]),
        ("prepare.py", 'os.path.expanduser("~")', '"/data"', ["prepare.py"]),
        ("prepare.py", "VAL_FILENAME", "HELD", ["prepare.py"]),
        ("prepare.py", "def decode", "def undo", ["prepare.py"]),
    ],
)
def test_an_evaluator_that_cannot_be_moved_is_refused(
    name: str, before: str, after: str, refused: list[str], tmp_path: Path
) -> None:
    write(tmp_path / "task", {**TASK, name: str(TASK[name]).replace(before, after)})
    write(tmp_path / "cache", {"a": "a"})
    draft = draft_of("autoresearch", tmp_path / "task", data=tmp_path / "cache")
    assert set(told(draft, Fate.REFUSED)) <= set(refused)
    assert draft.refusals


def test_its_data_are_asked_for(tmp_path: Path) -> None:
    draft = draft_of("autoresearch", write(tmp_path, TASK))
    assert told(draft, Fate.REFUSED) == ["data"]
    assert ".cache/letters" in draft.refusals[0].why


@pytest.mark.parametrize("name", ["train.py", "prepare.py"])
def test_a_missing_part_is_named(name: str, tmp_path: Path) -> None:
    write(tmp_path, TASK)
    (tmp_path / name).unlink()
    with pytest.raises(RecipeError, match=name):
        draft_of("autoresearch", tmp_path)
