"""The baseline's self-check and its reruns in whole campaigns of scripted trials."""

from __future__ import annotations

import asyncio
import re
import tomllib
import zlib
from collections.abc import Sequence
from pathlib import Path

import bench_campaign
import pytest
import tomli_w
from bench_campaign import CampaignBench, ScriptedProposer, ScriptedTrials, scored
from event_kit import rewrite

from hpcscientist.campaign.waiting import OnEnd, OnStart
from hpcscientist.config.extent import Extent
from hpcscientist.config.settings import LoopSettings, Settings
from hpcscientist.errors import BaselineNoisy
from hpcscientist.history import frozen, journal
from hpcscientist.judgement.baseline_drift import rerun_with, reruns_at_most
from hpcscientist.judgement.summary import read_rows
from hpcscientist.records.idea import BASELINE_ID
from hpcscientist.records.trial import IdeaFailed, IdeaFailure, Outcome, Stage, TrialSpec

SUMMARIES = tuple(
    f"{a} {b}"
    for a in ("alpha beta", "gamma delta", "epsilon zeta", "eta theta")
    for b in ("one two three four", "five six seven eight", "nine ten eleven twelve")
)


def noise(spec: TrialSpec) -> float:
    return zlib.crc32(f"{spec.idea_id} {spec.seed}".encode()) % 97 / 1e4


def plain(spec: TrialSpec) -> Outcome:
    return scored(0.5 + noise(spec))


def proposer() -> ScriptedProposer:
    return ScriptedProposer(*SUMMARIES)


def reruns(bench: CampaignBench) -> set[str]:
    return {
        trial.trial_id
        for trial in bench.state.trials.values()
        if trial.idea_id == BASELINE_ID and trial.attempt > 1
    }


def with_minimum(bench: CampaignBench, effect: float) -> None:
    """Have the recipe name a minimum effect."""
    spec = bench.recipe.spec
    metric = spec.primary.model_copy(update={"minimum_effect": effect})
    changed = spec.model_copy(update={"metrics": (metric, *spec.metrics[1:])})
    object.__setattr__(bench.recipe, "spec", changed)


async def test_seeds_of_ideas_wait_for_the_check_and_pilots_do_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = CampaignBench(tmp_path, ideas=2)
    piloted: asyncio.Queue[str] = asyncio.Queue()

    class SlowBaseline(ScriptedTrials):
        async def run(self, trials: Sequence[TrialSpec], on_start: OnStart, on_end: OnEnd) -> None:
            if trials[0].trial_id == "baseline-a1-baseline-0":
                assert {await piloted.get(), await piloted.get()} == {"idea-0001", "idea-0002"}
            await super().run(trials, on_start, on_end)
            if trials[0].stage is Stage.PILOT and trials[0].idea_id != BASELINE_ID:
                piloted.put_nowait(trials[0].idea_id)

    monkeypatch.setattr(bench_campaign, "ScriptedTrials", SlowBaseline)
    backend = await bench.drive(plain, proposer())
    order = [trial for trial, _ in backend.ran]
    first = min(order.index(trial) for trial in order if "-search-" in trial)
    assert order.index("baseline-a1-baseline-0") < first
    assert order.index("idea-0002-a1-pilot-0") < order.index("baseline-a1-baseline-0")
    assert bench.ended().keys() == {"idea-0001", "idea-0002"}
    (note,) = bench.state.notes
    assert note.startswith("baseline: accuracy 0.5")
    assert "5 seeds find" in note
    assert note in read_rows(bench.paths).notes


async def test_a_noisy_baseline_is_told_before_anything_is_spent(tmp_path: Path) -> None:
    bench = CampaignBench(tmp_path, ideas=1)
    with_minimum(bench, 0.0005)
    await bench.drive(plain, proposer())
    assert bench.ended() == {"idea-0001": ("scored", None)}
    assert any(re.match("the baseline .*noisy: 5 seeds", note) for note in bench.state.notes)


async def test_a_noisy_baseline_can_end_the_campaign(tmp_path: Path) -> None:
    bench = CampaignBench(tmp_path, ideas=3)
    with_minimum(bench, 0.0005)
    bench.configure(loop={"noisy": "stop", "machine_pause_s": 0.0})
    for _ in range(2):  # a driver that resumes comes to the same
        with pytest.raises(BaselineNoisy, match=r"seeds, .*minimum_effect, .*loop\.noisy"):
            await bench.drive(plain, proposer())
        assert {t.idea_id for t in bench.state.trials.values()} == {BASELINE_ID}
        assert not bench.state.ideas  # nothing was asked for either
    assert any("is noisy" in note for note in bench.state.notes)


