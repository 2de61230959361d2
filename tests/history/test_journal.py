from __future__ import annotations

import asyncio
import errno
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcscientist.errors import CampaignBusy, DiskFull, RunDirectoryError
from hpcscientist.history import journal
from hpcscientist.history.journal import Journal
from hpcscientist.launching.jobs.follow import JournalTail
from hpcscientist.records.events import CampaignStarted, Event, NoteTaken, TrialEnded
from hpcscientist.records.trial import Scored, TrialReport, Usage

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


class TestGroups:
    @pytest.fixture
    def syncs(self, monkeypatch: pytest.MonkeyPatch) -> list[int]:
        """The descriptors that were synced."""
        synced: list[int] = []
        monkeypatch.setattr(os, "fsync", synced.append)
        return synced

    def test_what_arrives_together_is_written_together(
        self, tmp_path: Path, syncs: list[int]
    ) -> None:
        seen: list[Event] = []
        told: list[int] = []
        opened = Journal(tmp_path / "j", seen.append)
        with opened.grouped(lambda: told.append(len(seen))):
            for event in NOTES:
                assert opened.record(event)
                assert not opened.record(event)
            assert seen == NOTES  # whoever decides sees them at once
            assert journal.read(tmp_path / "j") == []
            opened.flush()
            assert journal.read(tmp_path / "j") == NOTES
            opened.flush()
        assert len(syncs) == 1
        assert told == [0], "it is told when the first of a group waits"
        opened.close()

    async def test_who_is_settled_takes_others_of_the_same_turn_along(
        self, tmp_path: Path, syncs: list[int]
    ) -> None:
        opened = Journal(tmp_path / "j", lambda event: None)

        async def act(event: Event) -> list[Event]:
            opened.record(event)
            await opened.settled()
            return journal.read(tmp_path / "j")

        with opened.grouped(lambda: None):
            found = await asyncio.gather(*map(act, NOTES))
        assert found == [NOTES] * len(NOTES)
        assert len(syncs) == 1
        opened.close()

    def test_what_a_full_disk_refused_waits_on(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        opened = Journal(tmp_path / "j", lambda event: None)
        opened.record(NOTES[0])
        with opened.grouped(lambda: None):
            opened.record(NOTES[1])
            with monkeypatch.context() as patched:
                patched.setattr(os, "fsync", _no_space)
                with pytest.raises(DiskFull):
                    opened.flush()
            assert journal.read(tmp_path / "j") == NOTES[:1]
            opened.record(NOTES[2])
        opened.record(NOTES[3])  # outside, events are on the disk at once, those before first
        assert journal.read(tmp_path / "j") == NOTES
        opened.close()

    def test_what_is_recorded_while_others_are_written_waits_for_the_next_time(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        opened = Journal(tmp_path / "j", lambda event: None)

        def busy_disk(descriptor: int) -> None:
            opened.record(NOTES[1])

        with opened.grouped(lambda: None):
            opened.record(NOTES[0])
            with monkeypatch.context() as patched:
                patched.setattr(os, "fsync", busy_disk)
                opened.flush()
            assert journal.read(tmp_path / "j") == NOTES[:1]
            opened.flush()
        assert journal.read(tmp_path / "j") == NOTES[:2]
        opened.close()

    def test_threads_record_one_after_the_other(self, tmp_path: Path) -> None:
        opened = Journal(tmp_path / "j", lambda event: None)
        notes = [NoteTaken(name=str(number), text="") for number in range(400)]

        def act(first: int) -> None:
            for note in notes[first::4]:
                opened.record(note)
                opened.flush()

        with opened.grouped(lambda: None), ThreadPoolExecutor(4) as pool:
            list(pool.map(act, range(4)))
        opened.close()
        lines = journal.read_lines(tmp_path / "j")
        assert [line.n for line in lines] == list(range(1, 401))
        assert {line.event.key for line in lines} == {note.key for note in notes}

    @given(at=st.integers(0, 700), length=st.integers(1, 700), count=st.integers(1, 6))
    def test_whatever_a_power_cut_took_of_the_last_group_none_of_the_others_is_lost(
        self, at: int, length: int, count: int, tmp_path_factory: pytest.TempPathFactory
    ) -> None:
        path = tmp_path_factory.mktemp("cut") / "j"
        write(path, NOTES)
        opened = Journal(path, lambda event: None)
        with opened.grouped(lambda: None):
            for number in range(count):
                opened.record(NoteTaken(name=f"last {number}", text="x" * 50))
        opened.close()
        whole, known = path.read_bytes(), len(b"".join(path.read_bytes().splitlines(True)[:4]))
        assert len(NOTES) == 4
        begin = known + at % (len(whole) - known)
        end = min(begin + length, len(whole))
        holed = whole[:begin] + b"\0" * (end - begin) + whole[end:]  # a page that was not written
        path.write_bytes(holed)
        kept = journal.read(path)
        assert kept[:4] == NOTES
        assert [e.key for e in kept[4:]] == [f"note_taken/last {n}" for n in range(len(kept) - 4)]
        tail = JournalTail(path)
        assert tail.read() == kept
        Journal(path, lambda event: None).close()
        assert path.read_bytes() == whole[: len(path.read_bytes())]
        assert journal.read(path) == kept

    def test_a_hole_before_a_later_group_is_damage(self, tmp_path: Path) -> None:
        path = tmp_path / "j"
        for names in ("abc", "de"):
            opened = Journal(path, lambda event: None)
            with opened.grouped(lambda: None):
                for name in names:
                    opened.record(NoteTaken(name=name, text=""))
            opened.close()
        lines = path.read_bytes().splitlines(keepends=True)
        path.write_bytes(b"".join([lines[0], b"\0" * 20 + b"\n", *lines[2:]]))
        with pytest.raises(RunDirectoryError, match="j:2: is damaged"):
            journal.read(path)
        with pytest.raises(RunDirectoryError, match="j:2: is damaged"):
            JournalTail(path).read()

    def test_closing_writes_what_waits(self, tmp_path: Path) -> None:
        opened = Journal(tmp_path / "j", lambda event: None)
        with opened.grouped(lambda: None):
            opened.record(NOTES[0])
            opened.close()
        assert journal.read(tmp_path / "j") == NOTES[:1]

    def test_a_driver_that_was_overtaken_writes_no_group(self, tmp_path: Path) -> None:
        def guard() -> None:
            raise CampaignBusy("another drives")

        opened = Journal(tmp_path / "j", lambda event: None, guard)
        with opened.grouped(lambda: None):
            opened.record(NOTES[0])
            with pytest.raises(CampaignBusy):
                opened.flush()
        with pytest.raises(CampaignBusy):
            opened.close()
        assert journal.read(tmp_path / "j") == []


def _no_space(descriptor: int) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_metric_that_is_no_number_can_be_read_again(tmp_path: Path) -> None:
    outcome = Scored(metrics={"accuracy": float("nan"), "loss": float("-inf")})
    report = TrialReport(
        trial_id="a", run=1, outcome=outcome, usage=Usage(started_at=1.0, ended_at=2.0, cpu_s=1.0)
    )
    log = Journal(tmp_path / "journal.jsonl", lambda event: None)
    log.record(TrialEnded(idea_id="idea-0001", report=report))
    log.close()
    (event,) = journal.read(tmp_path / "journal.jsonl")
    assert isinstance(event, TrialEnded)
    assert str(event.report.outcome) == str(outcome)
