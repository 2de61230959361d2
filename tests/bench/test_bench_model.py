"""`hpcsci bench model`: what is counted of calls and ideas, and a small campaign of each arm."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "e2e"))
from campaigns import TinyCampaign, hpcsci

from hpcscientist.bench.model.measure import (
    PARTS,
    STEPS,
    Ablation,
    CampaignCounts,
    Pair,
    StageCost,
    ablated,
    read,
    stage_costs,
)
from hpcscientist.bench.model.table import figures, half_width
from hpcscientist.cli.main import run
from hpcscientist.config import model_size
from hpcscientist.config.settings import Settings
from hpcscientist.files.rundir import RunPaths
from hpcscientist.models.chat import ChatLine
from hpcscientist.models.open import role_specs


def call(stage: str, ordinal: int, repair: int = 0, finish: str = "stop") -> ChatLine:
    key = f"{stage}/{ordinal}" + (f"/repair{repair}" if repair else "")
    return ChatLine(
        key=key,
        stage=stage,
        ordinal=ordinal,
        repair=repair,
        prompt=(),
        reply="{}",
        model="m",
        prompt_tokens=100,
        completion_tokens=10,
        tokens_estimated=False,
        latency_s=0.5,
        time=0.0,
        finish=finish,
    )


def test_a_stage_counts_questions_repairs_and_replies_that_were_cut() -> None:
    calls = [
        call("plan", 1, finish="length"),
        call("plan", 1, repair=1, finish="length"),
        call("plan", 1, repair=2),
        call("plan", 2),
        call("code", 1),
    ]
    found = stage_costs(calls)
    assert list(found) == ["plan", "code"]
    assert found["plan"] == StageCost(
        questions=2, first_try=1, repairs=2, cut=2, prompt=400, completion=40, seconds=2.0
    )
    assert found["plan"].calls == 4
    assert found["code"].first_try == 1


def measured(scored: int, improved_at: tuple[tuple[int, int, int], ...] = ()) -> CampaignCounts:
    steps = dict.fromkeys(STEPS, 0) | {"scored": scored}
    cost = StageCost(4, 3, 1, 0, 900, 100, 2.0)
    used = improved_at[-1][0] if improved_at else 0
    return CampaignCounts({"code": cost}, steps, {}, used, 30.0, improved_at)


class TestFigures:
    def test_arms_are_compared_at_the_trials_of_the_one_that_ran_fewer(self) -> None:
        model = measured(2, ((6, 0, 0), (12, 1, 1)))
        control = measured(3, ((5, 1, 0), (10, 2, 1), (15, 3, 2)))
        found = {f.name: f for f in figures([Pair(0, model, control)])}
        improved = found["improved at equal trials"]
        assert (improved.value, improved.compared_with) == (1, "the control arm 2")
        assert found["confirmed at equal trials"].value == 1

    def test_an_interval_is_that_of_the_mean_over_seeds(self) -> None:
        assert half_width([2.0]) is None
        # t(0.975, 2) = 4.303, and the standard error of 1, 2, 3 is 1 / sqrt(3).
        assert half_width([1.0, 2.0, 3.0]) == pytest.approx(4.30265 / 3**0.5, rel=1e-5)

    def test_what_was_not_measured_has_no_figure(self) -> None:
        found = {f.name: f for f in figures([Pair(0, measured(0), None)])}
        assert "tokens a scored idea" not in found
        assert "improved at equal trials" not in found
        assert found["tokens"].value == 1000
        assert found["code: first try"].value == 0.75

    @pytest.mark.parametrize(("has_part", "given"), [(False, 2), (True, -2)])
    def test_what_a_part_gives_is_the_difference_at_the_same_seed(
        self, has_part: bool, given: int
    ) -> None:
        ablations = [{"plan": Ablation(has_part, measured(seed + 1))} for seed in (0, 1)]
        pairs = [Pair(seed, measured(seed + 3), None, ablations[seed]) for seed in (0, 1)]
        found = {f.name: f for f in figures(pairs)}
        scored = found["plan gives: scored"]
        assert (scored.value, scored.spread, scored.runs) == (given, 0, 2)
        assert found["plan gives: tokens"].value == 0

    def test_costs_are_those_of_a_scored_idea(self) -> None:
        pairs = [Pair(seed, measured(seed + 1), None) for seed in (0, 1)]
        found = {f.name: f for f in figures(pairs)}
        assert found["tokens a scored idea"].value == (1000 + 500) / 2
        assert found["seconds a scored idea"].value == (30 + 15) / 2


def test_the_control_arm_is_no_model(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", "model", "--model", "search"]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.parametrize("part", PARTS)
def test_every_part_is_switched_and_nothing_else(part: str) -> None:
    large = Settings(model="http://h/v1#Coder-32B")
    other, has_part = ablated(large, part)
    assert not has_part
    section, without = PARTS[part]
    assert getattr(other, section) == getattr(large, section).model_copy(update=dict(without))
    # What is off for a small model is put in, and a launch of those settings keeps it.
    small = Settings(model="http://h/v1#Coder-1.5B")
    specs = role_specs(small, small.model)
    own, _ = model_size.fitted(small, specs)
    other, has_part = ablated(small, part)
    assert model_size.fitted(other, specs) == (other, "")
    lacks = getattr(own if has_part else other, section)
    has = getattr(other if has_part else own, section)
    assert lacks == has.model_copy(update=dict(without)) != has


def test_an_unknown_part_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", "model", "--model", "playbook", "--ablate", "nothing"]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_a_model_that_cannot_be_is_refused_before_any_campaign(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["bench", "model", "--model", "nonsense", "--dir", str(tmp_path)]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.e2e
def test_a_recorded_model_beside_the_control_arm(tmp_path: Path) -> None:
    TinyCampaign.prepare(tmp_path)
    command = ["bench", "model", "--recipe", "./tiny", "--model", "playbook", "--ideas", "3"]
    command += ["--ablate", "plan", "--seeds", "1", "--allow-unsandboxed", "--json", "--dir", "."]
    done = hpcsci(*command, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = {row["name"]: row for row in json.loads(done.stdout)}
    assert found["plan gives: scored"]["runs"] == 1
    told = read(RunPaths(tmp_path / "model-0"))
    assert found["ideas proposed"]["value"] == 3 == told.steps["proposed"]
    assert found["ideas scored"]["value"] == told.steps["scored"] > 0
    assert list(told.steps) == list(STEPS)
    assert told.stages["propose"].questions == 3
    # The same command reads what lies there and runs nothing.
    trials = (tmp_path / "executed").read_text()
    again = hpcsci(*command, cwd=tmp_path)
    assert json.loads(again.stdout) == json.loads(done.stdout)
    assert (tmp_path / "executed").read_text() == trials


@pytest.mark.e2e
def test_what_a_launch_leaves_out_for_a_small_model_makes_no_other_campaign(tmp_path: Path) -> None:
    TinyCampaign.prepare(tmp_path)
    (tmp_path / "hpcsci.toml").write_text('model_size = "small"\n')
    command = ["bench", "model", "--recipe", "./tiny", "--model", "playbook", "--ideas", "1"]
    command += ["--seeds", "1", "--no-control", "--allow-unsandboxed", "--dir", "."]
    for _ in range(2):
        done = hpcsci(*command, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