async def test_a_steady_baseline_holds_nothing_up(tmp_path: Path) -> None:
    bench = CampaignBench(tmp_path, ideas=3)
    bench.configure(loop={"noisy": "stop"})
    await bench.drive(plain, proposer())
    assert [outcome for outcome, _ in bench.ended().values()] == ["scored"] * 3


async def test_reruns_follow_from_the_numbers_of_ideas(tmp_path: Path) -> None:
    bench = CampaignBench(tmp_path, ideas=7, drift_every=3)
    backend = await bench.drive(plain, proposer())
    assert reruns(bench) == {"baseline-a2-baseline-0", "baseline-a3-baseline-0"}
    first = bench.state.trials["baseline-a1-baseline-0"]
    again = [bench.state.trials[trial] for trial in sorted(reruns(bench))]
    assert [(t.stage, t.seed) for t in again] == [(Stage.BASELINE, first.seed)] * 2
    assert sum("baseline-a2" in trial for trial, _ in backend.ran) == 1
    assert len(bench.state.notes) == 1  # all is as it was
    row = read_rows(bench.paths).rows[0]
    assert (row.n, row.attempts) == (bench.seeds, 1)
    assert row.mean == pytest.approx(
        sum(bench.state.scores(BASELINE_ID, 1, "accuracy").values()) / bench.seeds
    )


@pytest.mark.parametrize("in_flight", [1, 2, 7])
async def test_reruns_do_not_depend_on_timing(tmp_path: Path, in_flight: int) -> None:
    bench = CampaignBench(tmp_path, ideas=9, drift_every=3)
    bench.config = bench.config.model_copy(update={"in_flight": in_flight})

    def judge(spec: TrialSpec) -> Outcome:
        late = spec.idea_id in ("idea-0006", "idea-0007", "idea-0008")
        failed = IdeaFailed(failure=IdeaFailure.ERROR, detail="ValueError: x")
        return failed if late else plain(spec)

    await bench.drive(judge, proposer())
    # Of ideas 6 to 8 none ran its seeds, so nothing was run again with them.
    assert reruns(bench) == {"baseline-a2-baseline-0", "baseline-a4-baseline-0"}


async def test_small_campaigns_rerun_nothing(tmp_path: Path) -> None:
    bench = CampaignBench(tmp_path, ideas=9)
    await bench.drive(plain, proposer())
    assert reruns(bench) == set()


async def test_drift_is_noted_and_results_list_the_runs(tmp_path: Path) -> None:
    bench = CampaignBench(tmp_path, ideas=4, drift_every=2)

    def judge(spec: TrialSpec) -> Outcome:
        again = spec.idea_id == BASELINE_ID and spec.attempt == 3
        return scored(0.2) if again else plain(spec)

    await bench.drive(judge, proposer())
    notes = "\n".join(bench.state.notes)
    assert re.search("same seed .*baseline .*not .*same: accuracy 0.5.*accuracy 0.2", notes)
    assert "drifted: accuracy 0.2" in notes
    summary = read_rows(bench.paths)
    assert re.match(r".*first seed, .*: accuracy 0\.5", summary.notes[-1])
    assert summary.rows[0].mean == pytest.approx(0.5, abs=0.02)  # judged by the first runs alone


def lower_from_the_second_rerun_on(spec: TrialSpec) -> Outcome:
    again = spec.idea_id == BASELINE_ID and spec.attempt >= 2 and spec.stage is Stage.BASELINE
    return scored(0.2) if again else plain(spec)


async def test_a_drift_that_lasts_can_end_the_campaign(tmp_path: Path) -> None:
    bench = CampaignBench(tmp_path, ideas=8)
    bench.configure(loop={"noisy": "stop", "drift_every": 1})
    bench.config = bench.config.model_copy(update={"in_flight": 1})
    for _ in range(2):  # a driver that resumes does not go on either
        with pytest.raises(BaselineNoisy, match=r"drifted: 2 reruns .*loop\.noisy"):
            await bench.drive(lower_from_the_second_rerun_on, proposer())
    assert len(bench.ended()) < 8


async def test_one_rerun_that_is_off_ends_nothing(tmp_path: Path) -> None:
    bench = CampaignBench(tmp_path, ideas=3)
    bench.configure(loop={"noisy": "stop", "drift_every": 2})
    await bench.drive(lower_from_the_second_rerun_on, proposer())
    assert len(bench.ended()) == 3
    assert any("has drifted" in note for note in bench.state.notes)


