"""What a driver keeps of each trial is little, and no more of the last than of the first."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

from event_kit import idea_proposed, trial_queued

from hpcscientist.history.journal import Journal
from hpcscientist.history.state import CampaignState
from hpcscientist.history.upcasting import JournalLine, SignatureChain, group, text_of
from hpcscientist.records.events import (
    AttemptWritten,
    Event,
    IdeaEnded,
    TrialEnded,
    TrialStarted,
)
from hpcscientist.records.idea import idea_id_of
from hpcscientist.records.trial import Scored, Stage, TrialReport, Usage

TRIALS = 1000
AN_IDEA = 4
BYTES = 2400  # of a trial with its share of its idea; measured: 1700, and 4300 as records
ONE_BY_ONE = 256 << 10  # on top of what is kept, while a journal is read


def events_of(number: int) -> Iterator[Event]:
    """An idea by the search, and its trials."""
    idea_id = idea_id_of(number)
    yield idea_proposed(number, f"Search {number}")
    yield AttemptWritten(
        idea_id=idea_id, attempt=1, code_hash=f"{number:064x}", parent=0, kind="draft", note_hash=""
    )
    for seed in range(AN_IDEA):
        trial_id = f"{idea_id}-a1-search-{seed}"
        yield trial_queued(trial_id, idea_id, Stage.SEEDS, seed)
        yield TrialStarted(trial_id=trial_id, run=1, generation=1)
        report = TrialReport(
            trial_id=trial_id,
            run=1,
            outcome=Scored(metrics={"accuracy": number / 7}),
            usage=Usage(started_at=number + 0.25, ended_at=number + 0.75, cpu_s=0.1, node="node-1"),
            predictions_hash=f"{number * seed:064x}",
        )
        yield TrialEnded(idea_id=idea_id, report=report)
    yield IdeaEnded(idea_id=idea_id, status="scored", reason=None, attempt=1)


def journal_of(ideas: int, path: Path) -> Path:
    events = (event for number in range(1, ideas + 1) for event in events_of(number))
    lines = (JournalLine(n=n, t=1.0, event=event) for n, event in enumerate(events, 1))
    path.write_bytes(group([text_of(line) for line in lines], SignatureChain()))
    return path


def taken_up(path: Path) -> tuple[int, int, CampaignState]:
    """Bytes that a driver which takes a journal up keeps, and the most that it held meanwhile."""
    state = CampaignState()
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        journal = Journal(path, state.apply)
        gc.collect()
        now, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    journal.close()
    return now - before, peak - before, state


def test_of_each_trial_little_is_kept(tmp_path: Path) -> None:
    taken_up(journal_of(10, tmp_path / "warm"))  # what is made once is no trial's
    half, _, _ = taken_up(journal_of(TRIALS // 2 // AN_IDEA, tmp_path / "half"))
    whole, peak, state = taken_up(journal_of(TRIALS // AN_IDEA, tmp_path / "whole"))
    assert len(state.trials) == TRIALS
    assert whole / TRIALS < BYTES
    assert (whole - half) / (TRIALS // 2) < BYTES, "the second half takes more than the first"
    assert peak - whole < ONE_BY_ONE, "the journal is held as a whole"


def test_a_report_is_read_back_as_it_was() -> None:
    events = list(events_of(3))
    state = CampaignState()
    for event in events:
        state.apply(event)
    for event in events:
        if isinstance(event, TrialEnded):
            trial = state.trials[event.report.trial_id]
            assert (trial.report, trial.infra_failed) == (event.report, False)


def test_a_number_that_is_none_is_kept_too() -> None:
    *begun, ended, _ = events_of(1)
    assert isinstance(ended, TrialEnded)
    odd = Scored(metrics={"accuracy": float("nan"), "loss": float("-inf")})
    state = CampaignState()
    report = ended.report.model_copy(update={"outcome": odd})
    for event in (*begun, TrialEnded(idea_id=ended.idea_id, report=report)):
        state.apply(event)
    kept = state.trials[report.trial_id].report
    assert kept is not None
    assert str(kept.outcome) == str(odd)
