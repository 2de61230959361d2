"""Every campaign of these tests is checked as it runs: what steps come to, the journal says too,
and what is recorded is what `decide` wanted.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from shadow import FREE, LONG_AFTER, is_wanted, keys

from hpcscientist.campaign.conduct.decide import decide
from hpcscientist.campaign.conduct.known import Known
from hpcscientist.campaign.conduct.rules import Rules
from hpcscientist.campaign.conductor import Conductor
from hpcscientist.campaign.journal import Journal
from hpcscientist.campaign.pursuit.course import Course
from hpcscientist.campaign.pursuit.performing import Performer
from hpcscientist.campaign.state import CampaignState
from hpcscientist.campaign.strategy.steps import (
    Abandon,
    AnyStep,
    Measured,
    Pilot,
    Piloted,
    Version,
    Write,
    Written,
)
from hpcscientist.records.authoring import GaveUp
from hpcscientist.records.events import Event
from hpcscientist.records.outcome import MachineFailed

UNSAID = object()
perform, record, run = Performer.perform, Journal.record, Conductor.run
watched: dict[int, tuple[Rules, CampaignState]] = {}


async def perform_and_check(self: Performer, course: Course, step: AnyStep) -> object:
    answer = await perform(self, course, step)
    rules, state = watched[id(self.tryout.journal)]
    known = Known(state, rules, state.ideas[course.idea.idea_id])
    said = known.get(step, UNSAID)
    if isinstance(step, Abandon) and step.task.startswith("pilot/"):
        left = known.get(Pilot(Version(int(step.task.removeprefix("pilot/")))), UNSAID)
        assert isinstance(left, Piloted) and left.lost
    if isinstance(answer, Piloted | Measured) and isinstance(answer.outcome, MachineFailed):
        # Whoever drives next runs it again, unless the idea goes on without.
        assert said is UNSAID or said == answer
    elif isinstance(step, Write) and isinstance(answer, Written):
        # It is on record once its pilot is to run; a double never is. Where other code lies in its
        # place than what is on record, what comes next refuses it.
        assert said is UNSAID or isinstance(said, Written | GaveUp)
    else:
        assert said == answer, f"{step}: {answer}, and the journal says {said}"
    return answer


async def run_and_watch(self: Conductor) -> None:
    catches = self.pursuit.performer.catches_nothing_done  # which benches set
    judging = replace(self.rules.judging, catches_nothing_done=catches)
    rules = replace(self.rules, judging=judging)
    watched[id(self.pursuit.journal)] = rules, self.pursuit.state
    await run(self)


def record_and_check(self: Journal, event: Event) -> bool:
    if id(self) in watched and event.type not in FREE and event.key not in self:
        rules, state = watched[id(self)]
        if not is_wanted(event, state, rules):
            wanted = decide(state, rules, (), LONG_AFTER)
            raise AssertionError(f"{event!r} is not wanted; {list(keys(wanted.actions))} are")
    return record(self, event)


@pytest.fixture(autouse=True)
def _the_journal_says_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    watched.clear()
    monkeypatch.setattr(Performer, "perform", perform_and_check)
    monkeypatch.setattr(Journal, "record", record_and_check)
    monkeypatch.setattr(Conductor, "run", run_and_watch)
