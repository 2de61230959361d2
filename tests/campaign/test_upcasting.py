"""Journals of the first version are read as if this one had written them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from bench_campaign import CampaignBench, ScriptedProposer, scored
from event_kit import driver_started, idea_proposed, trial_queued

from hpcscientist.errors import RunDirectoryError
from hpcscientist.history import journal
from hpcscientist.history.journal import Journal
from hpcscientist.history.state import fold
from hpcscientist.history.status import status
from hpcscientist.history.upcasting import VERSION
from hpcscientist.launching.jobs.follow import JournalTail
from hpcscientist.records.events import NoteTaken, ReplyRecorded
from hpcscientist.records.trial import Outcome, Stage, TrialSpec

# What the first version's lines lacked. Some of it came in its course, so lines differ.
LACKED = {
    "driver_started": ("package_version", "package_hash", "python"),
    "driver_stopped": ("lets_go",),
    "reply_recorded": ("role", "asked"),
    "idea_proposed": ("arm", "summary", "knobs", "shown", "idea_hash"),
    "attempt_written": ("parent", "kind", "note_hash"),
    "trial_queued": ("generation",),
    "seeds_decided": ("given_up",),
    "idea_ended": ("like", "vetted"),
    "author_gave_up": ("attempt",),
    "trial_ended": ("at",),
}
UNKNOWN_THEN = (
    "idea_admitted",
    "proposals_exhausted",
    "idea_planned",
    "idea_briefed",
    "ideas_judged",
    "confirmation_set_aside",
    "idea_set_aside",
    "results_compacted",
)


def plain(spec: TrialSpec) -> Outcome:
    return scored(0.5 + spec.seed % 7 / 100)


def as_of_version_1(path: Path) -> list[dict[str, Any]]:
    """Rewrite a journal as the first version would have written it; return its lines."""
    events = [json.loads(text)["event"] for text in path.read_bytes().splitlines()]
    kept = [event for event in events if event["type"] not in UNKNOWN_THEN]
    for event in kept:
        for name in LACKED.get(event["type"], ()):
            event.pop(name, None)
    lines = [{"n": n, "t": 1.5, "event": event} for n, event in enumerate(kept, 1)]
    path.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))
    return lines


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(text) for text in path.read_bytes().splitlines()]


async def test_what_was_lacking_is_filled_in(tmp_path: Path) -> None:
    bench = CampaignBench(tmp_path, ideas=2)
    await bench.drive(plain, ScriptedProposer("one two", "three four"))
    whole = bench.state
    as_of_version_1(bench.paths.journal)
    state = fold(journal.read(bench.paths.journal))
    for idea in whole.ideas.values():  # that alone is not known
        idea.note_hashes = dict.fromkeys(idea.note_hashes, "")
        idea.briefed = None
        idea.changes = state.ideas[idea.idea_id].changes  # lines there are fewer of
    for trial in whole.trials.values():
        trial.ended_at = 0.0
    assert whole.progress.judged_last
    whole.progress.judged_at, whole.progress.judged_last = 0, False
    assert state == whole


async def test_the_next_driver_goes_on_in_the_same_file(tmp_path: Path) -> None:
    bench = CampaignBench(tmp_path, ideas=2)
    stops = ScriptedProposer("one two", RuntimeError("stop"))
    with pytest.raises(RuntimeError, match="stop"):
        await bench.drive(plain, stops)
    before = as_of_version_1(bench.paths.journal)
    backend = await bench.drive(plain, ScriptedProposer("one two", "three four"))
    assert {status for status, _ in bench.ended().values()} == {"scored"}
    assert not [name for name, _ in backend.ran if name in json.dumps(before)], "run twice"
    after = lines_of(bench.paths.journal)
    assert after[: len(before)] == before
    assert {line["v"] for line in after[len(before) :]} == {VERSION}
    assert [line["n"] for line in after] == list(range(1, len(after) + 1))
    assert fold(journal.read(bench.paths.journal)) == bench.state


def test_a_trial_belongs_to_the_driver_that_queued_it(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    book = Journal(path, lambda event: None)
    for event in (
        driver_started(1),
        trial_queued("a", "baseline", Stage.BASELINE),
        driver_started(3),
        trial_queued("b", "baseline", Stage.BASELINE),
    ):
        book.record(event)
    book.close()
    as_of_version_1(path)
    trials = fold(journal.read(path)).trials
    queued = [event for event in journal.read(path) if event.type == "trial_queued"]
    assert [event.generation for event in queued] == [1, 3]
    tail = JournalTail(path)
    tail.read()
    assert tail.state.trials == trials


def test_a_reply_was_asked_once_and_its_role_follows_from_its_call(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    told = {
        "type": "reply_recorded",
        "idea_id": "idea-0001",
        "call": "code/1",
        "prompt_tokens": 1,
        "completion_tokens": 2,
        "tokens_estimated": False,
        "latency_s": 0.5,
    }
    path.write_text(json.dumps({"n": 1, "t": 1.0, "event": told}) + "\n")
    (event,) = journal.read(path)
    assert isinstance(event, ReplyRecorded)
    assert (event.role, event.asked) == ("code", 1)
    assert event.key == "reply_recorded/idea-0001/code/1"


@pytest.mark.parametrize(
    "content",
    [None, b"", b"{}", b"[]", b"[" * 100_000, b'{"proposal": {"summary": 1}, "knobs": [1]}'],
)
def test_an_idea_without_a_file_that_can_be_read_is_known_all_the_same(
    content: bytes | None, tmp_path: Path
) -> None:
    """Who needs the file says that it is gone; `status` and `results` do not."""
    path = tmp_path / "journal.jsonl"
    book = Journal(path, lambda event: None)
    book.record(idea_proposed(1, "a title"))
    book.close()
    as_of_version_1(path)
    if content is not None:
        (tmp_path / "ideas" / "idea-0001").mkdir(parents=True)
        (tmp_path / "ideas" / "idea-0001" / "idea.json").write_bytes(content)
    (idea,) = fold(journal.read(path)).ideas.values()
    assert (idea.title, idea.arm, idea.summary, idea.idea_hash) == ("a title", "model", "", "")


def test_a_journal_of_a_later_version_is_refused_with_what_to_do(tmp_path: Path) -> None:
    bench = CampaignBench(tmp_path, ideas=1)
    path = bench.paths.journal
    book = Journal(path, lambda event: None)
    book.record(NoteTaken(name="a", text="b"))
    book.close()
    later = {"v": VERSION + 1, "n": 2, "t": 1.0, "event": {"type": "unheard_of"}}
    text = path.read_text() + json.dumps(later, separators=(",", ":")) + "\n"
    path.write_text(text)
    words = rf"line 2 was written by a later version .* \(journal version {VERSION + 1}"
    for read in (
        lambda: journal.read(path),
        lambda: Journal(path, lambda event: None),
        lambda: JournalTail(path).read(),
        lambda: status(bench.paths),
    ):
        with pytest.raises(RunDirectoryError, match=words):
            read()
    assert path.read_text() == text, "what this version does not know was cut off"


@pytest.mark.parametrize("version", [0, -1, "2", None, 2.5, True, []])
def test_a_version_that_is_none_is_damage(version: object, tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    event = {"type": "campaign_started", "campaign_id": "c"}
    path.write_text(json.dumps({"n": 1, "t": 1.0, "event": event}) + "\n")
    assert len(journal.read(path)) == 1
    path.write_text(json.dumps({"v": version, "n": 1, "t": 1.0, "event": event}) + "\nmore\n")
    with pytest.raises(RunDirectoryError, match=r"journal\.jsonl:1: is damaged"):
        journal.read(path)
