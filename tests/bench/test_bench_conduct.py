"""`bench conduct`: what is timed is what the loop does. How long it takes is for no test."""

from __future__ import annotations

import json

import pytest
from benchmarks.command_line import run
from benchmarks.conduct import figures, history

from hpcscientist.conduct.actions import RunTrial
from hpcscientist.conduct.decide import decide
from hpcscientist.history.state import fold
from hpcscientist.records.trial import Stage


def test_open_ideas_want_their_pilots_and_then_their_seeds() -> None:
    state = fold([*history.begun(), *history.ended(1), *history.opened(2), *history.opened(3)])
    rules = history.rules_of(3, 2)
    wanted = decide(state, rules, (), 0.0).actions
    assert [(a.idea_id, a.stage) for a in wanted if isinstance(a, RunTrial)] == [
        ("idea-0002", Stage.PILOT),
        ("idea-0003", Stage.PILOT),
    ]
    assert len(wanted) == 2
    state.apply(history.trial_ended("idea-0002", Stage.PILOT, 0))
    runs = [a for a in decide(state, rules, (), 0.0).actions if isinstance(a, RunTrial)]
    assert sum(a.stage is Stage.SEEDS for a in runs) == history.SEEDS
    assert state.progress.ended == 1


def test_a_decision_is_timed_for_each_open_idea() -> None:
    assert len(figures.decisions(ended=3, opened=4)) == 4


def test_the_command_prints_all_of_them(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["conduct", "--json", "--at", "3", "--at", "5", "--driven", "2"]
    assert run(arguments) == 0
    names = [figure["name"] for figure in json.loads(capsys.readouterr().out)]
    assert names == [
        "a decision after 3 ideas",
        "a decision after 5 ideas",
        "a decision with 3 open ideas",
        "a decision with 5 open ideas",
        "taking up 3 ideas",
        "taking up 5 ideas",
        "fsyncs a trial, 2 ideas",
        "driver's CPU time a trial, 2 ideas",
    ]
