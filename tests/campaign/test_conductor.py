from __future__ import annotations

import asyncio
import errno
import os
import random
import zlib
from itertools import pairwise
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from bench_campaign import CampaignBench, ScriptedAuthor, ScriptedProposer, scored
from event_kit import driver_started, rewrite

from hpcscientist.config.extent import Extent
from hpcscientist.errors import (
    BaselineFailed,
    DiskFull,
    MachineTrouble,
    PlaybookExhausted,
    ReplyError,
    RunDirectoryError,
)
from hpcscientist.history import journal
from hpcscientist.history.status import status
from hpcscientist.ideation.search import STARTUP_TRIALS
from hpcscientist.judgement.summary import read_rows
from hpcscientist.records.events import ResultsCompacted
from hpcscientist.records.findings import Verdict
from hpcscientist.records.idea import BASELINE_ID
from hpcscientist.records.trial import (
    IdeaFailed,
    IdeaFailure,
    MachineFailed,
    MachineFailure,
    Outcome,
    Scored,
    Stage,
    TrialSpec,
)
from hpcscientist.results import compact as compaction
from hpcscientist.results import store
from hpcscientist.results.scan import part_files

WORDS = ("alpha beta gamma", "delta epsilon zeta", "eta theta iota", "kappa lambda mu")


def noise(spec: TrialSpec) -> float:
    return zlib.crc32(f"{spec.idea_id} {spec.seed}".encode()) % 97 / 1e4


def plain(spec: TrialSpec) -> Outcome:
    return scored(0.5 + noise(spec))


class RaisingAuthor(ScriptedAuthor):
    """The driver fails where code is to be written."""

    async def write(self, brief):  # type: ignore[no-untyped-def]
        raise RuntimeError("stop")


def is_pilot(spec: TrialSpec) -> bool:
    """Whether it is an idea's pilot; the reference has one too."""
    return spec.stage is Stage.PILOT and spec.idea_id != BASELINE_ID


def crash(detail: str = "ValueError: x") -> IdeaFailed:
    return IdeaFailed(failure=IdeaFailure.ERROR, detail=detail)


async def test_idea_runs_pilot_then_all_seeds_of_the_baseline(tmp_path: Path) -> None:
    bench = CampaignBench(tmp_path, ideas=1)
    backend = await bench.drive(plain, ScriptedProposer(*WORDS))
    specs = bench.state.trials.values()
    seeds = {s: [t.seed for t in specs if t.stage is s] for s in Stage}
    assert seeds[Stage.BASELINE] == seeds[Stage.SEEDS]
    assert len(set(seeds[Stage.SEEDS])) == bench.seeds
    assert seeds[Stage.PILOT] == 2 * seeds[Stage.SEEDS][:1]  # the reference has one too
    assert seeds[Stage.CONFIRM] == []
    assert len(backend.ran) == 2 * (1 + bench.seeds)
    assert bench.ended() == {"idea-0001": ("scored", None)}


async def test_improvement_needs_all_seeds_and_the_baseline(tmp_path: Path) -> None:
    bench = CampaignBench(tmp_path, ideas=2)

    def judge(spec: TrialSpec) -> Outcome:
        gain = 0.2 if spec.idea_id == "idea-0001" else 0.0
        return scored(0.5 + gain + noise(spec))

    await bench.drive(judge, ScriptedProposer(*WORDS))
    rows = read_rows(bench.paths).rows
    assert [row.status for row in rows] == ["baseline", "scored", "scored"]
    assert [row.finding for row in rows] == [None, Verdict.IMPROVEMENT, Verdict.MAINTENANCE]
    assert rows[1].delta == pytest.approx(0.2, abs=1e-3)
    assert rows[0].delta is None


async def test_failed_attempt_is_fixed(tmp_path: Path) -> None:
    bench = CampaignBench(tmp_path, ideas=1)
    author = ScriptedAuthor(bench.recipe, fixes=1)

    def judge(spec: TrialSpec) -> Outcome:
        return crash() if is_pilot(spec) and spec.attempt == 1 else plain(spec)

    await bench.drive(judge, ScriptedProposer(*WORDS), author)
    assert bench.ended() == {"idea-0001": ("scored", None)}
    assert [(task.round, task.earlier, len(task.seen)) for task in author.tasks] == [(1, (), 1)]
    row = read_rows(bench.paths).rows[1]
    assert (row.attempts, row.n) == (2, bench.seeds)


