"""Trees of attempts: what is made from what, what goes on, and the same after any interruption."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from random import Random

import pytest
from bench_campaign import CampaignBench, ScriptedProposer, ScriptedTrials
from tree_campaign import (
    CAUGHT,
    CRASH,
    Judge,
    SlowTrials,
    TreeAuthor,
    lineage,
    measured,
    piloted,
    tree_bench,
)

from hpcscientist.authoring import attempts
from hpcscientist.authoring.revising import REPEATS
from hpcscientist.campaign.stages import Opened
from hpcscientist.conduct.strategy.linear import NOTHING_DONE
from hpcscientist.errors import MachineTrouble
from hpcscientist.history import journal
from hpcscientist.history.journal import Journal
from hpcscientist.judgement.summary import read_rows
from hpcscientist.records.authoring import GaveUp
from hpcscientist.records.events import (
    AttemptWritten,
    AuthorGaveUp,
    DriverStarted,
    TrialStarted,
)
from hpcscientist.records.experiment import CodeReview, ConceptCheck
from hpcscientist.records.trial import IdeaFailed, IdeaFailure, Stage

IDEA = "idea-0001"


async def drive(
    bench: CampaignBench, judge: Judge, author: TreeAuthor, stages: Opened | None = None
) -> ScriptedTrials:
    summaries = [f"summary {'abcdefgh'[n] * 9}" for n in range(bench.config.settings.ideas)]
    return await bench.drive(judge, ScriptedProposer(*summaries), author, stages=stages)


def notes(bench: CampaignBench) -> str:
    return bench.paths.idea(IDEA).notes.read_text()


async def test_a_broken_first_version_is_fixed_and_the_fixed_one_improved(
    tmp_path: Path,
) -> None:
    bench = tree_bench(tmp_path, drafts=1, nodes=3)
    author = TreeAuthor(bench)
    backend = await drive(bench, piloted({1: CRASH, 2: 0.6, 3: 0.7}), author)
    assert lineage(bench) == [(1, 0, "draft"), (2, 1, "debug"), (3, 2, "improve")]
    assert measured(backend) == {3}
    assert bench.ended() == {IDEA: ("scored", None)}
    (fix,) = author.tasks
    assert (fix.node, fix.round, fix.rounds, fix.earlier) == (2, 1, 3, ())
    assert fix.outcome == CRASH
    assert fix.files["experiment.py"].endswith("# d1\n")
    (improve,) = author.improving
    assert (improve.number, improve.led, improve.tried) == (3, ("d1", "m2"), ())
    assert improve.values["accuracy"] == pytest.approx(0.6)
    row = read_rows(bench.paths).rows[1]
    assert (row.status, row.attempts, row.n) == ("scored", 3, bench.seeds)


async def test_the_best_goes_on_and_not_the_latest(tmp_path: Path) -> None:
    bench = tree_bench(tmp_path, drafts=2, nodes=4)
    backend = await drive(bench, piloted({1: 0.5, 2: 0.8, 3: 0.7, 4: 0.6}), TreeAuthor(bench))
    assert lineage(bench) == [
        (1, 0, "draft"),
        (2, 0, "draft"),
        (3, 2, "improve"),
        (4, 1, "improve"),
    ]
    assert measured(backend) == {2}
    ended = bench.state.ideas[IDEA].ended
    assert ended is not None
    assert ended.attempt == 2


async def test_a_metric_to_be_minimised_is(tmp_path: Path) -> None:
    bench = tree_bench(tmp_path, drafts=2, nodes=2)
    primary = bench.recipe.spec.primary
    assert primary.direction == "maximize"
    lower = primary.model_copy(update={"direction": type(primary.direction)("minimize")})
    spec = bench.recipe.spec.model_copy(update={"metrics": (lower, *bench.recipe.spec.metrics[1:])})
    object.__setattr__(bench.recipe, "spec", spec)
    backend = await drive(bench, piloted({1: 0.3, 2: 0.8}), TreeAuthor(bench))
    assert measured(backend) == {1}


async def test_first_versions_are_told_of_those_before(tmp_path: Path) -> None:
    bench = tree_bench(tmp_path, drafts=4, nodes=4, workers=3)
    author = TreeAuthor(bench, refuses=(2,))
    await drive(bench, piloted({}), author)
    told = {task.number: task.earlier for task in author.redrafting}
    assert told == {2: ("d1",), 3: ("d1",), 4: ("d1", "d3")}
    # A number stays empty where nothing was written.
    assert [number for number, *_ in lineage(bench)] == [1, 3, 4]
    assert read_rows(bench.paths).rows[1].attempts == 3


async def test_an_improvement_sees_what_others_came_to(tmp_path: Path) -> None:
    bench = tree_bench(tmp_path, drafts=1, nodes=5, workers=1, debug_share=1.0)
    author = TreeAuthor(bench)
    fates = {1: 0.9, 2: 0.4, 3: CRASH, 4: 0.7, 5: 0.3}
    await drive(bench, piloted(fates), author)
    assert [(n, p, k) for n, p, k in lineage(bench)][1:] == [
        (2, 1, "improve"),
        (3, 1, "improve"),
        (4, 3, "debug"),
        (5, 1, "improve"),
    ]
    shown = [(v.note, v.values.get("accuracy"), v.failure) for v in author.improving[-1].tried]
    assert shown == [("i2", 0.4, None), ("i3", 0.7, None)]
    shown = [(v.note, v.failure) for v in author.improving[1].tried]
    assert shown == [("i2", None)]


async def test_repairs_in_a_row_are_told_to_the_next(tmp_path: Path) -> None:
    bench = tree_bench(tmp_path, drafts=1, nodes=9, debug_depth=2)
    author = TreeAuthor(bench)
    await drive(bench, piloted({1: CRASH, 2: CRASH, 3: CRASH}), author)
    assert [(t.node, t.round, t.rounds, t.earlier) for t in author.tasks] == [
        (2, 1, 2, ()),
        (3, 2, 2, ("m2",)),
    ]
    reason = "error: ValueError: x; after 3 attempts"
    assert bench.ended() == {IDEA: ("failed", reason)}
    assert read_rows(bench.paths).rows[1].attempts == 3


async def test_who_tampers_is_left_and_others_go_on(tmp_path: Path) -> None:
    bench = tree_bench(tmp_path, drafts=2, nodes=6, debug_share=1.0)
    author = TreeAuthor(bench)
    await drive(bench, piloted({1: CAUGHT, 2: 0.5, 3: 0.6, 4: 0.7, 5: 0.4, 6: 0.3}), author)
    assert author.tasks == []
    assert all(parent != 1 for _, parent, _ in lineage(bench))
    assert bench.ended() == {IDEA: ("scored", None)}
    caught = tree_bench(tmp_path / "all", drafts=2)
    backend = await drive(caught, piloted({1: CAUGHT, 2: CAUGHT}), TreeAuthor(caught))
    assert caught.ended()[IDEA] == ("failed", "tampering: it wrote result.arrow; after 2 attempts")
    assert measured(backend) == set()


async def test_a_version_that_does_nothing_is_neither_improved_nor_chosen(tmp_path: Path) -> None:
    bench = tree_bench(tmp_path, drafts=2, nodes=4, hopeless=5.0)
    bench.catches_nothing_done = True
    bench.predictions = lambda s: "same" if s.attempt == 1 and s.stage == "pilot" else s.trial_id
    backend = await drive(bench, piloted({1: 0.9, 2: 0.4, 3: 0.3, 4: 0.2}), TreeAuthor(bench))
    assert measured(backend) == {2}
    assert all(parent != 1 for _, parent, _ in lineage(bench))
    idle = tree_bench(tmp_path / "idle", drafts=2, nodes=4, hopeless=5.0)
    idle.catches_nothing_done = True
    idle.predictions = lambda _: "same"
    backend = await drive(idle, piloted({}), TreeAuthor(idle))
    assert idle.ended() == {IDEA: ("failed", NOTHING_DONE)}
    assert len(lineage(idle)) == 2


async def test_a_hopeless_best_goes_no_further(tmp_path: Path) -> None:
    bench = tree_bench(tmp_path, drafts=1, nodes=2, hopeless=0.5)
    backend = await drive(bench, piloted({1: 0.01, 2: 0.02}), TreeAuthor(bench))
    status, reason = bench.ended()[IDEA]
    assert status == "failed"
    assert reason is not None
    assert re.match(r"hopeless: .*accuracy 0\.02,.* authoring\.hopeless .*0\.5", reason)
    assert measured(backend) == set()


async def test_a_double_is_cut_whichever_is_ready_first(tmp_path: Path) -> None:
    """Two improvements of one step come out the same: the one with the lower number stays."""
    for seed in range(5):
        bench = tree_bench(tmp_path / str(seed), drafts=2, nodes=4)
        author = TreeAuthor(bench, doubles={3: "twin", 4: "twin"}, draw=Random(seed))
        await drive(bench, piloted({}), author)
        assert [number for number, *_ in lineage(bench)] == [1, 2, 3]
        gave_up = [e for e in journal.read(bench.paths.journal) if isinstance(e, AuthorGaveUp)]
        assert [(e.task, e.reason) for e in gave_up] == [("tree/4", REPEATS)]


async def test_an_earlier_version_does_not_come_back(tmp_path: Path) -> None:
    bench = tree_bench(tmp_path, drafts=1, nodes=5)
    await drive(bench, piloted({}), TreeAuthor(bench, doubles={2: "d1"}))
    assert lineage(bench) == [(1, 0, "draft")]
    assert bench.ended() == {IDEA: ("scored", None)}


async def test_nothing_written_at_all(tmp_path: Path) -> None:
    bench = tree_bench(tmp_path)
    await drive(bench, piloted({}), TreeAuthor(bench, refuses=range(99)))
    assert bench.ended() == {IDEA: ("failed", "given up: cannot make 2")}
    row = read_rows(bench.paths).rows[1]
    assert row.attempts is None


async def test_at_most_so_many_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench_campaign.ScriptedTrials", SlowTrials)
    for workers in (1, 3):
        monkeypatch.setattr(SlowTrials, "most_at_once", 0)
        bench = tree_bench(tmp_path / str(workers), drafts=4, nodes=10, workers=workers)
        author = TreeAuthor(bench)
        await drive(bench, piloted({2: CRASH, 3: 0.6}), author)
        assert SlowTrials.most_at_once == workers
        assert author.most_at_work <= workers
        assert len(lineage(bench)) == 10


async def test_the_tree_depends_on_what_was_measured_and_not_on_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bench_campaign.ScriptedTrials", SlowTrials)
    found = []
    for seed in range(8):
        monkeypatch.setattr(SlowTrials, "draw", Random(seed))
        bench = tree_bench(tmp_path / str(seed), drafts=3, nodes=12, workers=3)
        fates = {1: CRASH, 4: 0.6, 5: CRASH, 7: 0.9, 8: CAUGHT}
        author = TreeAuthor(bench, refuses=(6,), draw=Random(100 + seed))
        await drive(bench, piloted(fates), author)
        found.append((lineage(bench), bench.ended(), notes(bench)))
    assert all(one == found[0] for one in found)


class Reviewer:
    """Finds a part lacking at first."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    async def review(self, brief: object, attempt: int, files: object, same: bool) -> CodeReview:
        self.asked.append(attempt)
        state = "partial" if len(self.asked) == 1 else "implemented"
        check = ConceptCheck.model_validate({"concept": "norm", "state": state, "remark": "r"})
        return CodeReview(attempt=attempt, checks=(check,), marks=(3,), advice="more")


