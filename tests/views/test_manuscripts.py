"""Where the numbers of a campaign's papers come from, read from what lies beside each paper."""

from __future__ import annotations

from pathlib import Path

from hpcscientist.files.rundir import RunPaths
from hpcscientist.records.facts import (
    Fact,
    FactKind,
    FactSheet,
    FileHash,
    Source,
    TrialRow,
)
from hpcscientist.records.manuscript import Manuscript, PaperScope, Section, parse_blocks
from hpcscientist.views.papers import FACTS, MANUSCRIPT, manuscripts


def fact(name: str, value: float, *trials: str) -> Fact:
    rows = tuple(
        TrialRow(
            trial=trial, run=1, position=0, seed=n, value=value, file="results/p", row_hash="a" * 64
        )
        for n, trial in enumerate(trials)
    )
    files = (FileHash(file="results/part-000001.parquet", sha256="b" * 64),)
    source = Source(trials=rows, files=files)
    return Fact(
        id=name, label=name, kind=FactKind.METRIC, value=value, text=f"{value:g}", source=source
    )


def write(paths: RunPaths, name: str, text: str) -> Path:
    folder = paths.papers.idea(name).root
    folder.mkdir(parents=True)
    section = Section(id="results", title="Results", blocks=parse_blocks(text))
    scope = PaperScope(campaign_id="c")
    manuscript = Manuscript(title="On rates", abstract=(), sections=(section,), scope=scope)
    facts = (fact("idea-0001.mean", 0.9, "t1", "t2"), fact("baseline.mean", 0.8, "t2", "t3"))
    sheet = FactSheet(campaign_id="c", recipe="r", metrics=(), ideas=(), facts=facts)
    (folder / MANUSCRIPT).write_text(manuscript.model_dump_json())
    (folder / FACTS).write_text(sheet.model_dump_json())
    return folder


def test_each_number_has_its_trials_and_files(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path)
    text = "It reaches {idea-0001.mean}, *{difference(idea-0001.mean, baseline.mean)}* more."
    write(paths, "idea-0001", text)
    (paper,) = manuscripts(paths)
    assert (paper.name, paper.title) == ("idea-0001", "On rates")
    mean, more = paper.numbers
    assert (mean.text, mean.trials, mean.section) == ("0.9", ("t1", "t2"), "results")
    assert mean.files == (f"results/part-000001.parquet {'b' * 12}",)
    assert (more.text, more.trials) == ("", ("t1", "t2", "t3"))
    assert more.formula == "difference(idea-0001.mean, baseline.mean)"


def test_a_paper_that_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path)
    assert manuscripts(paths) == ()
    (write(paths, "one", "{idea-0001.mean}") / FACTS).write_text("{")
    folder = write(paths, "two", "{idea-0001.mean}")
    (folder / MANUSCRIPT).rename(tmp_path / "elsewhere")
    (folder / MANUSCRIPT).symlink_to(tmp_path / "elsewhere")
    write(paths, "three", "{idea-0001.mean}")
    assert [paper.name for paper in manuscripts(paths)] == ["three"]