async def test_rounds_of_debugging_are_bounded(tmp_path: Path) -> None:
    bench = CampaignBench(tmp_path, ideas=1, debug_rounds=2)
    author = ScriptedAuthor(bench.recipe, fixes=99)

    def judge(spec: TrialSpec) -> Outcome:
        return plain(spec) if spec.idea_id == BASELINE_ID else crash()

    await bench.drive(judge, ScriptedProposer(*WORDS), author)
    assert bench.ended() == {"idea-0001": ("failed", "error: ValueError: x; after 3 attempts")}
    assert len(author.tasks) == 2
    assert author.tasks[1].earlier == ("idea-0001 version 2",)


async def test_tampering_is_not_fixed(tmp_path: Path) -> None:
    bench = CampaignBench(tmp_path, ideas=1)
    author = ScriptedAuthor(bench.recipe, fixes=99)
    caught = IdeaFailed(failure=IdeaFailure.TAMPERING, detail="it wrote result.arrow")

    def judge(spec: TrialSpec) -> Outcome:
        return plain(spec) if spec.idea_id == BASELINE_ID else caught

    await bench.drive(judge, ScriptedProposer(*WORDS), author)
    assert bench.ended()["idea-0001"][0] == "failed"
    assert author.tasks == []


async def test_later_failure_does_not_discard_good_seeds(tmp_path: Path) -> None:
    bench = CampaignBench(tmp_path, ideas=1)

    def judge(spec: TrialSpec) -> Outcome:
        last = spec.trial_id.endswith(f"search-{bench.seeds - 1}")
        return crash() if last else plain(spec)

    await bench.drive(judge, ScriptedProposer(*WORDS))
    row = read_rows(bench.paths).rows[1]
    assert (row.status, row.finding, row.p_adjusted) == ("failed", None, None)
    assert row.n == bench.seeds - 1
    assert row.mean is not None


async def test_machine_failures_are_retried_within_the_budget(tmp_path: Path) -> None:
    bench = CampaignBench(tmp_path, ideas=1, machine_retries=2)

    def judge(spec: TrialSpec) -> Outcome | None:
        return None if is_pilot(spec) and spec.run < 3 else plain(spec)

    backend = await bench.drive(judge, ScriptedProposer(*WORDS))
    assert bench.ended() == {"idea-0001": ("scored", None)}
    assert [run for trial, run in backend.ran if trial.startswith("idea-0001-a1-pilot")] == [
        1,
        2,
        3,
    ]


async def test_machine_failure_is_no_evidence_and_resume_tries_anew(tmp_path: Path) -> None:
    bench = CampaignBench(tmp_path, ideas=2, machine_retries=1)
    author = ScriptedAuthor(bench.recipe, fixes=99)

    def judge(spec: TrialSpec) -> Outcome | None:
        ill = spec.idea_id == "idea-0001" and spec.stage is Stage.PILOT
        return None if ill else plain(spec)

    for ended in ({"idea-0002"}, {"idea-0001", "idea-0002"}):
        with pytest.raises(MachineTrouble, match="idea-0001: machine failed"):
            await bench.drive(judge, ScriptedProposer(*WORDS), author)
        assert bench.ended().keys() == {"idea-0002"}
        told = bench.state.ideas["idea-0001"].set_aside
        assert told is not None
        assert (told.generation, told.trial_id) == (1, "idea-0001-a1-pilot-0")
        assert told.reason.startswith("machine failed (lost)")
        if "idea-0001" in ended:
            break
        # The machine is fixed: resume goes on as if nothing had happened.
        backend = await bench.drive(plain, ScriptedProposer(*WORDS), author)
        assert [run for _, run in backend.ran][:1] == [3]
        assert bench.ended() == {"idea-0001": ("scored", None), "idea-0002": ("scored", None)}
        bench = CampaignBench(tmp_path / "again", ideas=2, machine_retries=1)
    # Under a second driver that it fails too, it is given up, so that campaigns end.
    await bench.drive(judge, ScriptedProposer(*WORDS), author)
    status, reason = bench.ended()["idea-0001"]
    assert status == "failed"
    assert reason is not None
    assert reason.startswith("machine failed (lost)")
    assert bench.state.ideas["idea-0001"].set_aside is None
    assert author.tasks == []


