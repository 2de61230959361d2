"""Improvements confirmed beside the loop: when, with what, once; and what is said of them."""

from __future__ import annotations

import asyncio
import re
import zlib
from pathlib import Path

import pytest
from bench_campaign import CampaignBench, ScriptedProposer, scored

from hpcscientist.campaign.proposals.proposal_context import Knowledge
from hpcscientist.campaign.specs import fresh_seeds
from hpcscientist.errors import MachineTrouble, RunDirectoryError
from hpcscientist.feedback import summary as feedback
from hpcscientist.history import frozen, journal
from hpcscientist.judgement.summary import read_rows
from hpcscientist.launching.costs import spending
from hpcscientist.records.events import Event, IdeaEnded, NoteTaken, SplitSpent, TrialQueued
from hpcscientist.records.findings import ResultRow, Verdict
from hpcscientist.records.idea import BASELINE_ID
from hpcscientist.records.proposing import ProposalTask, Proposed
from hpcscientist.records.trial import (
    IdeaFailed,
    IdeaFailure,
    Outcome,
    Split,
    Stage,
    TrialSpec,
)

WORDS = ("alpha beta gamma", "delta epsilon zeta", "eta theta iota", "kappa lambda mu")
TRUE, LUCKY, NOTHING = "idea-0001", "idea-0002", "idea-0003"


def judge(spec: TrialSpec) -> Outcome:
    """One idea gains 0.2 wherever it runs, one on the validation split alone."""
    noise = zlib.crc32(f"{spec.idea_id} {spec.seed}".encode()) % 97 / 1e4
    gains = {TRUE: 0.2, LUCKY: 0.2 if spec.split is Split.VALIDATION else 0.0}
    return scored(0.5 + gains.get(spec.idea_id, 0.0) + noise)


def on_test(spec: TrialSpec, idea_id: str) -> bool:
    return spec.split is Split.TEST and spec.idea_id == idea_id


def without_a_baseline(spec: TrialSpec) -> Outcome:
    """The same, but for the reference, which fails on the test split."""
    if on_test(spec, BASELINE_ID):
        return IdeaFailed(failure=IdeaFailure.ERROR, detail="KeyError: 'test'")
    return judge(spec)


def row_of(bench: CampaignBench, idea_id: str) -> ResultRow:
    return next(row for row in read_rows(bench.paths).rows if row.idea_id == idea_id)


def events_of(bench: CampaignBench) -> list[Event]:
    return journal.read(bench.paths.journal)


def spent_of(bench: CampaignBench) -> list[SplitSpent]:
    """Of the ideas, in order."""
    spent = (event for event in events_of(bench) if isinstance(event, SplitSpent))
    return [event for event in spent if event.idea_id != BASELINE_ID]


def noted(bench: CampaignBench, name: str) -> list[str]:
    """What people are told under a name of notes."""
    notes = (event for event in events_of(bench) if isinstance(event, NoteTaken))
    told = [note.text for note in notes if note.name == name]
    assert set(told) <= set(read_rows(bench.paths).notes)
    return told


def confirm_queued(bench: CampaignBench) -> list[TrialQueued]:
    queued = (event for event in events_of(bench) if isinstance(event, TrialQueued))
    return [event for event in queued if event.stage is Stage.CONFIRM]


async def test_a_true_improvement_is_confirmed_and_a_lucky_one_is_not(tmp_path: Path) -> None:
    bench = CampaignBench(tmp_path, ideas=3)
    backend = await bench.drive(judge, ScriptedProposer(*WORDS))
    true, lucky, nothing = (row_of(bench, i) for i in (TRUE, LUCKY, NOTHING))
    assert true.finding is lucky.finding is Verdict.IMPROVEMENT
    assert (true.confirmed, lucky.confirmed, nothing.confirmed) == (True, False, None)
    assert true.test_delta == pytest.approx(0.2, abs=5e-3)
    assert true.test_ci_low is not None
    assert true.test_ci_low > 0.19
    assert true.shrinkage == pytest.approx(0.0, abs=0.05)
    assert lucky.shrinkage == pytest.approx(1.0, abs=0.05)
    assert "not confirmed: " in str(lucky.reason)
    assert true.reason is None
    assert nothing.test_delta is None
    said = read_rows(bench.paths).confirmation
    assert said.startswith("1 of 2 improvements")
    assert f"{LUCKY} not confirmed: " in said
    assert TRUE not in said
    cost = spending.read(bench.paths)
    assert (cost.found.improvements, cost.found.confirmed) == (2, 1)
    confirmed = [trial for trial, _ in backend.ran if "-confirm-" in trial]
    assert len(confirmed) == len(set(confirmed)) == 3 * bench.seeds, "the baseline once"


