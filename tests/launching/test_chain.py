from __future__ import annotations

import re

from event_kit import driver_started, idea_proposed, trial_queued

from hpcscientist.launching.jobs.controller import JobChain, advance, progress, why_stop
from hpcscientist.records.events import (
    CampaignEnded,
    CampaignStarted,
    DriverStopped,
    Event,
    TrialStarted,
)
from hpcscientist.records.trial import Stage


def walk(*reached: int, max_links: int = 100) -> list[str | None]:
    """What is said of each of the jobs 1, 2, … that find so much progress."""
    chain, said = JobChain(), []
    for number, count in enumerate(reached, 1):
        chain = advance(chain, str(number), count)
        said.append(why_stop(chain, max_links))
    return said


def test_a_chain_that_gets_on_is_never_stopped() -> None:
    assert walk(*range(0, 90, 3)) == [None] * 30


def test_three_fruitless_links_are_the_last() -> None:
    *before, last = walk(5, 5, 5, 5)
    assert before == [None] * 3
    assert last is not None
    assert re.match("3 controller jobs .*row", last)


def test_progress_between_forgives_what_was_before() -> None:
    assert walk(5, 5, 5, 6, 6, 6) == [None] * 6


def test_a_job_that_is_started_again_is_the_same_link() -> None:
    chain = advance(JobChain(), "7", 5)
    assert advance(advance(chain, "7", 5), "7", 5) == chain


def test_links_are_bounded() -> None:
    said = walk(1, 2, 3, max_links=2)
    assert said[:2] == [None, None]
    assert said[2] is not None
    assert "max_links" in said[2]


def driver(generation: int) -> Event:
    return driver_started(generation, "n1", generation)


def stopped(generation: int, *, failed: bool) -> DriverStopped:
    return DriverStopped(generation=generation, reason="why", failed=failed, lets_go=False)


def started(generation: int, run: int = 1) -> TrialStarted:
    return TrialStarted(trial_id="t", run=run, generation=generation)


def test_starting_failing_and_queueing_is_no_progress() -> None:
    idea = idea_proposed()
    events: list[Event] = [
        CampaignStarted(campaign_id="c"),
        driver(1),
        trial_queued("t", "i", Stage.PILOT),
        stopped(1, failed=True),
    ]
    assert progress(events) == 0
    assert progress([*events, idea, CampaignEnded()]) == 2


def test_a_trial_that_outlasts_many_links_stops_no_chain() -> None:
    events: list[Event] = [CampaignStarted(campaign_id="c")]
    reached = []
    for generation in range(1, 10):
        reached.append(progress(events))
        events += [driver(generation), started(generation), stopped(generation, failed=False)]
    assert walk(*reached) == [None] * 9


def test_links_that_are_killed_outright_while_a_trial_runs_are_fruitless() -> None:
    events: list[Event] = []
    reached = []
    for generation in range(1, 6):
        reached.append(progress(events))
        events += [driver(generation), started(generation)]  # the same run, taken over
    *before, last = walk(*reached)
    assert before == [None] * 4
    assert last is not None
    assert progress([*events, started(6, run=2)]) == progress(events) + 1
