"""Metrics that candidates compute themselves: marked, never confirmed, never claimed."""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest
from bench_campaign import CampaignBench, ScriptedProposer, scored
from pydantic import ValidationError

from hpcscientist.cli.main import run
from hpcscientist.history import frozen, journal
from hpcscientist.judgement.summary import SELF_REPORTED_NOTE, read_rows
from hpcscientist.recipe.load import load
from hpcscientist.recipe.schema import RecipeSpec
from hpcscientist.records.events import SplitSpent
from hpcscientist.records.findings import Verdict
from hpcscientist.records.trial import SELF_REPORTED, Outcome, TrialSpec
from hpcscientist.views.campaign import next_command


def judge(spec: TrialSpec) -> Outcome:
    noise = zlib.crc32(f"{spec.idea_id} {spec.seed}".encode()) % 97 / 1e4
    return scored(0.5 + 0.2 * (spec.idea_id == "idea-0001") + noise)


async def campaign(room: Path) -> CampaignBench:
    """Drive a campaign whose candidates report their metric themselves."""
    bench = CampaignBench(room, ideas=2)
    recipe = bench.recipe.folder
    for name in ("recipe.toml", "score.py"):
        text = (recipe / name).read_text()
        (recipe / name).write_text(text.replace('"accuracy"', f'"{SELF_REPORTED}accuracy"'))
    with (recipe / "recipe.toml").open("a") as file:
        file.write('\n[scorer]\nkind = "self-reported"\n')
    bench.recipe = load(recipe)
    changed = {"recipe_hash": bench.recipe.recipe_hash}
    bench.config = bench.config.model_copy(update=changed)
    frozen.write(bench.paths, bench.config)
    await bench.drive(judge, ScriptedProposer("alpha beta gamma", "delta epsilon zeta"))
    return bench


async def test_an_improvement_of_a_self_reported_metric_is_never_confirmed_or_claimed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bench = await campaign(tmp_path)
    found = read_rows(bench.paths)
    better = found.rows[1]
    assert better.finding is Verdict.IMPROVEMENT
    assert (better.confirmed, better.test_delta) == (None, None)
    assert {row.metric for row in found.rows} == {"self-reported accuracy"}
    assert SELF_REPORTED_NOTE in found.notes
    assert not any(isinstance(event, SplitSpent) for event in journal.read(bench.paths.journal))
    assert list(bench.paths.root.glob("ideas/*/claim.json")) == []
    assert next_command("d", found.rows, ended=True, is_driven=False) == "hpcsci report d"
    for words in (["paper"], ["reproduce", "--idea", "idea-0001"]):
        assert run([words[0], str(bench.paths.root), *words[1:]]) == 2
        assert "self-reported" in capsys.readouterr().err


def fields(name: str, kind: str) -> dict[str, object]:
    topic = dict.fromkeys(("title", "description", "inputs", "outputs"), "x")
    seconds = {"seconds": 1.0}
    return {
        "name": "a",
        "topic": topic,
        "metrics": ({"name": name, "direction": "maximize"},),
        "budgets": {"pilot": seconds, "full": seconds},
        "scorer": {"kind": kind},
    }


def test_the_name_and_the_scorer_agree() -> None:
    RecipeSpec.model_validate(fields("accuracy", "predictions"), strict=False)
    RecipeSpec.model_validate(fields("self-reported accuracy", "self-reported"), strict=False)
    for name, kind in (("accuracy", "self-reported"), ("self-reported accuracy", "predictions")):
        with pytest.raises(ValidationError, match="self-reported"):
            RecipeSpec.model_validate(fields(name, kind), strict=False)
