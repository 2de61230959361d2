"""Seeds in stages: sequential tests and successive halving in campaigns of scripted adapters."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import bench_campaign
import pytest
from bench_campaign import CampaignBench, ScriptedProposer, ScriptedTrials, scored

from hpcscientist.feedback.effort import FUTILE, Schedule, correction
from hpcscientist.history import frozen, journal
from hpcscientist.history.journal import Journal
from hpcscientist.judgement.summary import read_rows
from hpcscientist.records.events import Event, SeedsDecided, TrialQueued
from hpcscientist.records.findings import ResultRow, Verdict
from hpcscientist.records.trial import IdeaFailed, IdeaFailure, Outcome, Stage, TrialSpec

NOISE = (0.004, -0.006, 0.005, -0.002, 0.001, -0.005, 0.006, -0.004, 0.002, -0.001)
OTHER = (-0.001, 0.002, 0.003, -0.004, 0.001, 0.002, -0.003, 0.004, -0.002, 0.001)


@dataclass(frozen=True)
class Judge:
    """Scores an idea by its effect, and each seed of it by noise that all ideas share in part."""

    effects: Mapping[str, float]

    def __call__(self, spec: TrialSpec) -> Outcome:
        seed = int(spec.trial_id.rpartition("-")[2])
        effect = self.effects.get(spec.idea_id)
        own = 0.0 if effect is None else effect + 4 * OTHER[seed]
        return scored(0.5 + NOISE[seed] + own)


def of(*effects: float) -> Judge:
    return Judge({f"idea-{number:04}": effect for number, effect in enumerate(effects, 1)})


def a_campaign(folder: Path, ideas: int, in_flight: int = 1, **loop: object) -> CampaignBench:
    bench = CampaignBench(folder, ideas)
    bench.configure(
        loop={"machine_pause_s": 0.0, "independence": False, "confirm": False, "drift_every": 0}
        | loop
    )
    bench.config = bench.config.model_copy(update={"in_flight": in_flight})
    frozen.write(bench.paths, bench.config)
    return bench


def proposer(bench: CampaignBench) -> ScriptedProposer:
    return ScriptedProposer(*(f"idea {n}" for n in range(bench.config.settings.ideas)))


def runs(bench: CampaignBench, idea_id: str) -> int:
    """How many seeds of an idea, or of the baseline, were scored."""
    return len(bench.state.scores(idea_id, 1, "accuracy"))


def decided(bench: CampaignBench) -> list[SeedsDecided]:
    return [e for e in journal.read(bench.paths.journal) if isinstance(e, SeedsDecided)]


def rows(bench: CampaignBench) -> Sequence[ResultRow]:
    return read_rows(bench.paths).rows


async def test_fixed_gives_every_idea_the_recipes_seeds_and_decides_nothing(
    tmp_path: Path,
) -> None:
    bench = a_campaign(tmp_path, 2)
    await bench.drive(of(0.05, -0.05), proposer(bench))
    assert [runs(bench, f"idea-000{n}") for n in (1, 2)] == [bench.seeds, bench.seeds]
    assert runs(bench, "baseline") == bench.seeds
    assert decided(bench) == []


class TestSequential:
    async def test_seeds_go_to_what_may_still_improve(self, tmp_path: Path) -> None:
        bench = a_campaign(tmp_path, 3, allocation="sequential")
        await bench.drive(of(-0.05, 0.012, -0.001), proposer(bench))
        assert runs(bench, "baseline") == 2 * bench.seeds
        assert [runs(bench, f"idea-000{n}") for n in (1, 2, 3)] == [3, 10, 5]
        bad, good, null = rows(bench)[1:]
        assert [row.n for row in (bad, good, null)] == [3, 10, 5]
        assert good.finding is Verdict.IMPROVEMENT
        assert good.reason is None
        assert bad.status == "scored"
        assert bad.reason is not None
        assert re.search(rf"\b3 of .*\b10 seeds .* {FUTILE:g} ", bad.reason)
        assert null.finding is not Verdict.IMPROVEMENT

    async def test_what_is_decided_stops_early_and_lacks_nothing(self, tmp_path: Path) -> None:
        bench = a_campaign(tmp_path, 1, allocation="sequential")
        await bench.drive(of(5.0), proposer(bench))
        assert runs(bench, "idea-0001") == 3
        (row,) = rows(bench)[1:]
        assert row.finding is Verdict.IMPROVEMENT
        assert row.reason is None
        assert [(e.more, e.given_up) for e in decided(bench)] == [(0, False)]

    async def test_the_bound_is_the_settings(self, tmp_path: Path) -> None:
        bench = a_campaign(tmp_path, 1, allocation="sequential", seeds_at_most=7)
        await bench.drive(of(0.02), proposer(bench))
        assert runs(bench, "baseline") == runs(bench, "idea-0001") == 7

    async def test_the_p_value_is_corrected_for_the_looks(self, tmp_path: Path) -> None:
        corrected, plain = (
            a_campaign(tmp_path / "corrected", 1, allocation="sequential"),
            a_campaign(tmp_path / "plain", 1, allocation="halving", seeds_at_most=10, halving=100),
        )
        for bench in (corrected, plain):
            await bench.drive(of(0.02), proposer(bench))
        assert [runs(bench, "idea-0001") for bench in (corrected, plain)] == [10, 10]
        factor = correction(10, Schedule.of(5))
        with_looks, without = rows(corrected)[1].p_adjusted, rows(plain)[1].p_adjusted
        assert with_looks is not None
        assert without is not None
        assert with_looks == pytest.approx(without * factor)

    async def test_a_seed_that_fails_fails_the_idea_as_ever(self, tmp_path: Path) -> None:
        bench = a_campaign(tmp_path, 1, allocation="sequential", debug_rounds=0)
        judge = of(0.02)

        def crashes(spec: TrialSpec) -> Outcome:
            if spec.trial_id == "idea-0001-a1-search-4":
                return IdeaFailed(failure=IdeaFailure.ERROR, detail="ValueError: x")
            return judge(spec)

        await bench.drive(crashes, proposer(bench))
        assert bench.ended()["idea-0001"][0] == "failed"
        assert [event.seeds for event in decided(bench)] == [3]


class TestHalving:
    async def test_the_best_go_on(self, tmp_path: Path) -> None:
        effects = (0.0, 0.01, 0.02, -0.01, 0.03, 0.0)
        bench = a_campaign(tmp_path, 6, allocation="halving", halving=3)
        await bench.drive(of(*effects), proposer(bench))
        assert runs(bench, "baseline") == bench.seeds
        # Two come first; of three the third is best, of four none but that, of five the fifth.
        assert [runs(bench, f"idea-000{n}") for n in range(1, 7)] == [5, 5, 5, 1, 5, 1]
        left = rows(bench)[4]
        assert (left.status, left.finding, left.p_adjusted, left.n) == ("scored", None, None, 1)
        assert (
            left.reason
            == "rank 4 of 4 after 1 seed, and 1 in 3 goes on; too few seeds for a p-value"
        )

    async def test_up_to_the_seeds_of_the_settings(self, tmp_path: Path) -> None:
        bench = a_campaign(tmp_path, 1, allocation="halving", seeds_at_most=9)
        await bench.drive(of(0.0), proposer(bench))
        assert runs(bench, "baseline") == runs(bench, "idea-0001") == 9
        assert [event.seeds for event in decided(bench)] == [1, 3]

    async def test_an_idea_is_ranked_by_its_latest_attempt_alone(self, tmp_path: Path) -> None:
        bench = a_campaign(tmp_path, 3, allocation="halving", debug_rounds=1)
        judge = of(0.02, 0.01, 0.015)

        def crashes(spec: TrialSpec) -> Outcome:
            if spec.trial_id == "idea-0001-a1-search-1":
                return IdeaFailed(failure=IdeaFailure.ERROR, detail="ValueError: x")
            return judge(spec)

        fixes = bench_campaign.ScriptedAuthor(bench.recipe, fixes=1)
        await bench.drive(crashes, proposer(bench), fixes)
        ranks = {(e.idea_id, e.attempt): e.reason for e in decided(bench) if e.seeds == 1}
        assert ranks["idea-0001", 1] == "rank 1 of 1 after 1 seed"
        assert ranks["idea-0001", 2] == "rank 1 of 1 after 1 seed"
        assert ranks["idea-0003", 1].startswith("rank 2 of 3 after 1 seed")


@pytest.mark.parametrize("allocation", ["sequential", "halving"])
async def test_a_decision_is_in_the_journal_before_anything_is_done(
    allocation: str, tmp_path: Path
) -> None:
    bench = a_campaign(tmp_path, 3, in_flight=2, allocation=allocation)
    await bench.drive(of(0.02, 0.01, -0.05), proposer(bench))
    given: dict[str, int] = {}
    first = 3 if allocation == "sequential" else 1
    for event in journal.read(bench.paths.journal):
        if isinstance(event, SeedsDecided):
            given[event.idea_id] = event.seeds + event.more
        if isinstance(event, TrialQueued) and event.stage is Stage.SEEDS:
            assert int(event.trial_id.rpartition("-")[2]) < given.get(event.idea_id, first)
    assert given


class Killed(Exception):
    """The driver was killed."""


def dies_after(events: int) -> type[Journal]:
    class Dying(Journal):
        def record(self, event: Event) -> bool:
            if len(self._keys) >= events and event.key not in self._keys:
                raise Killed
            return super().record(event)

    return Dying


@pytest.mark.parametrize("allocation", ["sequential", "halving"])
async def test_killed_at_any_event_a_campaign_runs_the_same_trials(
    allocation: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    effects = of(0.001, 0.012, -0.05)
    whole = a_campaign(tmp_path / "whole", 3, allocation=allocation)
    await whole.drive(effects, proposer(whole))
    events = journal.read(whole.paths.journal)
    at = [n for n, event in enumerate(events) if isinstance(event, SeedsDecided)]
    for count in sorted({*at, *(n + 1 for n in at)}):  # just before a decision, and just after
        bench = a_campaign(tmp_path / f"{count}", 3, allocation=allocation)
        with monkeypatch.context() as patched:
            patched.setattr(bench_campaign, "Journal", dies_after(count))
            with pytest.raises(Killed):
                await bench.drive(effects, proposer(bench))
        await bench.drive(effects, proposer(bench))
        assert decided(bench) == decided(whole)
        assert set(bench.state.trials) == set(whole.state.trials)
        assert bench.ended() == whole.ended()


async def test_what_was_decided_is_not_decided_anew(tmp_path: Path) -> None:
    """Between a decision and its trials the driver is killed; by now it would decide otherwise."""
    bench = a_campaign(tmp_path, 1, allocation="sequential", debug_rounds=0)
    judge = of(0.02)

    def dies(spec: TrialSpec) -> Outcome:
        if spec.trial_id == "idea-0001-a1-search-3":
            raise Killed
        return judge(spec)

    with pytest.raises(Killed):
        await bench.drive(dies, proposer(bench))
    assert [(event.seeds, event.more) for event in decided(bench)] == [(3, 2)]
    loop = bench.config.settings.loop.model_copy(update={"q": 1e-9})
    settings = bench.config.settings.model_copy(update={"loop": loop})
    bench.config = bench.config.model_copy(update={"settings": settings})
    backend: ScriptedTrials = await bench.drive(judge, proposer(bench))
    assert backend.ran[0][0] == "idea-0001-a1-search-3"
    assert [(e.seeds, e.more, e.given_up) for e in decided(bench)] == [
        (3, 2, False),
        (5, 0, True),
    ]
    assert runs(bench, "idea-0001") == 5
