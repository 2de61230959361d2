"""A journal that another hand changed is not read: its trusted copy is, or nothing."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from hpcscientist.errors import RunDirectoryError
from hpcscientist.files import vault
from hpcscientist.files.rundir import RunPaths
from hpcscientist.files.trusted import TrustedCopy
from hpcscientist.history import journal
from hpcscientist.history.journal import Journal
from hpcscientist.history.status import read_state
from hpcscientist.history.upcasting import JournalLine, SignatureChain, group, text_of
from hpcscientist.records.events import CampaignStarted, Event, NoteTaken

EVENTS: list[Event] = [
    CampaignStarted(campaign_id="tiny-1"),
    *(NoteTaken(name=str(number), text=f"nöte {number}") for number in range(5)),
]
Change = Callable[[list[bytes]], list[bytes]]
CHANGES: dict[str, Change] = {
    "a line is lost": lambda lines: [*lines[:2], *lines[3:]],
    "the first is lost": lambda lines: lines[1:],
    "a line is there twice": lambda lines: [*lines[:3], lines[2], *lines[3:]],
    "two have changed places": lambda lines: [lines[0], lines[2], lines[1], *lines[3:]],
    "a letter is another": lambda lines: [b.replace(b"te 1", b"te 9") for b in lines],
    "a seal is another": lambda lines: [b.replace(b',"k":"', b',"k":"0') for b in lines],
    "a line has no seal": lambda lines: [
        lines[0],
        b'{"v":5,"n":2,"t":1.0,"event":{"type":"note_taken","name":"0","text":""}}\n',
        *lines[2:],
    ],
    "a seal without the key": lambda lines: resealed([*EVENTS[:2], NoteTaken(name="x", text="")]),
    "nothing is left": lambda lines: [],
}


def resealed(events: list[Event]) -> list[bytes]:
    """The lines that somebody would write who knows all but the key."""
    chain = SignatureChain()
    return [
        group([text_of(JournalLine(n=number, t=1.0, event=event))], chain)
        for number, event in enumerate(events, 1)
    ]


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The journal of a campaign that has a key."""
    monkeypatch.setenv(vault.ROOT_VARIABLE, str(tmp_path / "root"))
    monkeypatch.setattr(vault, "_known", {})
    vault.make_campaign_key("tiny-1")
    (tmp_path / "run" / "trials").mkdir(parents=True)
    (tmp_path / "run" / "campaign.toml").write_text('campaign_id = "tiny-1"\n')
    return tmp_path / "run" / "journal.jsonl"


@pytest.fixture
def copied(path: Path) -> Path:
    """The same where there is a trusted copy."""
    copy = TrustedCopy.of(path.parent, "tiny-1")
    copy.make(path.parent)
    copy.campaign.write_text('campaign_id = "tiny-1"\n')
    return path


def write(path: Path, *events: Event) -> Journal:
    book = Journal(path, lambda event: None)
    for event in events:
        book.record(event)
    book.close()
    return book


def change(path: Path, how: str) -> None:
    path.write_bytes(b"".join(CHANGES[how](path.read_bytes().splitlines(keepends=True))))


@pytest.mark.parametrize("how", [how for how in CHANGES if how != "nothing is left"])
def test_a_changed_journal_is_refused_with_what_to_do(how: str, path: Path) -> None:
    write(path, *EVENTS)
    change(path, how)
    for look in (journal.read, lambda path: Journal(path, lambda event: None)):
        with pytest.raises(RunDirectoryError, match=r"journal\.jsonl:\d+: .*damaged.*restore"):
            look(path)


@pytest.mark.parametrize("how", CHANGES)
def test_where_there_is_a_copy_that_is_read_and_put_back(how: str, copied: Path) -> None:
    write(copied, *EVENTS)
    whole = copied.read_bytes()
    change(copied, how)
    changed = copied.read_bytes()
    assert journal.read(copied) == EVENTS
    assert copied.read_bytes() == changed, "who only reads writes nothing"
    seen: list[Event] = []
    book = Journal(copied, seen.append)
    assert (seen, book.was_restored) == (EVENTS, True)
    assert copied.read_bytes() == whole
    book.record(NoteTaken(name="next", text=""))
    book.close()
    assert journal.read(copied) == [*EVENTS, NoteTaken(name="next", text="")]
    assert not write(copied).was_restored