async def test_the_journal_proves_that_the_split_is_spent_once_an_idea(tmp_path: Path) -> None:
    bench = CampaignBench(tmp_path, ideas=3)
    await bench.drive(judge, ScriptedProposer(*WORDS))
    assert [event.idea_id for event in spent_of(bench)] == [TRUE, LUCKY]
    spent: dict[str, SplitSpent] = {}
    for event in events_of(bench):
        if isinstance(event, SplitSpent):
            spent[event.idea_id] = event
        elif isinstance(event, TrialQueued):
            on_validation = event.stage is not Stage.CONFIRM
            seeds = {seed for one in spent.values() for seed in one.seeds}
            assert on_validation is (event.seed not in seeds)
            assert on_validation or event.idea_id in {BASELINE_ID, *spent}
    searched = {t.seed for t in bench.state.trials.values() if t.stage is not Stage.CONFIRM}
    assert not searched & set(fresh_seeds(0, bench.seeds, 2 * bench.seeds))
    assert {event.run for event in confirm_queued(bench)} == {1}


class Waiting(ScriptedProposer):
    """Proposes its last idea only once the first is let to the test split."""

    def __init__(self, bench: CampaignBench) -> None:
        super().__init__(*WORDS)
        self._bench = bench

    async def propose(self, task: ProposalTask) -> Proposed:
        async def spent() -> None:
            while self._bench.state.ideas[TRUE].spent is None:  # noqa: ASYNC110 (the loop's own)
                await asyncio.sleep(0)

        if task.number == 4:
            await asyncio.wait_for(spent(), timeout=300)
        return await super().propose(task)


async def test_in_steady_state_ideas_are_confirmed_while_the_campaign_goes_on(
    tmp_path: Path,
) -> None:
    bench = CampaignBench(tmp_path, ideas=4)
    await bench.drive(judge, Waiting(bench))
    assert row_of(bench, TRUE).confirmed


@pytest.mark.parametrize("loop", [{}, {"error_control": "batch"}, {"decision": "point"}])
async def test_judged_in_a_batch_they_are_confirmed_at_the_end(
    tmp_path: Path, loop: dict[str, object]
) -> None:
    bench = CampaignBench(tmp_path, ideas=4)
    bench.configure(loop=loop)
    if not loop:
        settings = bench.config.settings.model_copy(update={"rounds": 2})
        bench.config = bench.config.model_copy(update={"settings": settings})
    frozen.write(bench.paths, bench.config)
    await bench.drive(judge, ScriptedProposer(*WORDS))
    events = events_of(bench)
    first = next(i for i, event in enumerate(events) if isinstance(event, SplitSpent))
    last = max(i for i, event in enumerate(events) if isinstance(event, IdeaEnded))
    assert last < first
    assert row_of(bench, TRUE).confirmed


async def test_an_idea_behind_one_that_waits_for_the_machine_is_not_confirmed_yet(
    tmp_path: Path,
) -> None:
    bench = CampaignBench(tmp_path, ideas=2, machine_retries=0)

    def first_lost(spec: TrialSpec) -> Outcome | None:
        lost = spec.idea_id == TRUE and spec.stage is Stage.PILOT and spec.run == 1
        return None if lost else judge(spec)

    with pytest.raises(MachineTrouble):
        await bench.drive(first_lost, ScriptedProposer(*WORDS))
    assert spent_of(bench) == []
    await bench.drive(first_lost, ScriptedProposer(*WORDS))
    assert [event.idea_id for event in spent_of(bench)] == [TRUE, LUCKY]


