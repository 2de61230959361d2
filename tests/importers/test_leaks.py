"""Ways from what candidates see to labels: each is found, and data without any give none."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from import_kit import write

from hpcscientist.importers.leaks import search

Rows = list[dict[str, object]]


def rows(count: int, seed: int) -> Rows:
    draw = random.Random(seed)
    return [
        {
            "id": f"{seed}-{draw.getrandbits(40):x}",
            "x": round(draw.random(), 6),
            "kind": draw.choice("abcdefgh"),
            "label": draw.choice(("cat", "dog", "owl")),
        }
        for _ in range(count)
    ]


def table(rows: Rows, *leave_out: str) -> str:
    names = [name for name in rows[0] if name not in leave_out]
    lines = [",".join(str(row[name]) for name in names) for row in rows]
    return "\n".join([",".join(names), *lines]) + "\n"


def found(room: Path, train: Rows, asked: Rows, **more: str) -> list[str]:
    """Lay data out, and return where labels follow from."""
    files: dict[str, str | bytes] = {
        "train/train.csv": table(train),
        "asked/test.csv": table(asked, "label"),
        "labels/answers.csv": table([{k: row[k] for k in ("id", "label")} for row in asked]),
        **{name.replace("__", "/") + ".csv": text for name, text in more.items()},
    }
    write(room, files)
    return [leak.place for leak in search(room / "train", room / "asked", room / "labels")]


def test_data_without_a_way_give_none(tmp_path: Path) -> None:
    asked = rows(200, 2)
    sample = table([{"id": row["id"], "label": "cat"} for row in asked])
    assert found(tmp_path, rows(600, 1), asked, asked__sample=sample) == []


def hide(asked: Rows, train: Rows, what: str) -> None:
    """Plant one way."""
    number = {"cat": 1, "dog": 2, "owl": 3}
    for place, row in enumerate((*train, *asked)):
        said = str(row["label"])
        match what:
            case "copy":
                row["copy"] = said
            case "coded":
                row["code"] = 7 * number[said] % 5
            case "near":
                row["t"] = number[said] * 1000 + place / 10
            case "time":
                row["when"] = f"2012060{number[said]}15{place % 60:02d}{place // 60:02d}Z"
    if what == "order":
        asked.sort(key=lambda row: str(row["label"]))
    if what == "repeated":
        asked[:40] = [dict(row) for row in train[:40]]


@pytest.mark.parametrize(
    ("what", "place"),
    [
        ("copy", "test.csv: column 'copy'"),
        ("coded", "test.csv: column 'code'"),
        ("near", "test.csv: column 't'"),
        ("time", "test.csv: column 'when'"),
        ("order", "test.csv: order of rows"),
        ("repeated", "test.csv: rows"),
    ],
)
def test_a_planted_way_is_found(what: str, place: str, tmp_path: Path) -> None:
    train, asked = rows(600, 1), rows(200, 2)
    hide(asked, train, what)
    assert place in found(tmp_path, train, asked)


def test_answers_left_in_a_sample_or_beside_the_training_data_are_found(tmp_path: Path) -> None:
    asked = rows(200, 2)
    told = table([{"id": row["id"], "label": row["label"]} for row in asked])
    places = found(tmp_path, rows(600, 1), asked, asked__sample=told, train__old=told)
    assert "sample.csv: column 'label'" in places
    assert "train/old.csv" in places


def test_a_number_that_goes_with_the_label_is_found(tmp_path: Path) -> None:
    draw = random.Random(5)
    values = [{"id": i, "x": draw.random(), "label": draw.gauss(0, 1)} for i in range(200)]
    for row in values:
        row["y"] = 3 - 2 * float(row["label"])
    assert found(tmp_path, values[:100], values[100:]) == ["test.csv: column 'y'"]


def by_name(path: Path, said: str) -> Path:
    return path.rename(path.with_name(f"{path.stem}-{said}.png"))


def by_size(path: Path, said: str) -> Path:
    path.write_bytes(b"x" * (10 + len(said) * ord(said[0])))
    return path


def by_time(path: Path, said: str) -> Path:
    os.utime(path, (1e9 + ord(said[0]), 1e9 + ord(said[0])))
    return path


@pytest.mark.parametrize(
    ("plant", "place"),
    [
        (lambda path, said: path, None),
        (by_name, "names of files"),
        (by_size, "sizes of files"),
        (by_time, "times of files"),
    ],
)
def test_what_files_tell(
    plant: Callable[[Path, str], Path], place: str | None, tmp_path: Path
) -> None:
    draw = random.Random(3)
    labels: Rows = []
    for folder in ("train", "asked"):
        (tmp_path / folder).mkdir()
    for number in range(60):
        said = draw.choice(("cat", "dog", "owl"))
        path = tmp_path / "asked" / f"{draw.getrandbits(40):x}.png"
        path.write_bytes(bytes([number]) * (number + 1))
        os.utime(path, (1e9 + number, 1e9 + number))
        labels.append({"file": plant(path, said).name, "label": said})
    write(tmp_path, {"labels/y.csv": table(labels)})
    leaks = search(tmp_path / "train", tmp_path / "asked", tmp_path / "labels")
    assert [leak.place for leak in leaks] == ([place] if place else [])
