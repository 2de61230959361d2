from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import pytest
from bench_campaign import CampaignBench, ScriptedProposer, scored
from event_kit import trial_queued

from hpcscientist.campaign import claims
from hpcscientist.campaign.claims import Claims, derive, encode
from hpcscientist.campaign.specs import trial_seeds
from hpcscientist.files.hashing import hash_file, hash_tree
from hpcscientist.history import journal
from hpcscientist.history.state import CampaignState, fold
from hpcscientist.recipe import archive
from hpcscientist.recipe.archive import Packed, read
from hpcscientist.records.events import (
    IdeaEnded,
    SplitSpent,
    TrialEnded,
)
from hpcscientist.records.findings import Claim
from hpcscientist.records.trial import (
    IdeaFailed,
    IdeaFailure,
    Outcome,
    Split,
    Stage,
    TrialReport,
    TrialSpec,
    Usage,
)

FAILED = IdeaFailed(failure=IdeaFailure.ERROR, detail="no")


def judge(spec: TrialSpec) -> Outcome | None:
    if spec.idea_id == "idea-0002":
        return FAILED
    return scored(0.5 if spec.idea_id == "baseline" else 0.9)


async def campaign(tmp_path: Path) -> CampaignBench:
    bench = CampaignBench(tmp_path, ideas=2)
    await bench.drive(judge, ScriptedProposer("one two", "three four"))
    return bench


async def test_a_scored_idea_has_all_that_measuring_it_again_needs(tmp_path: Path) -> None:
    bench = await campaign(tmp_path)
    idea = bench.paths.idea("idea-0001")
    claim = Claim.model_validate_json(idea.claim.read_bytes())
    assert claim.code_hash == hash_tree(idea.root / claim.code)
    assert claim.reference_hash == hash_tree(bench.paths.recipe / "reference")
    assert claim.scorer_hash == hash_file(bench.paths.recipe / "score.py")
    evidence = claim.evidence[Split.VALIDATION]
    seeds = sorted(trial_seeds(bench.config.settings.seed, len(evidence.idea)))
    assert [trial.seed for trial in evidence.idea] == seeds
    assert [trial.seed for trial in evidence.baseline] == seeds
    assert {trial.metrics["accuracy"] for trial in evidence.idea} == {0.9}
    assert all(trial.predictions_hash for trial in (*evidence.idea, *evidence.baseline))
    assert round(evidence.comparison.delta, 9) == 0.4
    assert Split.TEST not in claim.evidence


async def test_what_was_not_scored_claims_nothing(tmp_path: Path) -> None:
    bench = await campaign(tmp_path)
    assert not bench.paths.idea("idea-0002").claim.exists()


async def test_beside_a_claim_lies_the_recipe_it_was_measured_with(tmp_path: Path) -> None:
    bench = await campaign(tmp_path)
    idea = bench.paths.idea("idea-0001")
    claim = Claim.model_validate_json(idea.claim.read_bytes())
    found = read(idea.recipe.read_bytes())
    assert isinstance(found, Packed)
    assert found.recipe_hash == claim.recipe_hash == hash_tree(bench.paths.recipe)
    assert (claim.q, claim.decision) == (0.05, "fdr")
    assert not bench.paths.idea("idea-0002").recipe.exists(), "nothing was claimed there"


async def test_what_a_killed_driver_left_out_is_written_by_the_next(tmp_path: Path) -> None:
    bench = await campaign(tmp_path)
    idea, state = bench.paths.idea("idea-0001"), fold(journal.read(bench.paths.journal))
    before = {path: path.read_bytes() for path in (idea.recipe, idea.claim)}
    for lost in ([idea.claim], [idea.recipe], [idea.recipe, idea.claim]):
        for path in lost:
            path.unlink()
        Claims(bench.paths, bench.config, bench.recipe, state).write_all()
        assert {path: path.read_bytes() for path in before} == before
    idea.recipe.write_bytes(b"half")
    Claims(bench.paths, bench.config, bench.recipe, state).write_all()
    assert idea.recipe.read_bytes() == before[idea.recipe]
    places = {path: path.stat().st_ino for path in before}
    Claims(bench.paths, bench.config, bench.recipe, state).write_all()
    assert {path: path.stat().st_ino for path in before} == places, "what is whole is left alone"


