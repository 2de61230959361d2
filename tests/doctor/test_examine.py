"""The doctor on this machine, which it takes for one without Slurm."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from sentence_kit import model_folder

from hpcscientist.cli.main import run

Doctor = Callable[..., tuple[int, dict[str, dict[str, str]]]]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder, and a PATH without Slurm and Apptainer."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", os.devnull)
    return tmp_path


@pytest.fixture
def doctor(folder: Path, capfd: pytest.CaptureFixture[str]) -> Doctor:
    """Run `hpcsci doctor --json` here; return its exit code and its lines by name."""

    def call(*arguments: str) -> tuple[int, dict[str, dict[str, str]]]:
        code = run(["doctor", "--json", *arguments])
        rows: list[dict[str, str]] = json.loads(capfd.readouterr().out)
        assert all(set(row) == {"name", "state", "found", "mend"} for row in rows)
        assert all(bool(row["mend"]) is (row["state"] != "ok") for row in rows)
        return code, {row["name"]: row for row in rows}

    return call


def test_machine_without_slurm_runs_trials_itself(folder: Path, doctor: Doctor) -> None:
    code, rows = doctor()
    assert rows["slurm"]["state"] == "warning"
    assert "--backend local" in rows["slurm"]["found"]
    assert rows["python"]["state"] == "ok"
    assert rows["apptainer"]["state"] == "warning"
    assert "trial ran" in rows["container"]["found"]
    assert code == 0
    assert list(folder.iterdir()) == []


def test_slurm_that_was_asked_for_is_missing(folder: Path, doctor: Doctor) -> None:
    code, rows = doctor("--partition", "gpu")
    assert rows["slurm"]["state"] == "missing"
    assert code == 1


def test_image_without_apptainer_is_missing(folder: Path, doctor: Doctor) -> None:
    (folder / "i.sif").write_text("")
    code, rows = doctor("--image", "i.sif")
    assert rows["apptainer"]["state"] == "missing"
    assert rows["container"]["state"] == "missing"
    assert code == 1


def test_folder_that_does_not_exist_yet_is_tried_by_its_parent(
    folder: Path, doctor: Doctor
) -> None:
    assert doctor("--run-dir", "a/b/c")[0] == 0
    assert list(folder.iterdir()) == []


def test_people_get_lines(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor"]) == 0
    said = capfd.readouterr()
    assert "warning  slurm" in said.out
    assert "-> " in said.out
    assert "doctor: running" in said.err


def test_how_ideas_would_be_compared(folder: Path, doctor: Doctor) -> None:
    _, rows = doctor()
    assert rows["likeness"]["found"].startswith("keyword vectors")
    assert "sentence-transformers" in rows["likeness"]["found"]
    (folder / "hpcsci.toml").write_text('[embedding]\nmodel = "nowhere"\n')
    code, rows = doctor()
    assert rows["likeness"]["state"] == "missing"
    assert re.search("/nowhere: .*no folder", rows["likeness"]["found"])
    assert code == 1


@pytest.mark.serving
def test_an_embedding_model_is_tried(folder: Path, doctor: Doctor) -> None:
    (folder / "hpcsci.toml").write_text(f'[embedding]\nmodel = "{model_folder()}"\n')
    _, rows = doctor()
    assert rows["likeness"]["found"].startswith("sentence-transformers model on ")