async def test_baseline_lost_by_the_machine_is_not_the_reference_s_fault(tmp_path: Path) -> None:
    bench = CampaignBench(tmp_path, ideas=1, machine_retries=0)
    with pytest.raises(MachineTrouble, match="hpcsci resume"):
        await bench.drive(lambda spec: None, ScriptedProposer(*WORDS))
    await bench.drive(plain, ScriptedProposer(*WORDS))
    assert bench.ended() == {"idea-0001": ("scored", None)}


async def test_a_recorded_attempt_stands_and_other_code_in_its_place_is_refused(
    tmp_path: Path,
) -> None:
    bench = CampaignBench(tmp_path, ideas=1)

    def lost(spec: TrialSpec) -> Outcome | None:
        return plain(spec) if spec.idea_id == BASELINE_ID else None

    with pytest.raises(MachineTrouble):
        await bench.drive(lost, ScriptedProposer(*WORDS))

    class Other(ScriptedAuthor):
        async def write(self, brief):  # type: ignore[no-untyped-def]
            return self._draft("another version")

    (code,) = bench.paths.idea("idea-0001").code(1).iterdir()
    whole = code.read_text()
    code.write_text(f"{whole}# changed\n")
    with pytest.raises(RunDirectoryError, match="other code"):
        await bench.drive(plain, ScriptedProposer(*WORDS), Other(bench.recipe))
    code.write_text(whole)
    await bench.drive(plain, ScriptedProposer(*WORDS), Other(bench.recipe))
    assert bench.ended() == {"idea-0001": ("scored", None)}
    assert code.read_text() == whole


async def test_damage_to_an_idea_does_not_keep_the_others_from_their_end(tmp_path: Path) -> None:
    """A candidate without a sandbox can write into its own folder."""
    bench = CampaignBench(tmp_path, ideas=3)

    def judge(spec: TrialSpec) -> Outcome:
        if (spec.idea_id, spec.stage) == ("idea-0001", Stage.PILOT):
            (code,) = Path(spec.sources.code).iterdir()
            code.write_text(code.read_text() + "# changed\n")
        return plain(spec)

    with pytest.raises(RunDirectoryError, match=r"idea-0001/.*other code.*hpcsci resume"):
        await bench.drive(judge, ScriptedProposer(*WORDS))
    assert {idea: status for idea, (status, _) in bench.ended().items()} == {
        "idea-0002": "scored",
        "idea-0003": "scored",
    }
    (code,) = bench.paths.idea("idea-0001").code(1).iterdir()
    code.write_text(code.read_text().removesuffix("# changed\n"))
    await bench.drive(plain, ScriptedProposer(*WORDS))
    assert bench.ended()["idea-0001"] == ("scored", None)


async def test_recorded_idea_is_taken_as_it_was(tmp_path: Path) -> None:
    bench = CampaignBench(tmp_path, ideas=2)
    await bench.drive(plain, ScriptedProposer(*WORDS))
    before = bench.paths.idea("idea-0002").idea.read_bytes()
    proposer = ScriptedProposer("entirely different", "words here")
    await bench.drive(plain, proposer)
    assert proposer.tasks == []
    assert bench.paths.idea("idea-0002").idea.read_bytes() == before


async def test_results_that_vanished_carry_no_verdict(tmp_path: Path) -> None:
    bench = CampaignBench(tmp_path, ideas=1)

    def judge(spec: TrialSpec) -> Outcome:
        return scored(0.5 + noise(spec) + (0.2 if spec.idea_id == "idea-0001" else 0.0))

    await bench.drive(judge, ScriptedProposer(*WORDS))
    assert read_rows(bench.paths).rows[1].finding is Verdict.IMPROVEMENT
    bench.paths.trial("idea-0001-a1-search-0").result.unlink()
    summary = read_rows(bench.paths)
    assert summary.missing.count == 1
    assert (summary.rows[1].finding, summary.rows[1].n) == (None, bench.seeds - 1)


