"""Every campaign of these tests is checked as it runs: what steps come to, the journal says too."""

from __future__ import annotations

import pytest

from hpcscientist.campaign.conduct.known import Known, rules_of
from hpcscientist.campaign.pursuit.course import Course
from hpcscientist.campaign.pursuit.performing import Performer
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
from hpcscientist.records.outcome import MachineFailed

UNSAID = object()
perform = Performer.perform


async def perform_and_check(self: Performer, course: Course, step: AnyStep) -> object:
    answer = await perform(self, course, step)
    specs, state = self.tryout.specs, self.tryout.state
    rules = rules_of(specs.config, specs.recipe, self.catches_nothing_done)
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


@pytest.fixture(autouse=True)
def _the_journal_says_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Performer, "perform", perform_and_check)
