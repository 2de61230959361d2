"""Earlier campaigns' ideas join the bank with what became of them; improvements do not."""

from __future__ import annotations

import asyncio
import re
import shutil
import zlib
from pathlib import Path

import pytest
from bench_campaign import CampaignBench, ScriptedProposer, scored

from hpcscientist.campaign.proposals import earlier
from hpcscientist.campaign.proposals.earlier import EarlierIdea
from hpcscientist.config.layers import resolve
from hpcscientist.config.settings import Settings
from hpcscientist.errors import ReplyError, RunDirectoryError, UsageError
from hpcscientist.files.rundir import RunPaths
from hpcscientist.ideation.bank import Bank, Banked
from hpcscientist.launching import create_run_dir, launch
from hpcscientist.records.trial import IdeaFailed, IdeaFailure, Outcome, TrialSpec

BETTER = "draw the weights from a normal law"
WORSE = "train on half of the images alone"
SAME = "shuffle the images before each pass"
CRASHED = "import a library of wavelets for features"
EFFECT = {"idea-0001": 0.2, "idea-0002": -0.2}


def judge(spec: TrialSpec) -> Outcome:
    if spec.idea_id == "idea-0004":
        return IdeaFailed(failure=IdeaFailure.ERROR, detail="KeyError: 'x'")
    noise = zlib.crc32(f"{spec.idea_id} {spec.seed}".encode()) % 97 / 1e4
    return scored(0.5 + EFFECT.get(spec.idea_id, 0.0) + noise)


async def finished(folder: Path) -> CampaignBench:
    """A campaign with an idea of every kind: 5 repeats 3, of 6 there was no usable reply."""
    bench = CampaignBench(folder, ideas=6)
    summaries = (BETTER, WORSE, SAME, CRASHED, SAME, ReplyError("none"))
    await bench.drive(judge, ScriptedProposer(*summaries))
    return bench


def settings(*runs: Path | str) -> Settings:
    return Settings.model_validate({"loop": {"bank": tuple(map(str, runs))}})


def brought(idea_id: str, fate: str, summary: str, origin: str = "run") -> EarlierIdea:
    return EarlierIdea(banked=Banked(idea_id=idea_id, origin=origin, fate=fate), summary=summary)


async def test_all_but_improvements_and_rejected_ideas_are_brought(tmp_path: Path) -> None:
    bench = await finished(tmp_path)
    assert earlier.read(settings(bench.paths.root), "scripted") == (
        brought("idea-0002", "declined", WORSE),
        brought("idea-0003", "changed nothing", SAME),
        brought("idea-0004", "failed: error: KeyError: 'x'; given up: no more ideas", CRASHED),
    )


def test_the_header_tells_how_many(tmp_path: Path) -> None:
    found = tuple(
        brought(f"idea-000{n}", "declined", "s", origin)
        for n, origin in ((1, "a"), (2, "a"), (1, "b"))
    )
    assert earlier.statement(found) == "3 ideas of earlier campaigns (2)"
    assert earlier.statement(()) == ""


async def test_look_alikes_are_rejected_with_what_became_of_the_earlier_idea(
    tmp_path: Path,
) -> None:
    old = await finished(tmp_path / "old")
    new = CampaignBench(tmp_path / "new", ideas=5)
    earlier.write(new.paths, earlier.read(settings(old.paths.root), "scripted"))
    shutil.rmtree(old.paths.root)  # what they bring is kept
    fresh = "average the weights of the last passes"
    summaries = (f"{BETTER} again", WORSE, CRASHED, fresh, f"{BETTER} once again")
    await new.drive(lambda spec: scored(0.5), ScriptedProposer(*summaries))
    ended = new.ended()
    assert {i: status for i, (status, _) in ended.items()} == {
        "idea-0001": "scored",  # a follow-up of what improved there
        "idea-0002": "rejected",
        "idea-0003": "rejected",
        "idea-0004": "scored",
        "idea-0005": "rejected",  # what was let in here rejects, whatever becomes of it
    }
    assert ended["idea-0002"][1] == "looks like idea-0002 of run, which declined (cosine 1.00)"
    reason = ended["idea-0003"][1]
    assert reason is not None
    assert re.search("idea-0004 of run, .*failed: ", reason)
    assert "idea-0001 (cosine " in (ended["idea-0005"][1] or "")
    # A driver that takes it up again has the same bank, and the same verdicts.
    await new.drive(lambda spec: scored(0.5), ScriptedProposer(*summaries))
    assert new.ended() == ended


