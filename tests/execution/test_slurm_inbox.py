"""Messages for an array task that runs: each is written once, by whoever is first."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from hpcscientist.execution.backends.slurm.batches import ArrayRecord, BatchFolder, Inbox, Message
from hpcscientist.records.trial import RunId

NEVER = float("inf")


def run(name: str) -> RunId:
    return RunId(trial_id=name, run=1)


ONE, TWO = (
    Message(batch_id="b1", runs=(run("a"), run("b"))),
    Message(batch_id="b2", runs=(run("c"),)),
)


@pytest.fixture
def inbox(tmp_path: Path) -> Inbox:
    return Inbox(tmp_path / "inbox-0")


def test_a_task_runs_what_it_was_submitted_with_and_then_what_it_is_given(tmp_path: Path) -> None:
    folder = BatchFolder(tmp_path)
    record = ArrayRecord(
        batch_id="b0",
        campaign_id="c",
        trials_folder="",
        tasks=((run("first"),), (run("another"),)),
        cpus=1,
        gpus=0,
        memory_mb=1,
        minutes=9,
        created_at=0.0,
    )
    assert folder.inbox(0).write(1, ONE)
    assert [one.trial_id for one in folder.runs(record, 0)] == ["first"]  # not kept open
    kept = record.model_copy(update={"open_s": 60.0})
    assert [one.trial_id for one in folder.runs(kept, 0)] == ["first", "a", "b"]
    assert [one.trial_id for one in folder.runs(kept, 1)] == ["another"]
    # A task that Slurm starts again looks at the same ones again.
    assert [one.trial_id for one in folder.runs(kept, 0)] == ["first", "a", "b"]


def test_what_comes_too_late_was_not_given(inbox: Inbox) -> None:
    assert inbox.write(1, ONE)
    assert list(inbox.given(NEVER, 0.0)) == [*ONE.runs]
    assert not inbox.write(2, TWO)
    assert list(inbox.given(NEVER, 0.0)) == [*ONE.runs]


def test_what_a_task_was_given_it_runs_however_late_it_looks(inbox: Inbox) -> None:
    assert inbox.write(1, ONE)
    assert inbox.write(2, TWO)
    assert list(inbox.given(time.monotonic() - 1.0, 60.0)) == [*ONE.runs, *TWO.runs]


def test_a_driver_that_takes_over_closes_the_inbox_and_is_told_what_was_given(inbox: Inbox) -> None:
    assert inbox.write(1, ONE)
    assert inbox.close() == [ONE]
    assert inbox.close() == [ONE]
    assert not inbox.write(2, TWO)


def test_a_message_that_was_written_by_a_repeated_request_was_written(inbox: Inbox) -> None:
    assert inbox.write(1, ONE)
    assert inbox.write(1, ONE)
    assert not inbox.write(1, TWO)
    assert sorted(path.name for path in inbox.root.iterdir()) == ["1.json"]


@pytest.mark.parametrize("text", ["", "{", '{"runs": 3}', '{"surprise": 1}'])
def test_a_message_that_cannot_be_read_closes_the_inbox(inbox: Inbox, text: str) -> None:
    inbox.root.mkdir()
    (inbox.root / "1.json").write_text(text)
    assert list(inbox.given(NEVER, 60.0)) == []
    assert not inbox.write(1, ONE)


def test_nothing_is_written_where_the_batch_was_removed(tmp_path: Path) -> None:
    gone = Inbox(tmp_path / "gone" / "inbox-0")
    assert not gone.write(1, ONE)
    assert gone.close() == []
    assert list(gone.given(NEVER, 0.0)) == []
    assert list(tmp_path.iterdir()) == []