async def test_look_alikes_are_judged_in_order_of_proposal(tmp_path: Path) -> None:
    bench = CampaignBench(tmp_path, ideas=3)

    class SlowFirst(ScriptedProposer):
        async def propose(self, task):  # type: ignore[no-untyped-def]
            if task.number == 1:
                for _ in range(20):
                    await asyncio.sleep(0)
            return await super().propose(task)

    await bench.drive(plain, SlowFirst(WORDS[0], WORDS[0], WORDS[1]))
    assert [status for status, _ in bench.ended().values()] == ["scored", "rejected", "scored"]
    assert bench.ended()["idea-0002"][1] == "looks like idea-0001 (cosine 1.00)"


async def test_exhausted_playbook_ends_the_campaign_with_a_note(tmp_path: Path) -> None:
    bench = CampaignBench(tmp_path, ideas=4)
    nothing = PlaybookExhausted("the playbook holds no more")
    await bench.drive(plain, ScriptedProposer(WORDS[0], nothing, nothing, nothing))
    assert bench.ended() == {"idea-0001": ("scored", None)}
    assert str(nothing) in bench.state.notes
    assert len(bench.state.notes) == 2  # and the baseline's check


async def test_what_is_exhausted_is_not_asked_again_and_what_was_proposed_goes_on(
    tmp_path: Path,
) -> None:
    """Idea 4 was on its way when there was nothing left for idea 3."""
    bench = CampaignBench(tmp_path, ideas=6, machine_retries=0)

    def lost(spec: TrialSpec) -> Outcome | None:
        return None if spec.idea_id == "idea-0004" else plain(spec)

    asked = asyncio.Event()

    class Late(ScriptedProposer):
        async def propose(self, task):  # type: ignore[no-untyped-def]
            if task.number == 3:
                await asked.wait()
            elif task.number == 4:
                asked.set()
            return await super().propose(task)

    nothing = PlaybookExhausted("the playbook holds no more")
    with pytest.raises(MachineTrouble, match="idea-0004"):
        await bench.drive(lost, Late(*WORDS[:2], nothing, WORDS[2], nothing, nothing))
    assert bench.state.exhausted == 3
    proposer = ScriptedProposer(*6 * [RuntimeError("asked again")])
    await bench.drive(plain, proposer)
    assert proposer.tasks == []
    assert {name: status for name, (status, _) in bench.ended().items()} == {
        "idea-0001": "scored",
        "idea-0002": "scored",
        "idea-0004": "scored",
    }
    assert bench.state.notes.count(str(nothing)) == 1


@pytest.mark.parametrize("left", [None, "of another"])
async def test_an_idea_whose_file_is_not_what_was_proposed_is_refused(
    left: str | None, tmp_path: Path
) -> None:
    bench = CampaignBench(tmp_path, ideas=1)
    with pytest.raises(RuntimeError, match="stop"):
        await bench.drive(plain, ScriptedProposer(WORDS[0]), RaisingAuthor(bench.recipe))
    path = bench.paths.idea("idea-0001").idea
    whole = path.read_text()
    if left is None:
        path.unlink()
    else:
        path.write_text(whole.replace(WORDS[0], "other words"))
    before = journal.read(bench.paths.journal)
    what = "gone" if left is None else "proposed"
    with pytest.raises(RunDirectoryError, match=f"{path}: .*{what}"):
        await bench.drive(plain, ScriptedProposer(WORDS[0]))
    after = journal.read(bench.paths.journal)[len(before) :]
    told = [event for event in after if event.type.startswith("idea_")]
    assert [event.type for event in told] == ["idea_set_aside"]
    path.write_text(whole)
    await bench.drive(plain, ScriptedProposer(RuntimeError("asked again")))
    assert bench.ended() == {"idea-0001": ("scored", None)}