async def test_the_best_is_reviewed_and_completed(tmp_path: Path) -> None:
    bench, reviewer = tree_bench(tmp_path, drafts=2, nodes=3), Reviewer()
    author = TreeAuthor(bench)
    stages = Opened({"advise": reviewer})
    backend = await drive(bench, piloted({1: 0.7, 2: 0.5, 3: 0.6}), author, stages)
    assert reviewer.asked == [1, 4]
    assert lineage(bench)[-1] == (4, 1, "complete")
    assert measured(backend) == {4}
    assert bench.ended() == {IDEA: ("scored", None)}


async def test_one_that_breaks_at_full_budget_is_fixed_as_ever(tmp_path: Path) -> None:
    bench = tree_bench(tmp_path, drafts=1, nodes=1)
    author = TreeAuthor(bench)
    await drive(
        bench, lambda spec: CRASH if spec.stage is Stage.SEEDS else piloted({})(spec), author
    )
    (fix,) = author.tasks
    assert (fix.run, fix.round, fix.node) == (0, 1, 0)
    assert bench.ended()[IDEA][0] == "failed"


class TestMachine:
    async def test_an_idea_waits_for_it_and_grows_on(self, tmp_path: Path) -> None:
        bench = tree_bench(tmp_path, retries=0, drafts=2, nodes=4)
        lost = piloted({1: 0.6, 2: None})
        with pytest.raises(MachineTrouble):
            await drive(bench, lost, TreeAuthor(bench))
        assert bench.ended() == {}
        assert len(lineage(bench)) == 2
        backend = await drive(bench, piloted({1: 0.6, 2: 0.7}), TreeAuthor(bench))
        assert len(lineage(bench)) == 4
        assert not any("-a1-pilot" in trial for trial, _ in backend.ran)
        assert bench.ended() == {IDEA: ("scored", None)}

    async def test_what_it_spoils_again_is_left_out_for_good(self, tmp_path: Path) -> None:
        """A third driver might have it run; then another tree would grow from there."""
        bench = tree_bench(tmp_path, retries=0, drafts=2, nodes=4)
        lost = piloted({1: 0.6, 2: None})
        with pytest.raises(MachineTrouble):
            await drive(bench, lost, TreeAuthor(bench))
        await drive(bench, lost, TreeAuthor(bench))
        grown = lineage(bench)
        assert all(parent != 2 for _, parent, _ in grown)
        assert bench.ended() == {IDEA: ("scored", None)}
        told = notes(bench)
        lines = bench.paths.journal.read_bytes().splitlines(keepends=True)
        kept = [line for line in lines if b'"idea_ended"' not in line]
        bench.paths.journal.write_bytes(b"".join(kept))
        backend = await drive(bench, piloted({1: 0.6, 2: 0.9}), TreeAuthor(bench))
        assert backend.ran == []
        assert lineage(bench) == grown
        assert notes(bench) == told

    async def test_it_is_no_evidence_for_those_who_improve(self, tmp_path: Path) -> None:
        bench = tree_bench(tmp_path, retries=0, drafts=1, nodes=3, workers=1)
        lost = piloted({1: 0.6, 2: None, 3: 0.5})
        with pytest.raises(MachineTrouble):
            await drive(bench, lost, TreeAuthor(bench))
        author = TreeAuthor(bench)
        await drive(bench, lost, author)
        assert [task.number for task in author.improving] == [3], "what was written stands"
        assert author.improving[-1].tried == ()


