from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcscientist.campaign import journal
from hpcscientist.campaign.journal import Journal
from hpcscientist.errors import DiskFull, RunDirectoryError
from hpcscientist.records.events import CampaignStarted, Event, NoteTaken

NOTES = [NoteTaken(name=f"note {i}", text=f"wörds\n{i}") for i in range(4)]


def write(path: Path, events: list[NoteTaken]) -> bytes:
    opened = Journal(path, lambda event: None)
    for event in events:
        assert opened.record(event)
    opened.close()
    return path.read_bytes()


def test_events_come_back_in_order(tmp_path: Path) -> None:
    write(tmp_path / "journal.jsonl", NOTES)
    assert journal.read(tmp_path / "journal.jsonl") == NOTES


def test_known_key_is_not_repeated(tmp_path: Path) -> None:
    opened = Journal(tmp_path / "j", lambda event: None)
    assert opened.record(NOTES[0])
    assert not opened.record(NoteTaken(name="note 0", text="other words"))
    opened.close()
    reopened = Journal(tmp_path / "j", lambda event: None)
    assert not reopened.record(NOTES[0])
    assert NOTES[0].key in reopened
    reopened.close()
    assert journal.read(tmp_path / "j") == NOTES[:1]


@given(cut=st.integers(min_value=0, max_value=10_000))
def test_torn_at_any_byte(cut: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("torn") / "j"
    whole = write(path, NOTES)
    path.write_bytes(whole[: min(cut, len(whole))])
    kept = journal.read(path)
    assert kept == NOTES[: len(kept)]
    assert len(kept) == whole[: min(cut, len(whole))].count(b"\n")
    seen: list[Event] = []
    opened = Journal(path, seen.append)
    assert seen == kept
    opened.record(CampaignStarted(campaign_id="c"))
    opened.close()
    assert journal.read(path) == [*kept, CampaignStarted(campaign_id="c")]


def test_torn_line_with_garbage_and_newline_is_cut(tmp_path: Path) -> None:
    whole = write(tmp_path / "j", NOTES)
    (tmp_path / "j").write_bytes(whole + b'{"n": 5, "t"\0\0\0\n')
    assert journal.read(tmp_path / "j") == NOTES
    Journal(tmp_path / "j", lambda event: None).close()
    assert (tmp_path / "j").read_bytes() == whole


def test_damage_in_the_middle_is_an_error_with_its_line(tmp_path: Path) -> None:
    whole = write(tmp_path / "j", NOTES)
    lines = whole.splitlines(keepends=True)
    (tmp_path / "j").write_bytes(b"".join([lines[0], b"{}\n", *lines[2:]]))
    with pytest.raises(RunDirectoryError, match=r"j:2: is damaged"):
        journal.read(tmp_path / "j")


def test_full_disk_leaves_the_journal_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = Journal(tmp_path / "j", lambda event: None)
    opened.record(NOTES[0])
    before = (tmp_path / "j").read_bytes()
    write_all = os.write

    def no_space(descriptor: int, data: bytes) -> int:
        write_all(descriptor, data[:7])
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", no_space)
        with pytest.raises(DiskFull):
            opened.record(NOTES[1])
    assert (tmp_path / "j").read_bytes() == before
    assert opened.record(NOTES[1])
    opened.close()
    assert journal.read(tmp_path / "j") == NOTES[:2]


def test_folder_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(RunDirectoryError):
        Journal(tmp_path / "nowhere" / "j", lambda event: None)
