"""Budgets that grow by successive halving, in campaigns of scripted adapters."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from pathlib import Path

import bench_campaign
import pytest
from bench_campaign import CampaignBench, ScriptedProposer, ScriptedTrials, scored
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hpcscientist.errors import BaselineFailed, UsageError
from hpcscientist.history import frozen, journal
from hpcscientist.history.journal import Journal
from hpcscientist.history.status import read_state
from hpcscientist.judgement.summary import read_rows
from hpcscientist.recipe.load import load
from hpcscientist.records.events import BudgetDecided, Event, SeedsDecided
from hpcscientist.records.findings import Verdict
from hpcscientist.records.trial import (
    IdeaFailed,
    IdeaFailure,
    MachineFailed,
    MachineFailure,
    Outcome,
    TrialSpec,
)
from hpcscientist.reproduction.claim_integrity import read_recorded

NOISE = (0.004, -0.006, 0.005, -0.002, 0.001)
STEPS = """\
[[budgets.steps]]
name = "third"
seconds = 7
[[budgets.steps]]
name = "half"
seconds = 10
"""
STEP_NAMES = ("third", "half")


class Judge:
    """Scores an idea by its effect, the same at every budget but for the noise of a seed."""

    def __init__(self, *effects: float) -> None:
        self.effects = {f"idea-{number:04}": effect for number, effect in enumerate(effects, 1)}
        self.specs: dict[str, TrialSpec] = {}

    def __call__(self, spec: TrialSpec) -> Outcome | None:
        self.specs[spec.trial_id] = spec
        at_full = spec.stage.value in ("seeds", "baseline")
        noise = NOISE[int(spec.trial_id.rpartition("-")[2]) % 5] if at_full else 0.0
        own = self.effects.get(spec.idea_id, 0.0)
        return scored(0.5 + noise + own * (1 + noise))


def a_campaign(
    folder: Path, ideas: int, in_flight: int = 1, *, steps: str = STEPS, **loop: object
) -> CampaignBench:
    bench = CampaignBench(folder, ideas)
    path = bench.recipe.folder / "recipe.toml"
    path.write_text(path.read_text().replace("[budgets.full]", f"{steps}[budgets.full]"))
    bench.recipe = load(bench.recipe.folder)
    bench.configure(
        loop={"machine_pause_s": 0.0, "independence": False, "confirm": False, "drift_every": 0}
        | {"allocation": "halving", "halving": 2.0, "debug_rounds": 0, "error_control": "batch"}
        | loop
    )
    changed = {"in_flight": in_flight, "recipe_hash": bench.recipe.recipe_hash}
    bench.config = bench.config.model_copy(update=changed)
    frozen.write(bench.paths, bench.config)
    return bench


def proposer(bench: CampaignBench) -> ScriptedProposer:
    return ScriptedProposer(*(f"idea {n}" for n in range(bench.config.settings.ideas)))


def climbed(bench: CampaignBench) -> list[BudgetDecided]:
    return [e for e in journal.read(bench.paths.journal) if isinstance(e, BudgetDecided)]


def decided(bench: CampaignBench) -> list[BudgetDecided | SeedsDecided]:
    kinds = (BudgetDecided, SeedsDecided)
    return [e for e in journal.read(bench.paths.journal) if isinstance(e, kinds)]


def stages(bench: CampaignBench, idea_id: str) -> Counter[str]:
    return Counter(t.stage.value for t in bench.state.trials.values() if t.idea_id == idea_id)


async def test_only_the_best_share_climbs(tmp_path: Path) -> None:
    bench, judge = a_campaign(tmp_path, 5), Judge(0.02, 0.01, 0.03, 0.0, 0.04)
    await bench.drive(judge, proposer(bench))
    # One idea comes first; of two the first is best, of three (one goes on) the third, ...
    assert [(e.idea_id, e.budget, e.goes_on) for e in climbed(bench)] == [
        ("idea-0001", "third", True),
        ("idea-0001", "half", True),
        ("idea-0002", "third", False),
        ("idea-0003", "third", True),
        ("idea-0003", "half", True),
        ("idea-0004", "third", False),
        ("idea-0005", "third", True),
        ("idea-0005", "half", True),
    ]
    assert stages(bench, "idea-0002") == {"pilot": 1, "step": 1}
    assert stages(bench, "idea-0003") == {"pilot": 1, "step": 2, "seeds": 5}
    assert stages(bench, "baseline") == {"pilot": 1, "baseline": 5, "step": 2}


async def test_a_trial_of_a_step_has_its_limits_and_the_pilots_seed(tmp_path: Path) -> None:
    bench, judge = a_campaign(tmp_path, 1), Judge(0.02)
    await bench.drive(judge, proposer(bench))
    told = {
        name.removeprefix("idea-0001-a1-"): (spec.budget, spec.limits.deadline_s)
        for name, spec in judge.specs.items()
        if name.startswith("idea-0001") and not name.endswith(("-1", "-2", "-3", "-4"))
    }
    assert told == {"pilot-0": ("pilot", 5), "step-0": ("third", 7), "search-0": ("full", 20)}
    upper = judge.specs["idea-0001-a1-step-1"]
    assert (upper.budget, upper.limits.deadline_s) == ("half", 10)
    assert upper.seed == judge.specs["idea-0001-a1-pilot-0"].seed
    assert judge.specs["baseline-a1-step-1"].seed == upper.seed
    on_disk = json.loads(bench.paths.trial("idea-0001-a1-step-1").spec.read_text())
    assert (on_disk["budget"], on_disk["stage"]) == ("half", "step")


async def test_what_is_left_is_undecided_and_never_scored_by_its_step(tmp_path: Path) -> None:
    bench = a_campaign(tmp_path, 2)
    await bench.drive(Judge(0.02, 0.01), proposer(bench))
    left = read_rows(bench.paths).rows[2]
    assert (left.status, left.finding, left.undecided) == ("scored", None, True)
    assert left.reason == "rank 2 of 2 at budget third, and 1 in 2 goes on"
    assert (left.mean, left.n, left.delta, left.p_adjusted) == (None, None, None, None)
    assert left.cpu_hours == pytest.approx(2 / 3600)  # its pilot and its step
    notes = bench.paths.idea("idea-0002").notes.read_text()
    assert "### Budget third" in notes
    assert "### Full run" not in notes
    assert re.search(r"undecided .*, attempt 1\.", notes)
    assert "### Full run" in bench.paths.idea("idea-0001").notes.read_text()
    with pytest.raises(UsageError, match=f"idea-0002: .*: {left.reason}"):
        read_recorded(bench.paths, "idea-0002")


async def test_what_is_left_counts_among_the_others(tmp_path: Path) -> None:
    """The best of many, chosen by a step, pays for those that it was chosen from."""
    bench, alone = a_campaign(tmp_path / "many", 4), a_campaign(tmp_path / "one", 1)
    await bench.drive(Judge(0.02, 0.01, 0.01, 0.01), proposer(bench))
    await alone.drive(Judge(0.02), proposer(alone))
    among, single = (read_rows(b.paths).rows[1] for b in (bench, alone))
    assert [row.n for row in read_rows(bench.paths).rows[1:]] == [5, None, None, None]
    assert single.p_adjusted is not None
    assert among.p_adjusted == pytest.approx(4 * single.p_adjusted)


async def test_other_allocations_leave_the_steps_out(tmp_path: Path) -> None:
    for allocation in ("fixed", "sequential"):
        bench = a_campaign(tmp_path / allocation, 2, allocation=allocation)
        await bench.drive(Judge(0.02, 0.01), proposer(bench))
        assert climbed(bench) == []
        assert not any(t.stage == "step" for t in bench.state.trials.values())


async def test_without_steps_halving_is_as_it_was(tmp_path: Path) -> None:
    bench = a_campaign(tmp_path, 2, steps="")
    await bench.drive(Judge(0.02, 0.01), proposer(bench))
    assert climbed(bench) == []
    assert [stages(bench, f"idea-000{n}")["seeds"] for n in (1, 2)] == [5, 1]


async def test_one_that_breaks_on_a_step_is_fixed_and_ranked_by_its_latest_version(
    tmp_path: Path,
) -> None:
    bench, judge = a_campaign(tmp_path, 2, debug_rounds=1), Judge(0.02, 0.03)

    def breaks(spec: TrialSpec) -> Outcome | None:
        if spec.trial_id == "idea-0001-a1-step-1":
            return IdeaFailed(failure=IdeaFailure.ERROR, detail="ValueError: x")
        return judge(spec)

    fixes = bench_campaign.ScriptedAuthor(bench.recipe, fixes=1)
    await bench.drive(breaks, proposer(bench), fixes)
    told = [(e.idea_id, e.attempt, e.budget, e.reason) for e in climbed(bench)][:4]
    assert told == [
        ("idea-0001", 1, "third", "rank 1 of 1 at budget third"),
        ("idea-0001", 2, "third", "rank 1 of 1 at budget third"),
        ("idea-0001", 2, "half", "rank 1 of 1 at budget half"),
        ("idea-0002", 1, "third", "rank 1 of 2 at budget third"),
    ]
    assert [task.outcome.detail for task in fixes.tasks] == ["ValueError: x"]


async def test_a_machine_that_fails_a_step_is_no_evidence(tmp_path: Path) -> None:
    bench, judge = a_campaign(tmp_path, 1, machine_retries=1), Judge(0.02)
    failed: list[str] = []

    def fails_once(spec: TrialSpec) -> Outcome | None:
        if spec.trial_id == "idea-0001-a1-step-0" and not failed:
            failed.append(spec.trial_id)
            return MachineFailed(failure=MachineFailure.NODE, detail="gone")
        return judge(spec)

    await bench.drive(fails_once, proposer(bench))
    assert failed
    assert bench.ended() == {"idea-0001": ("scored", None)}


async def test_a_reference_that_knows_no_such_step_ends_the_campaign_at_once(
    tmp_path: Path,
) -> None:
    bench, judge = a_campaign(tmp_path, 1), Judge(0.02)

    def refuses(spec: TrialSpec) -> Outcome | None:
        if spec.budget in STEP_NAMES:
            return IdeaFailed(failure=IdeaFailure.ERROR, detail="invalid choice: 'third'")
        return judge(spec)

    with pytest.raises(BaselineFailed, match="invalid choice"):
        await bench.drive(refuses, proposer(bench))


async def test_ideas_in_flight_together_are_ranked_as_they_come(tmp_path: Path) -> None:
    bench = a_campaign(tmp_path, 6, in_flight=3)
    await bench.drive(Judge(0.01, 0.05, 0.03, 0.02, 0.04, 0.06), proposer(bench))
    for step in STEP_NAMES:
        came = [e for e in climbed(bench) if e.budget == step]
        for number, event in enumerate(came, 1):
            better = sum(other.value >= event.value for other in came[: number - 1])
            assert event.goes_on is (number < 2 or better < number // 2)


class Killed(Exception):
    """The driver was killed."""


def dies_after(events: int) -> type[Journal]:
    class Dying(Journal):
        def record(self, event: Event) -> bool:
            if len(self._keys) >= events and event.key not in self._keys:
                raise Killed
            return super().record(event)

    return Dying


async def test_killed_at_any_decision_a_campaign_decides_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge = Judge(0.02, 0.01, 0.03, 0.0)
    whole = a_campaign(tmp_path / "whole", 4)
    await whole.drive(judge, proposer(whole))
    events = journal.read(whole.paths.journal)
    at = [n for n, event in enumerate(events) if isinstance(event, BudgetDecided)]
    for count in sorted({*at, *(n + 1 for n in at)}):  # just before a decision, and just after
        bench = a_campaign(tmp_path / f"{count}", 4)
        with monkeypatch.context() as patched:
            patched.setattr(bench_campaign, "Journal", dies_after(count))
            with pytest.raises(Killed):
                await bench.drive(judge, proposer(bench))
        before = set(bench.state.trials)
        again: ScriptedTrials = await bench.drive(judge, proposer(bench))
        assert decided(bench) == decided(whole)
        assert set(bench.state.trials) == set(whole.state.trials)
        assert bench.ended() == whole.ended()
        assert len({name for name, _ in again.ran} & before) <= 1  # the one that was under way


async def test_what_was_decided_is_not_decided_anew(tmp_path: Path) -> None:
    """Between a decision and its trials the driver is killed; by now it would decide otherwise."""
    bench, judge = a_campaign(tmp_path, 2), Judge(0.01, 0.02)

    def dies(spec: TrialSpec) -> Outcome | None:
        if spec.trial_id == "idea-0002-a1-step-1":
            raise Killed
        return judge(spec)

    with pytest.raises(Killed):
        await bench.drive(dies, proposer(bench))
    assert [e.goes_on for e in climbed(bench)] == [True, True, True]
    bench.configure(loop=bench.config.settings.loop.model_dump() | {"halving": 100.0})
    before = climbed(bench)
    await bench.drive(judge, proposer(bench))
    assert climbed(bench)[:3] == before
    assert stages(bench, "idea-0002")["step"] == 2


@given(
    effects=st.lists(st.floats(-0.1, 0.1).map(lambda x: round(x, 3)), min_size=1, max_size=7),
    in_flight=st.integers(1, 4),
    rate=st.sampled_from([1.5, 2.0, 3.0]),
)
@settings(
    max_examples=8,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_whatever_ideas_do_the_full_budget_is_reached_by_steps_alone(
    tmp_path_factory: pytest.TempPathFactory, effects: list[float], in_flight: int, rate: float
) -> None:
    folder = tmp_path_factory.mktemp("climb")
    bench = a_campaign(folder, len(effects), in_flight, halving=rate)
    asyncio.run(bench.drive(Judge(*effects), proposer(bench)))
    state, rows = read_state(bench.paths), read_rows(bench.paths).rows
    assert all(idea.ended is not None for idea in state.ideas.values())
    by_id = {row.idea_id: row for row in rows}
    for idea_id, idea in state.ideas.items():
        went = [idea.climbed.get((1, step)) for step in STEP_NAMES]
        reached = all(event is not None and event.goes_on for event in went)
        assert bool(stages(bench, idea_id)["seeds"]) is reached
        assert (idea.left is None) is reached
        assert (by_id[idea_id].n is not None) is reached
        assert reached or by_id[idea_id].finding is not Verdict.IMPROVEMENT
        if went[0] is None or not went[0].goes_on:
            assert went[1] is None
    for low, high in zip((*STEP_NAMES,), (*STEP_NAMES[1:], None), strict=True):
        come = [e for e in climbed(bench) if e.budget == low]
        on = [e for e in come if e.goes_on]
        assert on[0] == come[0]
        if high is not None:
            assert {e.idea_id for e in climbed(bench) if e.budget == high} == {
                e.idea_id for e in on
            }
