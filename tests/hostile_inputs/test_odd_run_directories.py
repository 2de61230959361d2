"""Run directories in which something else lies in the place of a file, or whose journal is another.

Everything that reads them ends, with success or one line; what is shown then is what was measured,
or it is said that something is missing.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from odd_campaigns import HERE, PLAIN, make_recipe, scripted
from odd_values import ODD_FILES
from try_out import ground, tried

from hpcscientist.api import load_campaign
from hpcscientist.cli.main import run
from hpcscientist.files import vault
from hpcscientist.files.rundir import RunPaths
from hpcscientist.history import frozen
from hpcscientist.papers.facts.collect import collect
from hpcscientist.papers.writing import brief
from hpcscientist.recipe.folder_copy import LaunchedRecipe
from hpcscientist.views import campaign as campaign_view
from hpcscientist.views.cards import cards
from hpcscientist.views.papers import papers

KINDS = ("nothing", "a folder", "a pipe", "a device", "huge", "empty", "itself")
FILES = (
    *("campaign.toml", "journal.jsonl", "recipe", "recipe/score.py", "recipe/reference"),
    *("ideas/idea-0001/idea.json", "ideas/idea-0001/chat.jsonl", "ideas/idea-0001/claim.json"),
    *("ideas/idea-0001/attempts/1/code", "ideas/idea-0001/attempts/1/code/experiment.py"),
    *("ideas/idea-0001/notes.md", "ideas/idea-0001/recipe.tar", "ideas", "trials", "results"),
    *("trials/idea-0001-a1-search-0", "trials/idea-0001-a1-search-0/result.arrow"),
    *("trials/baseline-a1-baseline-0/result.arrow", "trials/baseline-a1-baseline-0/spec.json"),
    *("trials/idea-0001-a1-pilot-0/log", "results/part-000001.parquet", ".driver/9.json"),
)
IN_GATE = {("journal.jsonl", "a pipe"), ("campaign.toml", "a device"), ("trials", "nothing")}
CASES = [
    pytest.param(file, kind, marks=[] if (file, kind) in IN_GATE else [pytest.mark.full])
    for file in FILES
    for kind in KINDS
]


@pytest.fixture(scope="module", autouse=True)
def _scripted() -> Iterator[None]:
    with scripted():
        yield


@pytest.fixture(scope="module")
def finished() -> Iterator[tuple[Path, list[dict[str, Any]]]]:
    """A campaign that has ended, with its trusted copies, and what it found."""
    with ground() as folder:
        os.environ[vault.ROOT_VARIABLE] = str(folder / "private")
        (folder / "hpcsci.toml").write_text(PLAIN)
        make_recipe(folder, whole=False)
        given = ("--recipe", "./topic", "--model", "playbook", "--ideas", "2", *HERE)
        assert tried(["launch", *given, "--run-dir", "run"]) == 0
        rows = found()
        assert [row["n"] for row in rows] == [2, 2, 2]
        shutil.copytree(folder, folder / "before", symlinks=True)
        yield folder, rows


@pytest.fixture
def campaign(finished: tuple[Path, list[dict[str, Any]]]) -> Path:
    """The same, as it was."""
    folder, _ = finished
    for name in ("run", "private"):
        shutil.rmtree(folder / name, ignore_errors=True)
        shutil.copytree(folder / "before" / name, folder / name, symlinks=True)
    return folder / "run"


def found() -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(said("results", "run", "--format", "json")[0])
    return [{k: v for k, v in row.items() if not k.endswith("_hours")} for row in rows]


def said(*arguments: str) -> tuple[str, str]:
    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        assert run(arguments) == 0
    out.flush()
    return out.buffer.getvalue().decode(), err.getvalue()  # type: ignore[attr-defined]


def put(path: Path, kind: str) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    path.parent.mkdir(exist_ok=True)
    ODD_FILES[kind](path)


@pytest.mark.parametrize(("file", "kind"), CASES)
def test_what_lies_in_the_place_of_a_file_ends_nothing_but_in_a_line(
    file: str, kind: str, campaign: Path, finished: tuple[Path, list[dict[str, Any]]]
) -> None:
    _, rows = finished
    put(campaign / file, kind)
    shown = [tried([name, "run"]) for name in ("status", "results")]
    if shown == [0, 0]:
        for row, before in zip(found(), rows, strict=True):
            assert row == before or warned()
    assert tried(["resume", "run"]) == 0
    assert found() == rows
    assert tried(["reproduce", "run", "--idea", "idea-0001"]) == 0
    assert tried(["cancel", "run"]) == 0


@pytest.mark.parametrize(("trials", "status"), [(b"search-0", 1), (b"pilot-0", 0)])
def test_a_metric_of_another_name_is_told_where_no_key_shows_the_change(
    trials: bytes, status: int, campaign: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(vault.ROOT_VARIABLE, str(campaign.parent / "elsewhere"))
    monkeypatch.setattr(vault, "_known", {})
    path = campaign / "journal.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    assert tried(["results", "run"]) == 0
    path.write_bytes(
        b"".join(
            line.replace(b'"accuracy":', b'"acburacy":')
            if b"trial_ended" in line and trials in line
            else line
            for line in lines
        )
    )
    assert tried(["status", "run"]) == status
    assert tried(["results", "run"]) == 1


def test_what_is_shown_is_what_the_driver_wrote(campaign: Path) -> None:
    def shown() -> tuple[object, ...]:
        paths = RunPaths(campaign)
        view = campaign_view.read(paths)
        made = list(cards(view, paths))
        assert made[0].hypothesis
        assert made[0].versions[0].diff
        facts = collect(paths)
        recipe = LaunchedRecipe(paths.recipe, frozen.read(paths).recipe_hash).load()
        told = brief.of_idea(paths, recipe, facts.sheet, "idea-0001")
        summed = brief.of_campaign(paths, recipe, facts.sheet)
        return made, papers(view.ideas, paths), load_campaign(campaign).ideas, facts, told, summed

    before = shown()
    for name, old, new in (
        ("../../recipe/recipe.toml", "seeds", "# seeds\nseeds"),
        ("../../recipe/reference/experiment.py", "\n", "\nEPOCHS = 99\n"),
        ("idea.json", '"hypothesis": "', '"hypothesis": "Another. '),
        ("idea.json", '"summary": "', '"summary": "Another. '),
        ("idea.json", '"papers": []', '"papers": ["arxiv:1"]'),
        ("attempts/1/diff.patch", "+", "+EPOCHS = 99\n+"),
        ("attempts/1/code/experiment.py", "\n", "\nEPOCHS = 99\n"),
    ):
        file = campaign / "ideas/idea-0001" / name
        assert old in file.read_text()
        file.write_text(file.read_text().replace(old, new))
    (campaign / "ideas/idea-0001/attempts/1/code/more.py").write_text("A = 1")
    assert shown() == before


def warned() -> bool:
    return "warning: " in said("results", "run")[1]