class Killed(Exception):
    """The driver is dead."""


def recorded(bench: CampaignBench) -> list[str]:
    """What is on record but for starts: a trial may have run whose start the disk never saw."""
    events = journal.read(bench.paths.journal)
    return sorted(e.key for e in events if not isinstance(e, DriverStarted | TrialStarted))


class TestKills:
    def bench(self, folder: Path) -> CampaignBench:
        return tree_bench(folder, drafts=2, nodes=6, workers=2)

    async def drive(self, bench: CampaignBench, seed: int) -> ScriptedTrials:
        author = TreeAuthor(bench, refuses=(4,), draw=Random(seed))
        return await drive(bench, piloted({1: CRASH, 3: 0.6, 5: CRASH, 6: 0.7}), author)

    @pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.full)])
    async def test_at_any_event_the_same_tree_grows(
        self, every: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("bench_campaign.ScriptedTrials", SlowTrials)
        whole = self.bench(tmp_path / "whole")
        await self.drive(whole, 0)
        events = len(journal.read(whole.paths.journal))
        assert len(lineage(whole)) == 5
        assert len(recorded(whole)) == len(set(recorded(whole)))
        append = Journal._append
        for moment in range(0, events, every):
            bench = self.bench(tmp_path / str(moment))
            written = 0

            def dying(self: Journal, data: bytes, moment: int = moment) -> None:
                nonlocal written
                lines = data.splitlines(keepends=True)
                kept = lines[: moment - written]  # a group may be cut at any line
                append(self, b"".join(kept))
                written += len(kept)
                if kept != lines:
                    raise Killed

            monkeypatch.setattr(Journal, "_append", dying)
            monkeypatch.setattr(SlowTrials, "draw", Random(moment))
            with pytest.raises(Killed):
                await self.drive(bench, moment)
            monkeypatch.setattr(Journal, "_append", append)
            await self.drive(bench, moment + 1000)
            assert lineage(bench) == lineage(whole), moment
            assert bench.ended() == whole.ended()
            assert notes(bench) == notes(whole)
            assert recorded(bench) == recorded(whole)


async def test_resume_does_nothing_again(tmp_path: Path) -> None:
    bench = tree_bench(tmp_path, nodes=6)
    fates = piloted({1: CRASH, 2: 0.4})
    await drive(bench, fates, TreeAuthor(bench))
    lines = bench.paths.journal.read_bytes().splitlines(keepends=True)
    kept = [line for line in lines if b'"idea_ended"' not in line]
    bench.paths.journal.write_bytes(b"".join(kept))
    backend = await drive(bench, fates, TreeAuthor(bench))
    assert backend.ran == []
    assert len(journal.read(bench.paths.journal)) == len(lines) + 1  # the other driver's start
    for number, *_ in lineage(bench):
        draft = attempts.load(bench.paths.idea(IDEA), number)
        assert draft is not None
        assert draft.files.keys() == bench.recipe.reference.keys()


async def test_ideas_grow_trees_of_their_own(tmp_path: Path) -> None:
    """The choices of an idea are drawn from its own seed, so ideas differ in them."""
    bench = tree_bench(tmp_path, ideas=8, drafts=2, nodes=6, workers=1)
    await drive(bench, piloted({1: CRASH}), TreeAuthor(bench))
    events = [e for e in journal.read(bench.paths.journal) if isinstance(e, AttemptWritten)]
    shapes = {
        tuple(sorted((e.attempt, e.parent, e.kind) for e in events if e.idea_id == idea))
        for idea in bench.state.ideas
    }
    assert len(bench.state.ideas) == 8
    assert len(shapes) > 1


async def test_an_endpoint_that_fails_is_raised_as_it_is(tmp_path: Path) -> None:
    bench = tree_bench(tmp_path)

    class Unreachable(TreeAuthor):
        async def improve(self, task: object) -> GaveUp:
            await asyncio.sleep(0)
            raise ConnectionError("down")

    with pytest.raises(ConnectionError, match="down"):
        await drive(bench, piloted({}), Unreachable(bench))


async def test_the_story_is_told_with_its_tree(tmp_path: Path) -> None:
    bench = tree_bench(tmp_path, drafts=2, nodes=5, debug_share=1.0)
    await drive(bench, piloted({1: CRASH, 3: 0.7, 4: 0.4, 5: 0.5}), TreeAuthor(bench, refuses=(2,)))
    told = notes(bench)
    heads = [line for line in told.splitlines() if line.startswith("#")]
    assert heads == [
        f"# {IDEA}: Idea 1",
        "## Plan",
        "## Attempt 1: first version",
        "### Pilot",
        "## No first version",
        "## Attempt 3: repair",
        "### Pilot",
        "## Attempt 4: improvement",
        "### Pilot",
        "## Attempt 5: improvement",
        "### Pilot",
        "## Tree",
        "### Full run of attempt 3",
        "## In the end",
    ]
    assert TREE in told
    assert "attempt 3: 1 line added, 1 removed" in told
    end = told.split("## In the end")[1]
    assert "scored, attempt 3." in end
    assert "accuracy: 0.5" in end


TREE = """\
By accuracy of the pilot. Attempt 3 goes on.

```text
reference
├─ 1 first version: failed
│  └─ 3 repair: 0.7, the best
│     ├─ 4 improvement: 0.4
│     └─ 5 improvement: 0.5
└─ 2 first version: not written
```
"""


async def test_a_timeout_is_broken_and_may_be_fixed(tmp_path: Path) -> None:
    bench = tree_bench(tmp_path, drafts=1, nodes=2)
    late = IdeaFailed(failure=IdeaFailure.TIMEOUT, detail="15 s are over")
    author = TreeAuthor(bench)
    await drive(bench, piloted({1: late}), author)
    assert [task.outcome for task in author.tasks] == [late]
    assert lineage(bench)[1] == (2, 1, "debug")
