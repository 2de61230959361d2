"""What must be on the disk before it is acted upon, while events are written in groups."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench_campaign import CampaignBench, ScriptedAuthor, ScriptedProposer, scored

from hpcscientist.history import journal
from hpcscientist.history.journal import Journal
from hpcscientist.history.upcasting import JournalLine
from hpcscientist.records.authoring import Brief, Draft, GaveUp
from hpcscientist.records.events import Event, IdeaBriefed, IdeaEnded, TrialEnded, TrialQueued
from hpcscientist.records.proposing import ProposalTask, Proposed
from hpcscientist.records.trial import Outcome, TrialSpec

WORDS = tuple(f"{a}0 {a}1 {a}2 {a}3" for a in "abcdef")


async def test_what_is_acted_upon_is_on_the_disk_before(tmp_path: Path) -> None:
    bench = CampaignBench(tmp_path, len(WORDS))
    asked: set[str] = set()

    def expect(what: str, kind: type[Event], idea_id: str) -> None:
        asked.add(what)
        events = journal.read(bench.paths.journal)
        assert any(isinstance(e, kind) and e.idea_id == idea_id for e in events), (what, idea_id)

    class Proposer(ScriptedProposer):
        async def propose(self, task: ProposalTask) -> Proposed:
            for idea_id in task.shown:
                expect("proposal", IdeaEnded, idea_id)
            return await super().propose(task)

    class Author(ScriptedAuthor):
        async def write(self, brief: Brief) -> Draft | GaveUp:
            expect("code", IdeaBriefed, brief.idea.idea_id)
            return await super().write(brief)

    def judge(spec: TrialSpec) -> Outcome:
        expect("trial", TrialQueued, spec.idea_id)
        return scored(0.5 + 0.01 * spec.seed)

    await bench.drive(judge, Proposer(*WORDS), Author(bench.recipe))
    assert asked == {"proposal", "code", "trial"}


async def test_a_trial_that_ended_waits_for_the_next_ones_intent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With nobody to ask between two trials they cost one sync and not two."""
    groups: list[list[Event]] = []
    flush = Journal.flush

    def counted(self: Journal) -> None:
        if self._unwritten:
            groups.append([JournalLine.model_validate_json(text).event for text in self._unwritten])
        flush(self)

    monkeypatch.setattr(Journal, "flush", counted)
    bench = CampaignBench(tmp_path, 2)
    await bench.drive(lambda spec: scored(0.5), ScriptedProposer(*WORDS[:2]))
    together = [
        event.trial_id
        for group in groups
        for at, event in enumerate(group)
        if isinstance(event, TrialQueued)
        and any(
            isinstance(e, TrialEnded) and e.report.trial_id != event.trial_id for e in group[:at]
        )
    ]
    assert len(together) > 4
