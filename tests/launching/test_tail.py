from __future__ import annotations

import os
from pathlib import Path

import pytest

from hpcscientist.errors import RunDirectoryError
from hpcscientist.history.journal import Journal
from hpcscientist.launching.jobs.follow import JournalTail
from hpcscientist.records.events import CampaignEnded, CampaignStarted, Event, NoteTaken


def note(number: int) -> NoteTaken:
    return NoteTaken(name=str(number), text=f"note {number}")


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """A journal of a start and three notes."""
    path = tmp_path / "journal.jsonl"
    write(path, CampaignStarted(campaign_id="c"), *map(note, range(3)))
    return path


def write(path: Path, *events: Event) -> None:
    journal = Journal(path, lambda event: None)
    for event in events:
        journal.record(event)
    journal.close()


def test_nothing_is_there_yet(tmp_path: Path) -> None:
    tail = JournalTail(tmp_path / "journal.jsonl")
    assert tail.read() == []
    assert tail.state.campaign_id == ""


def test_each_event_is_shown_with_the_state_after_it(written: Path) -> None:
    tail, seen = JournalTail(written), []
    tail.read(lambda event: seen.append(len(tail.state.notes)))
    assert seen == [0, 1, 2, 3]


def test_only_what_was_appended_is_read(written: Path) -> None:
    tail = JournalTail(written)
    assert len(tail.read()) == 4
    assert tail.read() == []
    # Were the old lines read again, they would be found damaged.
    before = written.read_bytes()
    write(written, CampaignEnded())
    fifth = written.read_bytes()[len(before) :]
    *old, last = before.splitlines(keepends=True)
    written.write_bytes(b"".join(b"x" * (len(line) - 1) + b"\n" for line in old) + last + fifth)
    assert tail.read() == [CampaignEnded()]
    assert tail.state.ended
    assert tail.state.notes == ["note 0", "note 1", "note 2"]


def test_torn_line_is_waited_for(written: Path) -> None:
    whole = written.read_bytes()
    written.write_bytes(whole[:-10])
    tail = JournalTail(written)
    assert len(tail.read()) == 3
    assert tail.read() == []
    with written.open("ab") as file:
        file.write(whole[-10:])
    assert tail.read() == [note(2)]


def test_torn_line_that_the_next_driver_cuts_off(written: Path) -> None:
    whole = written.read_bytes()
    written.write_bytes(whole + b'{"n":5,"t":\n')  # a torn block with a newline of its own
    tail = JournalTail(written)
    assert len(tail.read()) == 4
    write(written, note(3))
    assert tail.read() == [note(3)]


@pytest.mark.parametrize("then", [(), (3, 4)])
def test_line_that_was_taken_back(written: Path, then: tuple[int, ...]) -> None:
    # As by a writer whose disk was full: seen, and gone again.
    before = written.stat().st_size
    write(written, note(7))
    tail = JournalTail(written)
    assert len(tail.read()) == 5
    os.truncate(written, before)
    write(written, *map(note, then))
    assert tail.read() == []
    assert tail.state.notes == [f"note {n}" for n in (0, 1, 2, *then)]
    write(written, CampaignEnded())
    assert tail.read() == [CampaignEnded()]


def test_damage_is_an_error(written: Path) -> None:
    lines = written.read_bytes().splitlines(keepends=True)
    written.write_bytes(b"".join([lines[0], b"{}\n", *lines[1:]]))
    with pytest.raises(RunDirectoryError, match=r"jsonl:2: is damaged"):
        JournalTail(written).read()


def test_missing_lines_are_an_error(written: Path) -> None:
    lines = written.read_bytes().splitlines(keepends=True)
    written.write_bytes(b"".join([lines[0], *lines[2:]]))
    with pytest.raises(RunDirectoryError, match="is damaged"):
        JournalTail(written).read()