async def test_unusable_proposal_is_a_failed_idea(tmp_path: Path) -> None:
    bench = CampaignBench(tmp_path, ideas=2)
    await bench.drive(plain, ScriptedProposer(ReplyError("no JSON"), WORDS[0]))
    assert bench.ended()["idea-0001"] == ("failed", "no usable proposal: no JSON")
    assert bench.ended()["idea-0002"] == ("scored", None)


async def test_baseline_that_fails_ends_everything(tmp_path: Path) -> None:
    bench = CampaignBench(tmp_path, ideas=1)
    with pytest.raises(BaselineFailed, match="recipe check --run"):
        await bench.drive(lambda spec: crash(), ScriptedProposer(*WORDS))


async def test_full_disk_stops_and_the_trial_runs_again(tmp_path: Path) -> None:
    bench = CampaignBench(tmp_path, ideas=1)
    full = MachineFailed(failure=MachineFailure.DISK_FULL, detail="no space")

    def judge(spec: TrialSpec) -> Outcome:
        return full if is_pilot(spec) else plain(spec)

    with pytest.raises(DiskFull):
        await bench.drive(judge, ScriptedProposer(*WORDS))
    backend = await bench.drive(plain, ScriptedProposer(*WORDS))
    assert ("idea-0001-a1-pilot-0", 1) in backend.ran
    assert bench.ended() == {"idea-0001": ("scored", None)}


async def test_a_disk_that_is_full_is_named_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node's own disk, while the run directory has room; and a quota, which free space hides."""
    bench = CampaignBench(tmp_path, ideas=1)
    detail = "No space left on device: /scratch/hpcsci-1"
    full = MachineFailed(failure=MachineFailure.DISK_FULL, detail=detail)

    def judge(spec: TrialSpec) -> Outcome:
        return full if is_pilot(spec) else plain(spec)

    with pytest.raises(DiskFull, match="/scratch/hpcsci-1") as caught:
        await bench.drive(judge, ScriptedProposer(*WORDS))
    assert str(bench.paths.root) not in str(caught.value)

    def fallocate(*_: object) -> None:
        raise OSError(errno.EDQUOT, "Disk quota exceeded")

    monkeypatch.setattr(os, "posix_fallocate", fallocate)  # no file system here has quotas
    with pytest.raises(DiskFull, match=f"^{bench.paths.root}: .*space") as caught:
        await bench.drive(judge, ScriptedProposer(*WORDS))


async def test_a_proposal_that_was_unusable_is_not_asked_for_again(tmp_path: Path) -> None:
    """Nor is a later idea rejected as the look-alike of what would come this time."""
    bench = CampaignBench(tmp_path, ideas=2)
    await bench.drive(plain, ScriptedProposer(ReplyError("no JSON"), WORDS[0]))
    ended, rows = bench.ended(), read_rows(bench.paths).rows
    again = ScriptedProposer(WORDS[0], WORDS[0])
    await bench.drive(plain, again)
    assert [task.number for task in again.tasks if task.number == 1] == []
    assert bench.ended() == ended
    assert read_rows(bench.paths).rows == rows


@pytest.mark.parametrize("lines", [1, 2])
async def test_an_unusable_proposal_stays_one_after_a_kill(tmp_path: Path, lines: int) -> None:
    """Killed after the place holder was journalled, before or after the idea's end was."""
    bench = CampaignBench(tmp_path, ideas=2)
    await bench.drive(plain, ScriptedProposer(ReplyError("no JSON"), WORDS[0]))
    text = bench.paths.journal.read_text().splitlines(keepends=True)
    told = [n for n, line in enumerate(text) if '"idea-0001"' in line]
    bench.paths.journal.write_text("".join(text[: told[lines - 1] + 1]))
    for path in bench.paths.root.glob("ideas/idea-0002/*.json"):
        path.unlink()
    await bench.drive(plain, ScriptedProposer(WORDS[0], WORDS[0]))
    status, reason = bench.ended()["idea-0001"]
    assert status == "failed" and reason is not None and "usable proposal" in reason
    assert bench.ended()["idea-0002"] == ("scored", None)


