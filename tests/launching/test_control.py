from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from bench_campaign import CampaignBench
from queue_stand_in import QueueStandIn, install

from hpcscientist.errors import CampaignBusy, CampaignError, Interrupted, RunDirectoryError
from hpcscientist.files.rundir import RunPaths
from hpcscientist.history import frozen, journal
from hpcscientist.history.journal import Journal
from hpcscientist.history.state import CampaignState
from hpcscientist.history.status import STALE_S
from hpcscientist.launching.jobs import controller
from hpcscientist.launching.jobs.controller import FRUITLESS_LINKS, JobChain, control
from hpcscientist.records.events import CampaignEnded, Event


class Killed(BaseException):
    """Stands for an end that no code of ours sees."""


class Job:
    """A controller job of a campaign on a queue that is none."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        bench = CampaignBench(folder, ideas=1)
        settings = bench.config.settings.model_copy(update={"nodes": 1})
        self.config = bench.config.model_copy(update={"backend": "slurm", "settings": settings})
        self.paths: RunPaths = bench.paths
        frozen.write(self.paths, self.config)
        self.paths.lock.mkdir()
        self.queue: QueueStandIn = install(folder, monkeypatch)
        self._act: Callable[[], None] = lambda: None

    def run(self, own: str = "7") -> CampaignState:
        return control(
            *(self.paths, own, lambda event, state: None, lambda text: None),
            wait=lambda seconds: self._act(),
        )

    def another_drives(self, age_s: float = 0.0) -> None:
        """A driver elsewhere, whose heart beat so long ago."""
        path = self.paths.lock / "1.json"
        path.write_text(json.dumps({"host": "elsewhere", "boot": "b", "pid": 1, "started": 1}))
        beat = time.time() - age_s
        os.utime(path, (beat, beat))

    def while_it_waits(self, act: Callable[[], None]) -> None:
        """Have something happen when the job waits for another driver's end."""
        self._act = act

    def chain(self) -> JobChain:
        return JobChain.model_validate_json(self.paths.chain.read_bytes())

    def record(self, *events: Event) -> None:
        book = Journal(self.paths.journal, lambda event: None)
        for event in events:
            book.record(event)
        book.close()


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Job]:
    made = Job(tmp_path, monkeypatch)
    yield made
    made.paths.cancel_request.touch()  # what looks after the continuation submits no more


def raising(error: BaseException) -> Callable[[], None]:
    def act() -> None:
        raise error

    return act


def test_lost_while_it_waits_for_a_dead_driver_it_is_continued(job: Job) -> None:
    job.another_drives()
    job.while_it_waits(raising(Killed()))
    with pytest.raises(Killed):
        job.run()
    assert len(job.queue.waiting()) == 1
    with pytest.raises(Killed):
        job.run()  # Slurm started it again: the same continuation
    assert job.queue.submitted() == 1


def test_jobs_that_are_lost_before_they_drive_come_to_an_end(job: Job) -> None:
    job.another_drives()
    job.while_it_waits(raising(Killed()))
    for number in range(FRUITLESS_LINKS):
        with pytest.raises(Killed):
            job.run(str(number))
    job.another_drives(age_s=2 * STALE_S)
    with pytest.raises(CampaignError, match=f"^{FRUITLESS_LINKS} controller jobs .*row"):
        job.run("last")
    assert job.queue.waiting() == []
    assert journal.read(job.paths.journal)[-1].type == "driver_stopped"


def test_told_to_stop_while_it_waits_it_is_continued_and_does_not_count(job: Job) -> None:
    job.another_drives()
    job.while_it_waits(raising(KeyboardInterrupt()))
    for number in range(2 * FRUITLESS_LINKS):
        with pytest.raises(KeyboardInterrupt):
            job.run(str(number))
    assert len(job.queue.waiting()) == 1
    assert job.chain() == JobChain()


def test_another_driver_that_stays_alive_leaves_it_no_continuation(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(controller, "QUEUE_PATIENCE_S", -1.0)
    job.another_drives()
    with pytest.raises(CampaignBusy):
        job.run()
    assert job.queue.submitted() == 1
    assert job.queue.waiting() == []
    assert job.chain() == JobChain()


@pytest.mark.parametrize("told", [True, False])
def test_cancel_while_it_waits_leaves_nothing(job: Job, told: bool) -> None:
    def cancel() -> None:
        job.paths.cancel_request.touch()
        if told:
            raise KeyboardInterrupt

    job.another_drives()
    job.while_it_waits(cancel)
    with pytest.raises(KeyboardInterrupt if told else Interrupted):
        job.run()
    assert job.queue.submitted() == 1
    assert job.queue.waiting() == []


def test_cancel_before_it_starts_submits_nothing(job: Job) -> None:
    job.paths.cancel_request.touch()
    with pytest.raises(Interrupted):
        job.run()
    assert job.queue.submitted() == 0


def test_campaign_that_has_ended_is_not_continued(job: Job) -> None:
    job.record(CampaignEnded())
    assert job.run().ended
    assert job.queue.submitted() == 0


def test_campaign_that_fails_before_it_begins_is_not_continued(job: Job) -> None:
    frozen.write(job.paths, job.config.model_copy(update={"recipe_hash": "another"}))
    with pytest.raises(RunDirectoryError, match=r"recipe.* changed since"):
        job.run()
    assert job.queue.submitted() == 1
    assert job.queue.waiting() == []
