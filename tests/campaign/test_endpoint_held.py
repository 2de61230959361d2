"""An endpoint that does not answer ends nothing that can do without it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest
from bench_campaign import CampaignBench, ScriptedProposer, ScriptedTrials, scored

from hpcscientist.campaign import conductor
from hpcscientist.campaign.conductor import _Held
from hpcscientist.campaign.waiting import OnEnd, OnStart
from hpcscientist.errors import EndpointError
from hpcscientist.history import journal
from hpcscientist.records.events import NoteTaken
from hpcscientist.records.proposing import ProposalTask, Proposed
from hpcscientist.records.trial import Outcome, TrialSpec

WORDS = ("alpha beta gamma", "delta epsilon zeta", "eta theta iota")
GONE = EndpointError("the endpoint is gone")


def plain(spec: TrialSpec) -> Outcome:
    return scored(0.5 + spec.seed % 7 / 1e3)


async def test_trials_go_on_and_the_next_driver_asks_again(tmp_path: Path) -> None:
    bench = CampaignBench(tmp_path, ideas=3)
    with pytest.raises(EndpointError, match="is gone"):
        await bench.drive(plain, ScriptedProposer(WORDS[0], GONE, GONE))
    assert bench.ended() == {"idea-0001": ("scored", None)}
    done = {name for name, trial in bench.state.trials.items() if trial.phase == "scored"}
    again = await bench.drive(plain, ScriptedProposer(*WORDS))
    assert [status for status, _ in bench.ended().values()] == ["scored"] * 3
    assert not done & {name for name, _ in again.ran}


async def test_it_is_asked_again_while_trials_are_under_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conductor, "_ASKED_AGAIN_S", 0.0)
    answers, begun = asyncio.Event(), asyncio.Event()

    class Recovering(ScriptedProposer):
        async def propose(self, task: ProposalTask) -> Proposed:
            proposed = await super().propose(task)
            if task.number > 1:
                await begun.wait()  # a trial is under way by then
            if task.number > 1 and len(self.tasks) < 6:  # one of two is asked again at a time
                raise GONE
            if task.number > 1:
                answers.set()
            return proposed

    run = ScriptedTrials.run

    async def slow(
        self: ScriptedTrials, trials: Sequence[TrialSpec], on_start: OnStart, on_end: OnEnd
    ) -> None:
        if any(spec.idea_id == "idea-0001" for spec in trials):
            begun.set()
            await answers.wait()
        await run(self, trials, on_start, on_end)

    monkeypatch.setattr(ScriptedTrials, "run", slow)
    bench = CampaignBench(tmp_path, ideas=3)
    await asyncio.wait_for(bench.drive(plain, Recovering(*WORDS)), 300)
    assert [status for status, _ in bench.ended().values()] == ["scored"] * 3
    told = [e for e in journal.read(bench.paths.journal) if isinstance(e, NoteTaken)]
    assert [str(GONE) in note.text for note in told if note.name == "endpoint"] == [True]


def test_what_is_held_is_tried_one_at_a_time_and_ever_less_often() -> None:
    held, now = _Held(), 1000.0
    held.hold("propose/1", GONE, now)
    held.hold("brief/2", GONE, now + 5)
    pauses = []
    for _ in range(7):
        assert held.again_at is not None
        assert held.waiting((), held.again_at - 1) == {"propose/1", "brief/2"}
        pauses.append(held.again_at - now)
        now = held.again_at
        (tried,) = {"propose/1", "brief/2"} - held.waiting((), now)
        assert held.waiting((tried,), now + 1) == {"propose/1", "brief/2"} - {tried}
        assert held.again_at is None
        held.hold(tried, GONE, now)
    assert pauses == [30, 60, 120, 240, 480, 600, 600]


def test_an_answer_lets_go_of_all_that_is_held() -> None:
    held = _Held()
    for key in ("propose/1", "brief/2"):
        held.hold(key, GONE, 0.0)
    held.ended_well("run/idea-0003-a1-pilot-0")  # it says nothing of the endpoint
    assert held.error is GONE
    assert held.waiting((), 30.0) == {"brief/2"}
    held.ended_well("propose/1")
    assert (held.error, held.again_at) == (None, None)
    assert held.waiting((), 31.0) == set()


def test_what_is_not_wanted_any_more_is_forgotten() -> None:
    held = _Held()
    for key in ("propose/1", "brief/2"):
        held.hold(key, GONE, 0.0)
    assert held.waiting((), 30.0) == {"brief/2"}
    assert held.waiting(("run/x",), 31.0) == set()  # the other one's turn, at once
    assert held.waiting(("run/x",), 32.0) == set()
    assert held.error is None
