"""What is read of a scored idea beside its values, and how it reaches the next proposal."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import bench_campaign
import pytest
from bench_campaign import CampaignBench, ScriptedProposer, ScriptedTrials, scored

from hpcscientist.campaign.waiting import OnEnd, OnStart
from hpcscientist.feedback.causes import NOTHING
from hpcscientist.files.rundir import RunPaths
from hpcscientist.judgement.evidence import Evidences, reading
from hpcscientist.records.idea import BASELINE_ID
from hpcscientist.records.trial import Budget, Outcome, TrialSpec

ROWS = 100
FALLING = [0.9**n for n in range(12)]
SETTLED = [1.0, 0.5, *[0.3] * 10]


def predictions(changed: int) -> str:
    labels = ["1" if row < changed else "0" for row in range(ROWS)]
    return "id,label\n" + "".join(f"{row},{label}\n" for row, label in enumerate(labels))


def curve(losses: Sequence[float]) -> str:
    return "".join(json.dumps({"epoch": n, "train_loss": x}) + "\n" for n, x in enumerate(losses))


def judge(spec: TrialSpec) -> Outcome:
    """The idea is better in its pilot and worse at the full budget."""
    if spec.idea_id == BASELINE_ID:
        return scored(0.5 + spec.seed % 7 / 1000)
    early = spec.budget is Budget.PILOT
    return scored((0.6 if early else 0.3) + spec.seed % 5 / 1000)


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CampaignBench:
    """A campaign whose trials leave predictions and learning curves."""

    class Leaving(ScriptedTrials):
        async def run(self, trials: Sequence[TrialSpec], on_start: OnStart, on_end: OnEnd) -> None:
            for spec in trials:
                out = self._paths.trial(spec.trial_id).out
                own = spec.idea_id != BASELINE_ID
                (out / spec.sources.predictions).write_text(predictions(2 if own else 0))
                (out / "progress.jsonl").write_text(curve(FALLING if own else SETTLED))
            await super().run(trials, on_start, on_end)

    monkeypatch.setattr(bench_campaign, "ScriptedTrials", Leaving)
    bench = CampaignBench(tmp_path, ideas=2, confirm=False)
    bench.config = bench.config.model_copy(update={"in_flight": 1})
    return bench


def evidences(bench: CampaignBench) -> Evidences:
    def written(trial_id: str) -> str:
        return (bench.paths.trial(trial_id).out / "progress.jsonl").read_text()

    return Evidences(bench.paths, bench.state, bench.recipe.spec, written)


def record(paths: RunPaths, replies: Sequence[str]) -> None:
    """Record replies of an analyst in the idea's chat, as a driver does."""
    common: dict[str, Any] = {"repair": 0, "prompt": [], "model": "m", "tokens_estimated": False}
    common |= {"prompt_tokens": 1, "completion_tokens": 1, "latency_s": 0.1, "time": 1.0}
    lines = [
        json.dumps(
            {"key": f"analyse/{n}", "stage": "analyse", "ordinal": n, "reply": reply, **common},
            separators=(",", ":"),
        )
        for n, reply in enumerate(replies, 1)
    ]
    paths.idea("idea-0001").chat.write_text("\n".join(lines) + "\n")


async def test_all_of_it_reaches_the_next_proposal(bench: CampaignBench) -> None:
    proposer = ScriptedProposer("dropout of pixels", "wider layers")
    await bench.drive(judge, proposer)
    told = proposer.tasks[1].feedback
    assert "(avoid)" in told
    assert re.search(" acts: 98% .*reference's", told)
    assert "undertrained" in told
    assert re.search(r"pilot \(.*, one seed\) .*full budget", told)


async def test_what_is_read_of_an_idea(bench: CampaignBench) -> None:
    await bench.drive(judge, ScriptedProposer("dropout of pixels", "wider layers"))
    record(bench.paths, ['{"reading": "early", "run": null}', '{"reading": "late", "run": null}'])
    found = evidences(bench).of("idea-0001")
    assert found.pilot == pytest.approx(0.6, abs=0.01)
    assert found.reference_pilot == pytest.approx(0.5, abs=0.01)
    assert (found.unchanged, found.curve, found.reading) == (0.98, "undertrained", "late")
    assert found.lacking == ""


async def test_what_the_reference_shows_too_is_no_evidence(bench: CampaignBench) -> None:
    await bench.drive(judge, ScriptedProposer("dropout of pixels", "wider layers"))
    out = bench.paths.trial("baseline-a1-baseline-0").out
    (out / "progress.jsonl").write_text(curve(FALLING))
    assert evidences(bench).of("idea-0001").curve is None


async def test_files_that_are_not_the_candidate_s_are_not_read(bench: CampaignBench) -> None:
    await bench.drive(judge, ScriptedProposer("dropout of pixels", "wider layers"))
    entry = bench.recipe.spec.predictions
    reference = bench.paths.trial("baseline-a1-baseline-0").out / entry
    own = bench.paths.trial("idea-0001-a1-search-0").out / entry
    own.unlink()
    own.symlink_to(reference)
    assert evidences(bench).of("idea-0001").unchanged is None
    own.unlink()
    os.mkfifo(own)
    assert evidences(bench).of("idea-0001").unchanged is None
    own.unlink()
    assert evidences(bench).of("idea-0001").unchanged is None


async def test_ideas_without_a_score_have_none(bench: CampaignBench) -> None:
    await bench.drive(judge, ScriptedProposer("dropout of pixels", "wider layers"))
    bench.state.ideas["idea-0001"].ended = None
    assert evidences(bench).of("idea-0001") == NOTHING


async def test_a_reply_that_is_no_reading_is_passed_over(bench: CampaignBench) -> None:
    assert reading(bench.paths, "idea-0001") == ""
    bench.paths.idea("idea-0001").chat.parent.mkdir(parents=True)
    record(bench.paths, ['{"reading": "early", "run": null}', "no reply at all"])
    with bench.paths.idea("idea-0001").chat.open("a") as chat:
        chat.write('{"stage":"analyse", torn')
    assert reading(bench.paths, "idea-0001") == "early"


async def test_what_was_acted_on_last_is_read_though_another_was_asked_later(
    bench: CampaignBench,
) -> None:
    idea = bench.paths.idea("idea-0001")
    idea.reading(1).parent.mkdir(parents=True)
    for number, text in ((1, "of one run"), (2, "of both runs")):
        idea.reading(number).write_text(json.dumps({"reading": text, "run": None}))
    record(bench.paths, ['{"reading": "of one run, asked anew", "run": null}'])
    assert reading(bench.paths, "idea-0001") == "of both runs"
    idea.reading(2).write_text("torn")
    assert reading(bench.paths, "idea-0001") == ""
