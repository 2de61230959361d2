"""Checks campaigns as they run: every recorded event must be a possible result of a running action.

Used by the folders whose conftest imports the fixture.
"""

from __future__ import annotations

import pytest
from comings import FREE, comes_to

from hpcscientist.campaign.conductor import Conductor, Performers
from hpcscientist.conduct.actions import Action
from hpcscientist.history.journal import Journal
from hpcscientist.history.state import CampaignState
from hpcscientist.records.events import Event

record, run, perform = Journal.record, Conductor.run, Performers.perform
watched: dict[int, CampaignState] = {}
under_way: dict[str, Action] = {}


async def run_and_watch(self: Conductor) -> None:
    watched[id(self.performers.idea_runner.journal)] = self.state
    under_way.clear()
    await run(self)


async def perform_and_watch(self: Performers, action: Action) -> None:
    assert action.key not in under_way, f"{action} is under way twice"
    under_way[action.key] = action
    try:
        await perform(self, action)
    finally:
        del under_way[action.key]


def record_and_check(self: Journal, event: Event) -> bool:
    if id(self) in watched and event.type not in FREE and event.key not in self:
        state = watched[id(self)]
        found = any(comes_to(action, event, state) for action in under_way.values())
        assert found, f"{event!r} comes of none of {list(under_way)}"
    return record(self, event)


@pytest.fixture(autouse=True)
def what_is_recorded_comes_of_actions(monkeypatch: pytest.MonkeyPatch) -> None:
    watched.clear()
    monkeypatch.setattr(Journal, "record", record_and_check)
    monkeypatch.setattr(Conductor, "run", run_and_watch)
    monkeypatch.setattr(Performers, "perform", perform_and_watch)