async def test_an_idea_that_fails_on_the_test_split_is_not_confirmed(tmp_path: Path) -> None:
    bench = CampaignBench(tmp_path, ideas=1)

    def slow(spec: TrialSpec) -> Outcome:
        if on_test(spec, TRUE) and spec.trial_id.endswith("-2"):
            return IdeaFailed(failure=IdeaFailure.TIMEOUT, detail="took too long")
        return judge(spec)

    await bench.drive(slow, ScriptedProposer(*WORDS))
    row = row_of(bench, TRUE)
    assert (row.finding, row.confirmed) == (Verdict.IMPROVEMENT, False)
    assert row.test_delta is None
    assert re.search(r"idea-0001-a1-confirm-2 .*\(timeout: took ", str(row.reason))


async def test_a_reference_that_fails_on_the_test_split_says_nothing_of_the_ideas(
    tmp_path: Path,
) -> None:
    bench = CampaignBench(tmp_path, ideas=1)
    await bench.drive(without_a_baseline, ScriptedProposer(*WORDS))
    row = row_of(bench, TRUE)
    assert (row.finding, row.confirmed) == (Verdict.IMPROVEMENT, None)
    assert "baseline-a1-confirm-0 failed" in str(row.reason)
    (note,) = noted(bench, "baseline unconfirmed")
    assert "baseline-a1-confirm-0" in note
    await bench.drive(without_a_baseline, ScriptedProposer(*WORDS))
    assert spent_of(bench) == [], "no look is spent where nothing can be compared"
    assert {event.idea_id for event in confirm_queued(bench)} == {BASELINE_ID}


async def test_a_driver_that_was_killed_before_it_said_so_leaves_that_to_the_next(
    tmp_path: Path,
) -> None:
    bench = CampaignBench(tmp_path, ideas=1)
    await bench.drive(without_a_baseline, ScriptedProposer(*WORDS))
    lines = bench.paths.journal.read_bytes().splitlines(keepends=True)
    said = next(n for n, line in enumerate(lines) if b'"baseline unconfirmed"' in line)
    bench.paths.journal.write_bytes(b"".join(lines[:said]))
    assert noted(bench, "baseline unconfirmed") == []
    await bench.drive(without_a_baseline, ScriptedProposer(*WORDS))
    assert len(noted(bench, "baseline unconfirmed")) == 1


@pytest.mark.parametrize("whose", [TRUE, BASELINE_ID])
async def test_what_the_machine_fails_is_no_evidence_and_resume_tries_anew(
    tmp_path: Path, whose: str
) -> None:
    bench = CampaignBench(tmp_path, ideas=1, machine_retries=1)

    def lost(spec: TrialSpec) -> Outcome | None:
        return None if on_test(spec, whose) and spec.trial_id.endswith("-1") else judge(spec)

    with pytest.raises(MachineTrouble, match="confirmation"):
        await bench.drive(lost, ScriptedProposer(*WORDS))
    row = row_of(bench, TRUE)
    assert (row.finding, row.confirmed) == (Verdict.IMPROVEMENT, None)
    assert f"{whose}-a1-confirm-1 failed" in str(row.reason)
    again = await bench.drive(judge, ScriptedProposer(*WORDS))
    held_up = [f"{TRUE}-a1-confirm-{i}" for i in range(bench.seeds)] if whose != TRUE else []
    assert [trial for trial, _ in again.ran] == [f"{whose}-a1-confirm-1", *held_up]
    assert row_of(bench, TRUE).confirmed
    assert len(spent_of(bench)) == 1


async def test_what_the_machine_fails_under_two_drivers_is_given_up(tmp_path: Path) -> None:
    bench = CampaignBench(tmp_path, ideas=1, machine_retries=0)

    def lost(spec: TrialSpec) -> Outcome | None:
        return None if on_test(spec, TRUE) else judge(spec)

    with pytest.raises(MachineTrouble):
        await bench.drive(lost, ScriptedProposer(*WORDS))
    await bench.drive(lost, ScriptedProposer(*WORDS))
    row = row_of(bench, TRUE)
    assert row.confirmed is None
    assert "idea-0001-a1-confirm-0 failed (lost)" in str(row.reason)
    assert read_rows(bench.paths).confirmation.startswith("0 of 1 improvements")