async def test_status_and_results_agree_on_the_cost_of_reruns(tmp_path: Path) -> None:
    bench = CampaignBench(tmp_path, ideas=2)
    lost = MachineFailed(failure=MachineFailure.NODE, detail="the node failed")

    def judge(spec: TrialSpec) -> Outcome:
        return lost if spec.run == 1 else plain(spec)

    await bench.drive(judge, ScriptedProposer(*WORDS))
    rows = read_rows(bench.paths).rows
    told = status(bench.paths)
    assert sum(row.cpu_hours or 0.0 for row in rows) == pytest.approx(told["cpu_hours"])
    assert told["cpu_hours"] == pytest.approx(2 * told["trials"]["scored"] / 3600)


async def test_resume_runs_nothing_again(tmp_path: Path) -> None:
    bench = CampaignBench(tmp_path, ideas=3)
    await bench.drive(plain, ScriptedProposer(*WORDS))
    rows, before = read_rows(bench.paths).rows, journal.read(bench.paths.journal)
    backend = await bench.drive(plain, ScriptedProposer(*WORDS))
    assert backend.ran == []
    assert journal.read(bench.paths.journal) == [*before, driver_started(2)]
    assert read_rows(bench.paths).rows == rows


async def test_result_on_the_disk_is_read_and_not_run_again(tmp_path: Path) -> None:
    bench = CampaignBench(tmp_path, ideas=1)
    first = await bench.drive(plain, ScriptedProposer(*WORDS))
    ends = ("trial_ended", "idea_ended")
    rewrite(bench.paths.journal, lambda line: line["event"]["type"] not in ends)
    again = await bench.drive(plain, ScriptedProposer(*WORDS))
    assert first.ran
    assert again.ran == []
    assert bench.ended() == {"idea-0001": ("scored", None)}


async def test_compaction_while_running_changes_no_number(tmp_path: Path) -> None:
    loose = CampaignBench(tmp_path / "loose", ideas=4)
    packed = CampaignBench(tmp_path / "packed", ideas=4, compact_after=1)
    for bench in (loose, packed):
        await bench.drive(plain, ScriptedProposer(*WORDS))
    assert read_rows(packed.paths).rows == read_rows(loose.paths).rows
    left = {path.name.split("-a")[0] for path in packed.paths.trials.iterdir()}
    assert "idea-0001" not in left
    assert (await packed.drive(plain, ScriptedProposer(*WORDS))).ran == []


async def test_a_sweep_that_is_compacted_again_and_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compactions of more trials than a row group of logs has; 130 of them: see test_compact."""
    monkeypatch.setattr(compaction, "_LOGS_AT_ONCE", 4)
    bench = CampaignBench(tmp_path, ideas=12, compact_after=10, drift_every=0)
    await bench.search(plain)
    parts = [pq.read_table(file, columns=["trial"]) for file in part_files(bench.paths)]
    trials = [set(part["trial"].to_pylist()) for part in parts]
    assert len(trials) >= 3
    assert min(map(len, trials)) > 4
    loose = {trial.name for trial in bench.paths.trials.iterdir()}
    assert set().union(*trials) | loose == set(bench.state.trials)
    events = journal.read(bench.paths.journal)
    told = [event.trials for event in events if isinstance(event, ResultsCompacted)]
    assert [later - earlier >= 10 for earlier, later in pairwise([0, *told])] == len(told) * [True]
    assert len(told) >= 3
    assert bench.state.compacted == told[-1]
    summary = read_rows(bench.paths)
    assert [row.status for row in summary.rows] == ["baseline"] + 12 * ["scored"]
    assert (summary.missing.count, summary.unreadable) == (0, 0)


async def test_feedback_reaches_the_next_round(tmp_path: Path) -> None:
    bench = CampaignBench(tmp_path, ideas=2)
    bench.config = bench.config.model_copy(
        update={"settings": bench.config.settings.model_copy(update={"rounds": 2})}
    )
    proposer = ScriptedProposer(*WORDS)

    def judge(spec: TrialSpec) -> Outcome:
        return scored(0.5 + noise(spec) + (0.2 if spec.idea_id == "idea-0001" else 0.0))

    await bench.drive(judge, proposer)
    assert proposer.tasks[0].feedback == ""
    assert "idea-0001" in proposer.tasks[1].feedback
    assert "Improved" in proposer.tasks[1].feedback
    assert [entry.finding for entry in proposer.tasks[1].archive] == ["improvement"]


def by_code(spec: TrialSpec) -> Outcome:
    """What an idea's code is worth, so that the search has something to go by."""
    return scored(0.5 + zlib.crc32(spec.provenance.code_hash.encode()) % 997 / 1e4)