async def test_the_recipe_comes_before_the_claim_and_where_it_cannot_the_claim_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = await campaign(tmp_path)
    idea, state = bench.paths.idea("idea-0001"), fold(journal.read(bench.paths.journal))
    idea.claim.unlink()
    idea.recipe.unlink()
    wrote: list[str] = []
    monkeypatch.setattr(claims, "write_atomic", lambda path, data, **_: wrote.append(path.name))
    Claims(bench.paths, bench.config, bench.recipe, state).write("idea-0001")
    assert wrote == ["recipe.tar", "claim.json"]
    changed = bench.config.model_copy(update={"recipe_hash": "other"})
    Claims(bench.paths, changed, bench.recipe, state).write("idea-0001")
    assert wrote[2:] == ["claim.json"]
    monkeypatch.setattr(archive, "LIMIT", 100)
    Claims(bench.paths, bench.config, bench.recipe, state).write("idea-0001")
    assert wrote[3:] == ["claim.json"]


IDS = ("idea-0001", "idea-0002", "idea-0003")


@pytest.fixture
async def three(tmp_path: Path) -> CampaignBench:
    """A campaign of which all ideas were scored."""
    bench = CampaignBench(tmp_path / "campaign", ideas=3)
    words = ("one two", "three four", "five six")
    await bench.drive(
        lambda spec: scored(0.5 if spec.idea_id == "baseline" else 0.9), ScriptedProposer(*words)
    )
    return bench


def archives(bench: CampaignBench) -> list[Path]:
    return [bench.paths.idea(idea_id).recipe for idea_id in IDS]


def files(bench: CampaignBench) -> int:
    return len({path.stat().st_ino for path in archives(bench)})


def next_driver(bench: CampaignBench) -> None:
    state = fold(journal.read(bench.paths.journal))
    Claims(bench.paths, bench.config, bench.recipe, state).write_all()


async def test_the_ideas_of_a_campaign_share_one_file_and_a_copy_of_each_is_whole(
    three: CampaignBench, tmp_path: Path
) -> None:
    assert files(three) == 1
    copied = Path(shutil.copytree(three.paths.idea("idea-0003").root, tmp_path / "copied"))
    shutil.rmtree(three.paths.root)
    found = read((copied / "recipe.tar").read_bytes())
    assert isinstance(found, Packed)
    assert found.recipe_hash == three.config.recipe_hash


async def test_copies_of_before_become_one_file_and_damage_reaches_no_other_driver(
    three: CampaignBench,
) -> None:
    data = archives(three)[0].read_bytes()
    for path in archives(three):
        path.unlink()
        path.write_bytes(data)
    next_driver(three)
    assert files(three) == 1
    archives(three)[1].write_bytes(b"half")  # in place, so it is all of them
    assert {path.read_bytes() for path in archives(three)} == {b"half"}
    archives(three)[2].unlink()
    next_driver(three)
    assert {path.read_bytes() for path in archives(three)} == {data}
    assert files(three) == 1
    archives(three)[0].unlink()
    archives(three)[0].symlink_to(archives(three)[1])
    next_driver(three)
    assert not archives(three)[0].is_symlink()
    assert files(three) == 1
    assert not list(three.paths.root.rglob(".recipe.tar.*"))