class KilledError(Exception):
    pass


def dies_on_test(spec: TrialSpec) -> Outcome:
    if on_test(spec, TRUE):
        raise KilledError
    return judge(spec)


async def test_killed_after_the_split_was_spent_nothing_is_spent_twice(tmp_path: Path) -> None:
    bench = CampaignBench(tmp_path, ideas=3)
    with pytest.raises(KilledError):
        await bench.drive(dies_on_test, ScriptedProposer(*WORDS))
    before = spent_of(bench)
    assert before[0].idea_id == TRUE
    await bench.drive(judge, ScriptedProposer(*WORDS))
    after = spent_of(bench)
    assert after[: len(before)] == before
    assert [event.idea_id for event in after] == [TRUE, LUCKY]
    assert row_of(bench, TRUE).confirmed


async def test_a_verdict_that_changes_later_gives_no_split_back(tmp_path: Path) -> None:
    bench = CampaignBench(tmp_path, ideas=1)
    with pytest.raises(KilledError):
        await bench.drive(dies_on_test, ScriptedProposer(*WORDS))
    bench.configure(loop={"q": 1e-12})
    frozen.write(bench.paths, bench.config)
    await bench.drive(judge, ScriptedProposer(*WORDS))
    assert len(confirm_queued(bench)) == 2 * bench.seeds
    row = row_of(bench, TRUE)
    assert row.finding is Verdict.MAINTENANCE
    assert row.test_delta == pytest.approx(0.2, abs=5e-3)


async def test_other_code_than_was_measured_is_not_confirmed(tmp_path: Path) -> None:
    bench = CampaignBench(tmp_path, ideas=2)
    code = bench.paths.idea(TRUE).code(1) / "experiment.py"
    known: list[str] = []

    def damages(spec: TrialSpec) -> Outcome:
        if on_test(spec, BASELINE_ID) and not known:
            known.append(code.read_text())
            code.chmod(0o644)
            code.write_text("print('other')\n")
        return judge(spec)

    with pytest.raises(RunDirectoryError, match=f"{code.parent}: .*measured"):
        await bench.drive(damages, ScriptedProposer(*WORDS))
    assert [event.idea_id for event in spent_of(bench)] == [LUCKY], "the others go on"
    assert row_of(bench, LUCKY).confirmed is False
    assert len(noted(bench, f"{TRUE} damaged")) == 1
    code.write_text(known[0])
    await bench.drive(judge, ScriptedProposer(*WORDS))
    assert row_of(bench, TRUE).confirmed


async def test_predictions_of_another_idea_are_no_finding_of_their_own(tmp_path: Path) -> None:
    bench = CampaignBench(tmp_path, ideas=2)
    bench.predictions = lambda spec: (
        "baseline's" if spec.idea_id == BASELINE_ID else f"of {spec.seed}"
    )
    await bench.drive(judge, ScriptedProposer(*WORDS))
    first, copy = row_of(bench, TRUE), row_of(bench, LUCKY)
    assert (first.finding, first.confirmed) == (Verdict.IMPROVEMENT, True)
    assert (copy.finding, copy.confirmed) == (None, None)
    assert copy.reason == f"its predictions are those of {TRUE}"
    assert copy.delta is not None
    assert [event.idea_id for event in spent_of(bench)] == [TRUE]


async def test_predictions_copied_on_the_test_split_alone_confirm_nothing(tmp_path: Path) -> None:
    bench = CampaignBench(tmp_path, ideas=2)

    def copied(spec: TrialSpec) -> str:
        if spec.split is Split.TEST and spec.idea_id != BASELINE_ID:
            return f"of {spec.seed}"
        return f"{spec.idea_id} {spec.seed}"

    def both(spec: TrialSpec) -> Outcome:
        return judge(spec.model_copy(update={"idea_id": TRUE})) if spec.round else judge(spec)

    bench.predictions = copied
    await bench.drive(both, ScriptedProposer(*WORDS))
    assert row_of(bench, TRUE).confirmed is True
    row = row_of(bench, LUCKY)
    assert row.confirmed is False
    assert row.reason == f"not confirmed: its predictions are those of {TRUE}"