@pytest.mark.parametrize(("ideas", "rounds"), [(40, 8), (40, 2), (7, 2), (2, 5), (9, 1)])
def test_each_round_has_a_run_of_the_baseline_whichever_of_its_ideas_come_so_far(
    ideas: int, rounds: int
) -> None:
    settings = Settings(ideas=ideas, rounds=rounds)
    sizes = [numbers for _, numbers in Extent(ideas, rounds, 1, 1, "m", seed=0).chunks()]
    seen = -1
    for numbers in sizes:
        reruns = [rerun_with(settings, number) for number in numbers]
        assert reruns[0] == seen + 1, "the first of a round that comes so far asks for its own"
        assert all(reruns.count(rerun) <= 10 for rerun in reruns)
        seen = reruns[-1]
    assert reruns_at_most(settings) == seen == sum(-(-len(each) // 10) for each in sizes) - 1
    never = settings.model_copy(update={"loop": LoopSettings(drift_every=0)})
    assert rerun_with(never, ideas) == reruns_at_most(never) == 0


async def test_a_round_s_run_of_the_baseline_comes_though_its_last_idea_fails(
    tmp_path: Path,
) -> None:
    bench = CampaignBench(tmp_path, ideas=6)
    settings = bench.config.settings.model_copy(update={"rounds": 3})
    bench.config = bench.config.model_copy(update={"settings": settings})

    def judge(spec: TrialSpec) -> Outcome:
        last = spec.idea_id in ("idea-0002", "idea-0004", "idea-0006")
        failed = IdeaFailed(failure=IdeaFailure.ERROR, detail="ValueError: x")
        return failed if last else plain(spec)

    await bench.drive(judge, proposer())
    assert reruns(bench) == {"baseline-a2-baseline-0", "baseline-a3-baseline-0"}


async def test_a_rerun_that_the_machine_fails_is_no_evidence(tmp_path: Path) -> None:
    bench = CampaignBench(tmp_path, ideas=4, drift_every=2, machine_retries=1)

    def judge(spec: TrialSpec) -> Outcome | None:
        return None if spec.idea_id == BASELINE_ID and spec.attempt == 2 else plain(spec)

    await bench.drive(judge, proposer())
    assert {status for status, _ in bench.ended().values()} == {"scored"}
    assert len(bench.state.notes) == 1
    assert read_rows(bench.paths).notes == tuple(bench.state.notes)


async def test_a_reference_that_fails_when_run_again_ends_nothing(tmp_path: Path) -> None:
    bench = CampaignBench(tmp_path, ideas=2, drift_every=2)
    late = IdeaFailed(failure=IdeaFailure.TIMEOUT, detail="ran past 20 s")

    def judge(spec: TrialSpec) -> Outcome:
        return late if spec.idea_id == BASELINE_ID and spec.attempt == 2 else plain(spec)

    await bench.drive(judge, proposer())
    assert bench.ended()["idea-0002"] == ("scored", None)
    assert any("timeout: ran past 20 s" in note for note in bench.state.notes)


async def test_a_rerun_that_was_cut_off_is_run_on_resume(tmp_path: Path) -> None:
    bench = CampaignBench(tmp_path, ideas=3, drift_every=2)
    await bench.drive(plain, proposer())
    notes = bench.state.notes
    keys = [event.key for event in journal.read(bench.paths.journal)]
    cut = rewrite(
        bench.paths.journal,
        lambda line: "baseline-a2" not in (key := keys[line["n"] - 1]) or "trial_queued" in key,
    )
    assert len(cut) == len(keys) - 2
    bench.paths.trial("baseline-a2-baseline-0").result.unlink()
    backend = await bench.drive(plain, proposer())
    assert backend.ran == [("baseline-a2-baseline-0", 1)]
    assert bench.state.notes == notes


async def test_reruns_are_compacted_and_nothing_is_run_again(tmp_path: Path) -> None:
    loose = CampaignBench(tmp_path / "loose", ideas=6, drift_every=2)
    packed = CampaignBench(tmp_path / "packed", ideas=6, drift_every=2, compact_after=1)
    for bench in (loose, packed):
        await bench.drive(plain, proposer())
    packed_wired = {path.name for path in packed.paths.trials.iterdir()}
    assert "baseline-a2-baseline-0" not in packed_wired
    assert "baseline-a1-baseline-0" in packed_wired
    assert read_rows(packed.paths) == read_rows(loose.paths)
    assert (await packed.drive(plain, proposer())).ran == []


async def test_campaigns_from_before_rerun_nothing(tmp_path: Path) -> None:
    bench = CampaignBench(tmp_path, ideas=2)
    data = tomllib.loads(bench.paths.campaign.read_text())
    del data["settings"]["loop"]["drift_every"]
    bench.paths.campaign.write_text(tomli_w.dumps(data))
    assert frozen.read(bench.paths).settings.loop.drift_every == 0