async def test_knobs_of_the_control_arm_are_brought_too(tmp_path: Path) -> None:
    old = CampaignBench(tmp_path / "old", ideas=2)
    await old.search(lambda spec: scored(0.5))
    found = earlier.read(settings(old.paths.root), "scripted")
    assert len(found) == 2
    assert found[0].knobs
    new = CampaignBench(tmp_path / "new", ideas=2)
    earlier.write(new.paths, found)
    await new.search(lambda spec: scored(0.5))  # the same seed proposes the same
    assert [status for status, _ in new.ended().values()] == ["rejected", "rejected"]
    reason = "has the same knobs as idea-0001 of run, which changed nothing"
    assert new.ended()["idea-0001"][1] == reason


async def test_campaigns_of_one_name_are_told_apart(tmp_path: Path) -> None:
    runs = [(await finished(tmp_path / name)).paths.root for name in "ab"]
    found = earlier.read(settings(*runs), "scripted")
    assert [idea.banked.origin for idea in found] == [str(run) for run in runs for _ in range(3)]


def test_paths_are_settled_where_the_campaign_is_launched(tmp_path: Path) -> None:
    settled = earlier.settle(settings("a", tmp_path / "a", "b/../c"), tmp_path)
    assert settled.loop.bank == (str(tmp_path / "a"), str(tmp_path / "c"))


async def test_a_campaign_that_still_runs_brings_what_it_has(tmp_path: Path) -> None:
    bench = await finished(tmp_path)
    lines = bench.paths.journal.read_bytes().splitlines(keepends=True)
    last = next(n for n, line in enumerate(lines) if b"idea_ended" in line and b"-0002" in line)
    bench.paths.journal.write_bytes(b"".join(lines[:last]) + lines[last][:20])
    fates = {
        idea.banked.idea_id: idea.banked.fate
        for idea in earlier.read(settings(bench.paths.root), "scripted")
    }
    assert fates["idea-0002"] == "has not come to its end"


async def test_other_folders_are_refused_in_one_line(tmp_path: Path) -> None:
    bench = await finished(tmp_path)
    (tmp_path / "empty").mkdir()
    for path in (tmp_path / "empty", tmp_path / "none"):
        with pytest.raises(UsageError, match=rf"loop\.bank: {path}: .*hpcsci launch") as caught:
            earlier.read(settings(path), "scripted")
        assert "\n" not in str(caught.value)
    with pytest.raises(UsageError, match=f"{bench.paths.root}: .*'scripted', not 'digits'"):
        earlier.read(settings(bench.paths.root), "digits")
    bench.paths.idea("idea-0003").idea.write_text("{")
    with pytest.raises(UsageError, match=r"loop\.bank: .*idea-0003/idea\.json: is damaged"):
        earlier.read(settings(bench.paths.root), "scripted")


async def test_a_damaged_copy_is_named(tmp_path: Path) -> None:
    (tmp_path / earlier.FILE).write_text('{"banked": 1}\n')
    with pytest.raises(RunDirectoryError, match=r"earlier\.jsonl: is damaged"):
        earlier.seeded(Bank(), RunPaths(tmp_path))
    with pytest.raises(RunDirectoryError):
        earlier.seeded(Bank(), RunPaths(tmp_path / earlier.FILE))


def test_a_launch_with_a_bad_folder_touches_nothing(tmp_path: Path) -> None:
    given = {"HPCSCI_LOOP_BANK": '["nowhere"]', "HPCSCI_BACKEND": "local"}
    read, _ = resolve({"model": "playbook", "run_dir": "run"}, given, tmp_path)
    with pytest.raises(UsageError, match=r"loop\.bank: .*/nowhere: .*hpcsci launch"):
        launch.check(read, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_launch_keeps_what_earlier_campaigns_bring(tmp_path: Path) -> None:
    bench = asyncio.run(finished(tmp_path / "old"))
    config = bench.paths.campaign.read_text()
    bench.paths.campaign.write_text(
        config.replace('recipe_name = "scripted"', 'recipe_name = "digits"')
    )
    given = {"backend": "local", "model": "playbook", "run_dir": "run"}
    read, _ = resolve({**given, "loop.bank": (str(bench.paths.root),)}, {}, tmp_path)
    planned = launch.check(read, tmp_path)
    claimed = create_run_dir.claim(planned)
    create_run_dir.furnish(planned, claimed)
    assert len(earlier.seeded(Bank(), claimed.paths)) == 3