async def test_search_is_the_same_whatever_the_timing(tmp_path: Path) -> None:
    """Trials end in another order each time, and another number is in flight; what each proposal
    was told stands in its file.
    """
    names = [f"idea-{n:04d}" for n in range(1, STARTUP_TRIALS + 7)]
    files, ends = [], []
    for order in range(3):
        bench = CampaignBench(tmp_path / str(order), ideas=len(names))
        bench.config = bench.config.model_copy(update={"in_flight": 4 + 3 * order, "lag": 4})
        bench.pace = random.Random(order)
        await bench.search(by_code)
        files.append([bench.paths.idea(name).idea.read_text() for name in names])
        events = journal.read(bench.paths.journal)
        ends.append(tuple(event.idea_id for event in events if event.type == "idea_ended"))
        assert {status for status, _ in bench.ended().values()} == {"scored"}
    assert files == [files[0]] * 3
    assert names[-5] in files[0][-1], "the last proposal was told of no idea before it"
    assert len(set(ends)) > 1, "the same order each time shows nothing"


@pytest.mark.parametrize(
    ("ideas", "rounds", "sizes"), [(7, 0, [7]), (7, 2, [3, 4]), (2, 5, [1, 1]), (6, 3, [2, 2, 2])]
)
def test_rounds_cover_every_idea_once(ideas: int, rounds: int, sizes: list[int]) -> None:
    extent = Extent(ideas, rounds, in_flight=2, lag=2, model_name="m", seed=0)
    chunks = list(extent.chunks())
    assert [len(numbers) for _, numbers in chunks] == sizes
    assert [n for _, numbers in chunks for n in numbers] == list(range(1, ideas + 1))
    assert [number for number, _ in chunks] == list(range(1, len(sizes) + 1))


async def test_result_that_was_changed_since_carries_no_verdict(tmp_path: Path) -> None:
    bench = CampaignBench(tmp_path, ideas=1)
    await bench.drive(plain, ScriptedProposer(*WORDS))
    trial = bench.paths.trial("idea-0001-a1-search-0")
    report = store.read_result(trial)
    assert report is not None
    spec = TrialSpec.model_validate_json(trial.spec.read_bytes())
    better = report.model_copy(update={"outcome": Scored(metrics={spec.metrics[0].name: 1.0})})
    store.write_result(trial, spec, better)
    summary = read_rows(bench.paths)
    assert summary.missing.count > 0
    assert summary.rows[1].finding is None


@pytest.mark.parametrize("every", [pytest.param(1, marks=pytest.mark.full), 4])
async def test_journal_restored_from_a_backup_goes_on(every: int, tmp_path: Path) -> None:
    bench = CampaignBench(tmp_path, ideas=2)
    await bench.drive(plain, ScriptedProposer(*WORDS))
    rows = read_rows(bench.paths).rows
    whole = bench.paths.journal.read_bytes().splitlines(keepends=True)
    for kept in range(0, len(whole), every):
        bench.paths.journal.write_bytes(b"".join(whole[:kept]))
        backend = await bench.drive(plain, ScriptedProposer(*WORDS))
        assert backend.ran == []
        assert read_rows(bench.paths).rows == rows


async def test_search_that_the_machine_failed_goes_on_as_if_it_had_not(tmp_path: Path) -> None:
    whole = CampaignBench(tmp_path / "whole", ideas=14, machine_retries=0)
    await whole.search(plain)
    bench = CampaignBench(tmp_path / "failed", ideas=14, machine_retries=0)

    def lost(spec: TrialSpec) -> Outcome | None:
        return None if spec.idea_id == "idea-0010" else plain(spec)

    with pytest.raises(MachineTrouble, match="idea-0010"):
        await bench.search(lost)
    await bench.search(plain)
    titles = [idea.title for idea in bench.state.in_order()]
    assert titles == [idea.title for idea in whole.state.in_order()]
