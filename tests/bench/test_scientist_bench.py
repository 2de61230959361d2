"""Scientist-Bench: instances are read, anonymised, run as campaigns, and rated."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from hpcscientist.bench import scientist
from hpcscientist.config.settings import PathSettings, Settings
from hpcscientist.errors import UsageError
from hpcscientist.files import vault
from hpcscientist.models.prompting.fitting import Window
from hpcscientist.models.role_client import Roles
from hpcscientist.records.model_calls import ModelReply, ModelRequest
from hpcscientist.records.reviews import (
    AspectResult,
    JudgeResult,
    Mark,
    Measure,
    PaperComparison,
    Sample,
)
from hpcscientist.reviews import compare

DIGITS = Path(__file__).resolve().parents[2] / "recipes" / "digits"
TOML = """
id = "net-1"
domain = "graphs"
level = 1
target = "target.txt"
instruction = "Improve on GraphNet, as graphnet's layers mix too little."
names = ["GraphNet", "Mixing in Graphs"]
"""


def instance(folder: Path, text: str = TOML) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "instance.toml").write_text(text)
    (folder / "target.txt").write_text("# Mixing in Graphs\n\nGraphNet mixes.")
    (folder / "recipe" / "library").mkdir(parents=True, exist_ok=True)
    (folder / "recipe" / "library" / "refs.bib").write_text("@article{a, title={Other Nets}}")
    return folder


def test_level_one_is_told_the_instruction_without_the_target_s_names(tmp_path: Path) -> None:
    ((folder, of),) = scientist.read([instance(tmp_path / "a")])
    found = scientist.settings_of(folder, of, Settings())
    assert found.proposing.mode == "guided"
    assert found.proposing.instruction == (
        "Improve on the proposed method, as the proposed method's layers mix too little."
    )
    assert found.recipe == str(tmp_path / "a" / "recipe")


def test_level_two_is_told_nothing(tmp_path: Path) -> None:
    text = TOML.replace("level = 1", "level = 2")
    ((folder, of),) = scientist.read([instance(tmp_path / "a", text)])
    found = scientist.settings_of(folder, of, Settings())
    assert (found.proposing.mode, found.proposing.instruction) == ("open", "")


def test_a_folder_of_instances_is_read_in_order(tmp_path: Path) -> None:
    instance(tmp_path / "b")
    instance(tmp_path / "a", TOML.replace("net-1", "net-0"))
    assert [of.id for _, of in scientist.read([tmp_path])] == ["net-0", "net-1"]
    with pytest.raises(UsageError):
        scientist.read([tmp_path, tmp_path / "b"])


@pytest.mark.parametrize(
    "spoil",
    [
        lambda f: (f / "recipe" / "library" / "refs.bib").write_text("title={On graphnet}"),
        lambda f: (f / "instance.toml").write_text(TOML.replace("instruction", "told")),
        lambda f: (f / "instance.toml").write_text(TOML.replace("level = 1", "level = 3")),
        lambda f: (f / "instance.toml").write_text("id ="),
        lambda f: (f / "target.txt").unlink(),
        lambda f: (f / "instance.toml").unlink(),
        lambda f: (f / "instance.toml").write_text(
            TOML.replace("Improve on GraphNet, as graphnet's layers mix too little.", " ")
        ),
    ],
)
def test_an_instance_that_gives_the_target_away_or_lacks_a_part_is_refused(
    spoil: Any, tmp_path: Path
) -> None:
    folder = instance(tmp_path / "a")
    spoil(folder)
    with pytest.raises(UsageError):
        scientist.read([folder])


def result(number: int, rating: int, domain: str = "graphs", level: int = 1) -> scientist.Result:
    marks = {name: Mark(sampled=rating) for name, _ in compare.ASPECTS}
    samples = [Sample(number=n, swapped=n == 2, marks=marks, reason="r") for n in (1, 2)]
    aspects: dict[str, AspectResult] = {
        name: compare.result(samples, name) for name, _ in compare.ASPECTS
    }
    judge = JudgeResult(judge="j", models=("j",), samples=tuple(samples), aspects=aspects)
    compared = PaperComparison(
        comparison_id="c", first="a", second="b", sha256=("", ""), judges=(judge,), aspects=aspects
    )
    share = Measure(value=0.5, interval=(0.2, 0.8), count=4)
    return scientist.Result(
        id=f"i{number}", domain=domain, level=level, ideas=4, completeness=share,
        correctness=share, paper="idea-0001", comparison=compared,
    )  # fmt: skip


def test_the_table_is_by_domain_and_judge_with_the_share_of_comparable_papers() -> None:
    results = [result(1, -2), result(2, -1), result(3, 1, "images"), result(4, 0, level=2)]
    told = list(scientist.lines(results))
    assert [line.split()[0] for line in told[2:5]] == ["graphs", "images", "all"]
    assert "-1.50 ± 0.71" in told[2] and "50% [" in told[2]
    assert "+1.00" in told[3] and "100% [" in told[3]
    assert "-0.67" in told[4] and "67% [" in told[4]
    level_two = told.index("level 2")
    assert "+0.00" in told[level_two + 2]


class Compares:
    """Finds the paper of a campaign a little worse than its target, wherever it stands."""

    name = "scripted"

    async def probe(self) -> None: ...

    async def close(self) -> None: ...

    async def complete(self, request: ModelRequest) -> ModelReply:
        text = request.messages[0].content
        ours_first = text.index("This paper was written by software") < text.index("The target.")
        score = 3 if ours_first else 5
        fields = ", ".join(f'"{name}": {score}' for name, _ in compare.ASPECTS)
        return ModelReply(
            text=f'{{"reason": "Fewer experiments.", {fields}}}', model=self.name, prompt_tokens=1,
            completion_tokens=1, tokens_estimated=True, latency_s=0.0,
        )  # fmt: skip


@pytest.mark.full
def test_an_instance_is_run_as_a_campaign_and_its_paper_is_rated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pymupdf", reason="reads PDF: pip install 'hpcscientist[pdf]'")
    folder = instance(tmp_path / "a", TOML.replace("GraphNet", "Shiftnet"))
    shutil.rmtree(folder / "recipe")
    shutil.copytree(DIGITS, folder / "recipe")
    (folder / "target.txt").write_text("# The target\n\nThe target. It tells digits apart.")
    vault.use_root(tmp_path / "private")
    monkeypatch.setattr(
        "hpcscientist.reviews.compare.open_judge",
        lambda *_: Roles({"review": Compares()}, {"review": Window()}),
    )
    settings = Settings(
        model="playbook",
        ideas=3,
        allow_unsandboxed=True,
        paths=PathSettings(data=str(tmp_path / "data"), private=str(tmp_path / "private")),
    )
    options = scientist.ScientistOptions(settings, tmp_path, samples=4)
    (found,) = scientist.measure(scientist.read([folder]), options, lambda _: None)
    assert found.why == ""
    assert found.ratings() == {"scripted": -1.0}
    assert found.completeness.value is not None and found.ideas == 3
    (again,) = scientist.measure(scientist.read([folder]), options, lambda _: None)
    assert again == found
