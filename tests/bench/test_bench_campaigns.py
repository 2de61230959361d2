"""Benchmarks of whole campaigns: what is changed in each arm, and what is made of the counts."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "e2e"))
from benchmarks.campaigns import loop, steady
from benchmarks.campaigns.measuring import Ran
from campaigns import PLAIN, TinyCampaign, benchmark

from hpcscientist.config.settings import Settings
from hpcscientist.errors import UsageError
from hpcscientist.feedback.statistics import wilson
from hpcscientist.files.rundir import RunPaths
from hpcscientist.judgement.summary import read_rows
from hpcscientist.records.findings import Verdict

RAN = Ran("x", 10, 8, improvements=4, confirmed=2, trials=60, tokens=100, cpu_hours=1, seconds=8.0)
LOOP_ARMS = ("whole", "no-debugging")
CONTRACT = ["name", "value", "unit", "compared_with", "ratio", "target", "spread", "runs"]


class TestArms:
    @pytest.mark.parametrize("arm", [arm for arm in loop.ARMS if arm != loop.WHOLE])
    def test_an_arm_changes_what_its_name_says_and_nothing_else(self, arm: str) -> None:
        given = Settings(control=0.2 if arm == "search" else 0.0)
        before, after = given, loop.settings_of(arm, given, 7)
        changed = {
            f"{section}.{key}" if section else key
            for section, values in loop.ARMS[arm].items()
            for key in values
        }
        flat = {**_flat(before.model_dump())}
        differing = {k for k, v in _flat(after.model_dump()).items() if v != flat[k]}
        assert differing == changed | {"seed"}

    def test_an_unknown_arm_is_named_before_anything_runs(self, tmp_path: Path) -> None:
        options = loop.Options(tmp_path, arms=("no-feedback", "no-luck"))
        with pytest.raises(UsageError, match=r"'no-luck', .*whole, no-feedback, "):
            loop.measure(options, lambda text: None)
        assert list(tmp_path.iterdir()) == []


class TestFigures:
    def test_arms_are_compared_by_seed(self) -> None:
        whole = {seed: replace(RAN, improvements=3 + seed) for seed in (0, 1, 2)}
        less = {seed: replace(RAN, improvements=1 + seed) for seed in (0, 1, 2)}
        found = {f.name: f for f in loop.figures({"whole": whole, "no-bank": less})}
        figure = found["improvements, no-bank"]
        assert (figure.value, figure.ratio, figure.spread, figure.runs) == (2, 0.5, 2, 3)
        assert "difference -2" in figure.unit  # the same with every seed: no interval of noise
        share = found["improved, no-bank"]
        assert share.value == pytest.approx(6 / 30)
        assert "of 30 ideas (95%: 0.0" in share.unit

    def test_an_interval_needs_two_campaigns(self) -> None:
        one = loop.minus({0: 2.0}, {0: 3.0})
        assert (one.delta, one.low, one.high) == (-1.0, None, None)
        several = loop.minus({0: 2.0, 1: 4.0, 2: 3.0}, {0: 3.0, 1: 3.0, 2: 3.0})
        assert several.delta == 0
        assert several.low is not None
        assert several.high == pytest.approx(-several.low)

    def test_steady_beside_rounds(self) -> None:
        found = {
            "steady": [RAN, replace(RAN, seconds=6.0)],
            "rounds": [replace(RAN, seconds=14.0, confirmed=0), replace(RAN, seconds=14.0)],
        }
        time, flowing, disqualified = steady.figures(found)
        assert (time.value, time.ratio, time.target, time.is_met) == (7.0, 0.5, 1.0, True)
        assert (flowing.value, disqualified.value) == (120 / 4, 120 / 2)

    def test_nothing_is_said_of_time_where_all_were_interrupted(self) -> None:
        found = {way: [replace(RAN, seconds=None)] for way in ("steady", "rounds")}
        assert [f.name.partition(",")[0] for f in steady.figures(found)] == [
            "trials for each confirmed finding"
        ] * 2

    def test_one_round_is_no_barrier(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="multiple of --each"):
            steady.measure(steady.Options(tmp_path, Settings(ideas=19)), lambda text: None)


@pytest.mark.e2e
@pytest.mark.full
class TestReal:
    def test_an_arm_beside_the_whole_loop(self, tmp_path: Path) -> None:
        TinyCampaign.prepare(tmp_path)
        command = ["loop", "--recipe", "./tiny", "--model", "playbook", "--ideas", "5"]
        command += ["--repeats", "1", "--arm", "no-debugging", "--allow-unsandboxed", "--json"]
        done = benchmark(*command, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        rows = json.loads(done.stdout)
        assert all(list(row) == CONTRACT for row in rows)
        found = {row["name"]: row for row in rows}
        # One idea of this playbook is fixed once; without debugging it fails.
        assert found["scored, no-debugging"]["value"] == found["scored, whole"]["value"] - 1
        assert "no-debugging minus whole: scored -1" in done.stderr
        assert loop.RECORDED in done.stderr
        # The same command again runs nothing and says the same.
        trials = set((tmp_path / "executed").read_text().split())
        again = benchmark(*command, cwd=tmp_path)
        assert json.loads(again.stdout) == rows
        assert set((tmp_path / "executed").read_text().split()) == trials

    def test_repeated_campaigns_have_figures_that_follow_from_them(self, tmp_path: Path) -> None:
        TinyCampaign.prepare(tmp_path)
        loop_of = '[loop]\ndecision = "point"\nconfirm = false\ndrift_every = 0\n'
        (tmp_path / "hpcsci.toml").write_text(PLAIN + loop_of)
        command = ["loop", "--recipe", "./tiny", "--model", "playbook", "--ideas", "3"]
        command += ["--repeats", "3", "--seed", "3", "--arm", "no-debugging", "--backend", "local"]
        done = benchmark(*command, "--allow-unsandboxed", "--json", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        found = {row["name"]: row for row in json.loads(done.stdout)}

        # The same from the campaigns themselves, each of which lies in a folder of its own.
        counts = {arm: [improved(tmp_path / f"{arm}-{n}") for n in (3, 4, 5)] for arm in LOOP_ARMS}
        whole, without = counts["whole"], counts["no-debugging"]
        assert 0 < sum(without) < sum(whole), "else there was nothing to compare"
        assert {b - a for a, b in zip(whole, without, strict=True)} == {-1}
        said = "-1"  # the same in every pair: no interval can be told from that
        row = found["improvements, no-debugging"]
        assert row["unit"] == f"ideas a campaign (difference {said})"
        assert (row["value"], row["runs"]) == (pytest.approx(fmean(without)), 3)
        assert row["compared_with"] == f"the whole loop {fmean(whole):.4g}"
        assert row["spread"] == max(without) - min(without)
        (line,) = [of for of in done.stderr.splitlines() if of.startswith("no-debugging minus")]
        assert f"improvements {said}" in line
        let_in = 2 * 3  # of three ideas one is a look-alike
        for arm, improvements in counts.items():
            low, high = wilson(sum(improvements), let_in)
            unit = f"of {let_in} ideas (95%: {low:.3f} to {high:.3f})"
            assert found[f"improved, {arm}"]["unit"] == unit

    def test_steady_beside_rounds(self, tmp_path: Path) -> None:
        TinyCampaign.prepare(tmp_path)
        command = ["steady", "--recipe", "./tiny", "--ideas", "4", "--each", "2", "--json"]
        done = benchmark(*command, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        time, *costs = json.loads(done.stdout)
        assert time["value"] > 0
        assert time["ratio"] == pytest.approx(
            time["value"] / float(time["compared_with"].split()[-2]), rel=0.05
        )
        assert len(costs) == 2


def improved(folder: Path) -> int:
    """How many ideas of a campaign are improvements, by its own table."""
    return sum(row.finding is Verdict.IMPROVEMENT for row in read_rows(RunPaths(folder)).rows)


def _flat(values: dict[str, object], prefix: str = "") -> dict[str, object]:
    found: dict[str, object] = {}
    for key, value in values.items():
        if isinstance(value, dict):
            found |= _flat(value, f"{prefix}{key}.")
        else:
            found[prefix + key] = value
    return found