@pytest.mark.parametrize("code", [errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP])
async def test_where_no_links_are_made_each_idea_has_a_copy(
    three: CampaignBench, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    data = archives(three)[0].read_bytes()
    for path in archives(three)[1:]:
        path.unlink()

    def refuse(*paths: Path) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(claims.os, "link", refuse)
    next_driver(three)
    assert files(three) == 3
    assert {path.read_bytes() for path in archives(three)} == {data}
    places = [path.stat().st_ino for path in archives(three)]
    archives(three)[2].touch()
    next_driver(three)
    assert [path.stat().st_ino for path in archives(three)] == places, "nothing is written again"
    archives(three)[2].write_bytes(b"half")
    next_driver(three)
    assert {path.read_bytes() for path in archives(three)} == {data}


async def test_a_file_with_all_its_links_has_a_second_one(
    three: CampaignBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, *others = archives(three)
    for path in others:
        path.unlink()
    link = os.link

    def at_most_one(source: Path, target: Path) -> None:
        if source.samefile(first):
            raise OSError(errno.EMLINK, "too many links")
        link(source, target)

    monkeypatch.setattr(claims.os, "link", at_most_one)
    next_driver(three)
    assert others[0].samefile(others[1])
    assert not others[0].samefile(first)
    assert others[0].read_bytes() == first.read_bytes()


async def test_a_driver_reads_one_of_the_archives(
    three: CampaignBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[Path] = []
    read_bytes = Path.read_bytes

    def counted(path: Path) -> bytes:
        opened.extend([path] if path.name == "recipe.tar" else [])
        return read_bytes(path)

    monkeypatch.setattr(Path, "read_bytes", counted)
    next_driver(three)
    assert opened == archives(three)[:1]


async def test_an_idea_whose_folder_is_gone_takes_no_other_along(three: CampaignBench) -> None:
    data = archives(three)[0].read_bytes()
    state = fold(journal.read(three.paths.journal))
    written = Claims(three.paths, three.config, three.recipe, state)
    written.write("idea-0001")
    for path in archives(three):
        path.unlink()
    written.write("idea-0002")
    written.write("idea-0003")
    assert [path.exists() for path in archives(three)] == [False, True, True]
    assert archives(three)[2].read_bytes() == data


async def test_a_claim_follows_from_the_journal_alone(tmp_path: Path) -> None:
    bench = await campaign(tmp_path)
    state = fold(journal.read(bench.paths.journal))
    claim = derive(bench.config, bench.recipe, state, "idea-0001")
    assert claim is not None
    assert encode(claim) == bench.paths.idea("idea-0001").claim.read_bytes()


def confirm(state: CampaignState, idea_id: str, seed: int, value: float) -> None:
    trial_id = f"{idea_id}-a1-confirm-{seed}"
    state.apply(trial_queued(trial_id, idea_id, Stage.CONFIRM, seed))
    usage = Usage(started_at=1, ended_at=2)
    report = TrialReport(trial_id=trial_id, run=1, outcome=scored(value), usage=usage)
    state.apply(TrialEnded(idea_id=idea_id, report=report))


async def test_the_test_split_is_there_once_every_seed_let_to_it_was_scored(
    tmp_path: Path,
) -> None:
    bench = await campaign(tmp_path)
    state = fold(journal.read(bench.paths.journal))

    def splits() -> set[Split]:
        claim = derive(bench.config, bench.recipe, state, "idea-0001")
        assert claim is not None
        return set(claim.evidence)

    for seed in (7, 8):
        confirm(state, "baseline", seed, 0.5)
    confirm(state, "idea-0001", 7, 0.9)
    assert splits() == {Split.VALIDATION}, "nothing let it there"
    state.apply(SplitSpent(idea_id="idea-0001", attempt=1, seeds=(7, 8)))
    assert splits() == {Split.VALIDATION}, "seed 8 has not been scored"
    confirm(state, "idea-0001", 8, 0.9)
    assert splits() == {Split.VALIDATION, Split.TEST}


async def test_an_idea_waits_for_the_baseline(tmp_path: Path) -> None:
    bench = await campaign(tmp_path)
    events = [
        event
        for event in journal.read(bench.paths.journal)
        if not (isinstance(event, TrialEnded) and event.idea_id == "baseline")
    ]
    assert any(isinstance(event, IdeaEnded) for event in events)
    assert derive(bench.config, bench.recipe, fold(events), "idea-0001") is None