def test_any_byte_that_is_flipped_is_noticed(path: Path) -> None:
    write(path, *EVENTS)
    whole, draw = path.read_bytes(), random.Random(3)
    for _ in range(200):
        at = draw.randrange(len(whole))
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << draw.randrange(8)]) + whole[at + 1 :])
        try:
            found = journal.read(path)
        except RunDirectoryError:
            continue
        # Whose journal it is, campaign.toml says: nobody has the key of another id.
        if found and found[0] != EVENTS[0]:
            assert found[1:] == EVENTS[1:]
            continue
        # What is wrong with the last line alone may be what a kill left of it; without the line
        # end before it, it is the last two.
        assert found == EVENTS[: len(found)]
        assert len(found) >= len(EVENTS) - 2


def test_what_a_driver_adds_meanwhile_is_kept_whatever_becomes_of_the_file(copied: Path) -> None:
    book = Journal(copied, lambda event: None)
    book.record(EVENTS[0])
    attacks: list[Callable[[], object]] = [
        lambda: os.truncate(copied, 10),
        copied.unlink,
        lambda: copied.write_bytes(copied.read_bytes().replace(b"0", b"1")),
        lambda: (copied.unlink(), os.mkfifo(copied)),
        lambda: (copied.unlink(), copied.mkdir()),
        lambda: (copied.unlink(), copied.symlink_to("/dev/zero")),
    ]
    for event, attack in zip(EVENTS[1:], attacks, strict=False):
        attack()
        book.record(event)
        assert book.restore()
        assert not book.restore()
        assert journal.read(copied) == EVENTS[: EVENTS.index(event) + 1]
    copied.unlink()
    book.close()
    assert journal.read(copied) == EVENTS


def test_what_a_power_cut_took_of_the_copy_is_added_from_the_journal(copied: Path) -> None:
    write(copied, *EVENTS)
    copy = TrustedCopy.of(copied.parent, "tiny-1").journal
    for left in (b"", copy.read_bytes()[:-90], copy.read_bytes()[:-90] + b"\0" * 60 + b"\n"):
        copy.write_bytes(left)
        assert journal.read(copied) == EVENTS
        assert not write(copied).was_restored
        assert copy.read_bytes() == copied.read_bytes()


def test_what_was_forged_behind_all_that_drivers_wrote_is_cut_off(copied: Path) -> None:
    write(copied, *EVENTS)
    whole = copied.read_bytes()
    forged = resealed([NoteTaken(name=str(number), text="forged") for number in range(7, 9)])
    copied.write_bytes(whole + b"".join(forged))
    assert journal.read(copied) == EVENTS
    write(copied)
    assert copied.read_bytes() == whole


def test_a_journal_in_another_place_is_read_by_its_seals_alone(
    copied: Path, tmp_path: Path
) -> None:
    write(copied, *EVENTS)
    (tmp_path / "moved").mkdir()
    moved = tmp_path / "moved" / "journal.jsonl"
    moved.write_bytes(b"".join(copied.read_bytes().splitlines(keepends=True)[:-2]))
    assert journal.read(moved) == EVENTS[:-2]
    change(moved, "a letter is another")
    with pytest.raises(RunDirectoryError):
        journal.read(moved)


def test_who_lacks_the_key_sees_that_lines_are_lost(path: Path) -> None:
    write(path, *EVENTS)
    vault.forget_campaign_key("tiny-1")
    assert journal.read(path) == EVENTS
    with pytest.raises(RunDirectoryError, match=r"/tiny-1: .*paths\.private"):
        write(path, NoteTaken(name="next", text=""))
    change(path, "a line is lost")
    with pytest.raises(RunDirectoryError):
        journal.read(path)


def test_lines_of_earlier_versions_are_held_by_the_first_that_has_a_seal(path: Path) -> None:
    old = [
        json.dumps({"v": 5, "n": number, "t": 1.0, "event": event.model_dump()})
        for number, event in enumerate(EVENTS, 1)
    ]
    path.write_text("".join(f"{line}\n" for line in old))
    new = [NoteTaken(name="next", text=""), NoteTaken(name="last", text="")]
    write(path, *new)
    assert journal.read(path) == [*EVENTS, *new]
    path.write_text(path.read_text().replace("te 1", "te 9"))
    with pytest.raises(RunDirectoryError):
        journal.read(path)


def test_another_campaigns_journal_is_not_this_ones(path: Path) -> None:
    vault.make_campaign_key("other-2")
    write(path, CampaignStarted(campaign_id="other-2"))
    with pytest.raises(RunDirectoryError, match=r"\bother-2\b.*\btiny-1\b"):
        read_state(RunPaths(path.parent))