async def test_confirmation_can_be_switched_off_and_its_seeds_chosen(tmp_path: Path) -> None:
    bench = CampaignBench(tmp_path / "off", ideas=1)
    bench.configure(loop={"confirm": False})
    frozen.write(bench.paths, bench.config)
    await bench.drive(judge, ScriptedProposer(*WORDS))
    assert spent_of(bench) == confirm_queued(bench) == []
    assert row_of(bench, TRUE).confirmed is None
    assert read_rows(bench.paths).confirmation == ""
    assert spending.read(bench.paths).found.confirmed is None
    bench = CampaignBench(tmp_path / "more", ideas=1)
    bench.configure(loop={"confirm_seeds": 8})
    await bench.drive(judge, ScriptedProposer(*WORDS))
    assert len(confirm_queued(bench)) == 2 * 8
    assert row_of(bench, TRUE).confirmed


async def test_a_run_directory_of_an_earlier_version_goes_on_without(tmp_path: Path) -> None:
    bench = CampaignBench(tmp_path, ideas=1)
    text = bench.paths.campaign.read_text()
    lines = [line for line in text.splitlines() if not line.startswith("confirm")]
    bench.paths.campaign.write_text("\n".join(lines))
    assert not frozen.read(bench.paths).settings.loop.confirm


async def test_changed_results_of_a_confirmation_confirm_nothing(tmp_path: Path) -> None:
    bench = CampaignBench(tmp_path, ideas=1)
    await bench.drive(judge, ScriptedProposer(*WORDS))
    bench.paths.trial("idea-0001-a1-confirm-0").result.unlink()
    row, summary = row_of(bench, TRUE), read_rows(bench.paths)
    assert (row.finding, row.confirmed) == (Verdict.IMPROVEMENT, None)
    assert "gone" in str(row.reason)
    assert summary.missing.count == 1


async def test_nothing_of_the_test_split_is_told_to_a_proposer(tmp_path: Path) -> None:
    bench = CampaignBench(tmp_path, ideas=4)

    def telling(spec: TrialSpec) -> Outcome:
        return scored(0.98765) if on_test(spec, TRUE) else judge(spec)

    proposer = Waiting(bench)
    await bench.drive(telling, proposer)
    told = "".join(task.model_dump_json() for task in proposer.tasks)
    assert "idea-0001" in told
    assert "9876" not in told
    assert "confirm" not in told


async def test_without_the_baselines_results_on_the_test_split_nothing_is_confirmed(
    tmp_path: Path,
) -> None:
    bench = CampaignBench(tmp_path, ideas=1)
    await bench.drive(judge, ScriptedProposer(*WORDS))
    bench.paths.trial("baseline-a1-confirm-0").result.unlink()
    row, summary = row_of(bench, TRUE), read_rows(bench.paths)
    assert (row.finding, row.confirmed) == (Verdict.IMPROVEMENT, None)
    assert summary.missing.count == 1
    assert summary.missing.test[BASELINE_ID] == 1
    assert "test split" in summary.missing.warning


@pytest.mark.parametrize("arm", ["model", "control"])
async def test_a_proposer_is_told_of_a_copy_and_of_no_idea_of_the_control_arm(
    tmp_path: Path, arm: str
) -> None:
    bench = CampaignBench(tmp_path, ideas=2)
    bench.predictions = lambda spec: (
        "baseline's" if spec.idea_id == BASELINE_ID else f"of {spec.seed}"
    )
    await bench.drive(judge, ScriptedProposer(*WORDS))
    if arm == "control":
        bench.state.ideas[TRUE].arm = "control"
    spec, settings = bench.recipe.spec, bench.config.settings
    known = bench.paths, bench.state, spec.objective
    knowledge = Knowledge(*known, settings, 10_000, 10, seeds=spec.seeds)
    text = knowledge.feedback().text
    assert feedback._UNDECIDED not in text
    told = f"its predictions are those of {TRUE if arm == 'model' else 'an earlier idea'}"
    assert told in text
    assert (TRUE in text) is (arm == "model")
