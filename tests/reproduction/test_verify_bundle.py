"""An idea's folder that was handed on without its campaign: what is refused before it is run."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from bench_campaign import CampaignBench, ScriptedProposer, scored

from hpcscientist.config.settings import LoopSettings, PathSettings, Settings, SlurmOverrides
from hpcscientist.errors import RecipeError, RunDirectoryError, UsageError
from hpcscientist.files import vault
from hpcscientist.files.rundir import IdeaPaths, RunPaths
from hpcscientist.recipe import archive
from hpcscientist.records.findings import Holding, Reproduction, Verdict
from hpcscientist.records.trial import Outcome, Split, TrialSpec
from hpcscientist.reproduction import reproduce, rerun, verify_bundle
from hpcscientist.reproduction import reproduce as within
from hpcscientist.reproduction.claim_check import Said
from hpcscientist.reproduction.environment import RerunOptions
from hpcscientist.reproduction.reproduce import reproduce_alone, reproduce_folder

Spoil = Callable[[Path], object]
Edit = Callable[[dict[str, Any]], object]


def as_told(spec: TrialSpec) -> Outcome:
    by_seed = spec.seed % 7 / 100
    return scored(0.5 + by_seed if spec.idea_id == "baseline" else 0.9 - by_seed)


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> CampaignBench:
    made = CampaignBench(tmp_path_factory.mktemp("campaign"), ideas=1)
    asyncio.run(made.drive(as_told, ScriptedProposer("one two")))
    return made


@pytest.fixture
def alone(bench: CampaignBench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The idea's folder elsewhere, with no campaign around it."""
    monkeypatch.setenv(vault.ROOT_VARIABLE, str(tmp_path / "sealed"))
    copied = tmp_path / "handed" / "on"
    shutil.copytree(bench.paths.idea("idea-0001").root, copied)
    return copied


@pytest.fixture
def recipe(bench: CampaignBench, tmp_path: Path) -> Path:
    """The recipe's folder, which a test may change."""
    return Path(shutil.copytree(bench.recipe.folder, tmp_path / "mine" / "scripted"))


def wanted(tmp_path: Path, allowed: bool = True, **loop: Any) -> RerunOptions:
    places = PathSettings(data=str(tmp_path / "data"), private=str(tmp_path / "sealed"))
    return RerunOptions(
        backend="local",
        site="",
        words=SlurmOverrides(),
        image="",
        folder=tmp_path,
        settings=Settings(paths=places, allow_unsandboxed=True, loop=LoopSettings(**loop)),
        consent=allowed,
    )


def again(alone: Path, tmp_path: Path, recipe: str = "", allowed: bool = True) -> Reproduction:
    return reproduce_alone(alone, wanted(tmp_path, allowed), recipe, None, lambda text: None)


def claim_with(edit: Edit) -> Spoil:
    def spoil(alone: Path) -> None:
        path = IdeaPaths(alone).claim
        claim = json.loads(path.read_text())
        edit(claim)
        path.write_text(json.dumps(claim))

    return spoil


def setting(name: str, value: object) -> Spoil:
    return claim_with(lambda claim: claim.update({name: value}))


def trial_with(name: str, value: object) -> Spoil:
    """Change the idea's first trial."""
    return claim_with(
        lambda claim: claim["evidence"]["validation"]["idea"][0].update({name: value})
    )


def comparison(claim: dict[str, Any]) -> None:
    claim["evidence"]["validation"]["comparison"]["delta"] += 0.01


def fewer(claim: dict[str, Any]) -> None:
    claim["evidence"]["validation"]["baseline"].pop()


def twice(claim: dict[str, Any]) -> None:
    trials = claim["evidence"]["validation"]["idea"]
    trials[1]["trial_id"] = trials[0]["trial_id"]


def code(alone: Path) -> None:
    (alone / "attempts" / "1" / "code" / "experiment.py").write_text("import os\n")


def more_code(alone: Path) -> None:
    (alone / "attempts" / "1" / "code" / "more.py").write_text("import os\n")


def code_gone(alone: Path) -> None:
    shutil.rmtree(alone / "attempts")


def code_linked(alone: Path) -> None:
    place = alone / "attempts" / "1" / "code" / "experiment.py"
    place.rename(alone / "experiment.py")
    place.symlink_to(alone / "experiment.py")


def code_elsewhere(alone: Path) -> None:
    code_gone(alone)
    (alone / "attempts" / "1").mkdir(parents=True)
    (alone / "attempts" / "1" / "code").symlink_to("/")


def attempts_elsewhere(alone: Path) -> None:
    (alone / "attempts").rename(alone.parent / "attempts")
    (alone / "attempts").symlink_to(alone.parent / "attempts")


def other_recipe(alone: Path) -> None:
    """An archive that is whole, of a recipe with another scorer."""
    path = IdeaPaths(alone).recipe
    found = archive.read(path.read_bytes())
    assert isinstance(found, archive.Packed)
    found.write(alone / "unpacked")
    scorer = alone / "unpacked" / "score.py"
    scorer.write_text(f"{scorer.read_text()}\n# One line more.\n")
    data = archive.pack(alone / "unpacked")
    assert data is not None
    path.write_bytes(data[0])


def damaged(alone: Path) -> None:
    path = IdeaPaths(alone).recipe
    path.write_bytes(path.read_bytes().replace(b"import", b"export", 1))


def no_archive_at_all(alone: Path) -> None:
    path = IdeaPaths(alone).recipe
    path.unlink()
    path.mkdir()


def huge(alone: Path) -> None:
    with IdeaPaths(alone).recipe.open("r+b") as file:
        file.truncate(2**40)  # a hole, and nothing on the disk


def a_folder(path: Path) -> None:
    path.mkdir()


def a_link(path: Path) -> None:
    path.symlink_to("/etc/hostname")


def a_hole(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(2**40)


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (code, r"/attempts/1/code .*\bhash\b"),
        (more_code, r"/attempts/1/code .*\bhash\b"),
        (code_linked, r"/attempts/1/code .*\bhash\b"),
        (code_gone, "attempts/1/code is gone"),
        (code_elsewhere, "attempts/1/code is a link"),
        (attempts_elsewhere, "attempts/1/code is a link"),
        (other_recipe, r"recipe\.tar .*\bhash\b"),
        (damaged, r"recipe\.tar .* recipe/\S+ .*\bSHA256SUMS\b"),
        (no_archive_at_all, r"recipe\.tar cannot\b"),
        (huge, r"recipe\.tar cannot\b"),
        (setting("recipe_hash", "0" * 64), r"recipe\.tar .*\bhash\b"),
        (setting("code_hash", "0" * 64), r"/attempts/1/code .*\bhash\b"),
        (setting("reference_hash", "0" * 64), "reference_hash is 0"),
        (setting("scorer_hash", "0" * 64), "scorer_hash is 0"),
        (setting("entry", "other.py"), r": entry .*\bother\.py\b"),
        (setting("recipe", "other"), r": recipe .*\bother\b.*\bscripted\b"),
        (claim_with(lambda claim: claim["limits"].update(memory_mb=1)), "limits is"),
        (claim_with(lambda claim: claim["metric"].update(direction="minimize")), "metric is"),
        (setting("idea_id", "../../idea-0001"), r"claim\.json: idea_id\b"),
        (setting("code", "../../code"), r"claim\.json: code\b"),
        (setting("attempt", -1), r"claim\.json: code\b"),
        (setting("evidence", {}), r"claim\.json: .*\bno trials\b.*\bvalidation\b"),
        (trial_with("trial_id", "../../../idea-0001"), r"'\.\./\.\./\.\./idea-0001' .* idea-0001$"),
        (trial_with("trial_id", "idea-0001-/../x"), r"'idea-0001-/\.\./x' .* idea-0001$"),
        (trial_with("trial_id", "baseline-a1-baseline-0"), r"'baseline-a1-\S+' .* idea-0001$"),
        (trial_with("seed", 1), r"\bsame seeds\b.*\bvalidation\b"),
        (trial_with("metrics", {"accuracy": 0.99}), r"\bcomparison\b.*\bvalidation\b"),
        (trial_with("metrics", {}), r"\bno accuracy\b"),
        (claim_with(twice), "names a trial twice"),
        (claim_with(fewer), r"\bsame seeds\b.*\bvalidation\b"),
        (claim_with(comparison), r"\bcomparison\b.*\bvalidation\b"),
    ],
)
def test_what_was_tampered_with_does_not_hold_and_nothing_is_run(
    alone: Path, tmp_path: Path, spoil: Spoil, told: str
) -> None:
    spoil(alone)
    found = again(alone, tmp_path)
    assert (found.outcome, found.alone, found.rows) == (Holding.NOT, True, ())
    assert any(re.search(told, reason) for reason in found.reasons), found.reasons
    assert not (alone / "reproductions").exists()
    assert not (tmp_path / "data").exists(), "not even the data were prepared"


def test_other_data_than_those_that_were_recorded_do_not_hold(alone: Path, tmp_path: Path) -> None:
    setting("data_hash", "other")(alone)
    found = again(alone, tmp_path)
    (reason,) = found.reasons
    assert "prepare.py" in reason
    assert (tmp_path / "data").is_dir()
    assert not (alone / "reproductions").exists()


def test_what_nobody_could_look_at_is_said(alone: Path, tmp_path: Path) -> None:
    code(alone)
    notes = again(alone, tmp_path).notes
    assert any(re.search(r"\bno journal\b.*\bclaim\.json\b", note) for note in notes)
    assert any("rerun" in note for note in notes)


def contained(alone: Path) -> None:
    setting("isolation", "apptainer")(alone)
    setting("image", "/nowhere/image.sif")(alone)


def nothing_was_run(tmp_path: Path) -> bool:
    return not (tmp_path / "data").exists() and not list(tmp_path.rglob("reproductions"))


def test_code_without_a_container_is_run_where_that_is_allowed_alone(
    alone: Path, recipe: Path, tmp_path: Path
) -> None:
    for own in ("", str(recipe)):
        with pytest.raises(UsageError, match=r"--allow-unsandboxed .*command line"):
            again(alone, tmp_path, own, allowed=False)
    assert nothing_was_run(tmp_path), "what a configuration allows is not asked"


def test_a_strangers_scripts_are_run_where_that_is_allowed_alone(
    alone: Path, recipe: Path, tmp_path: Path
) -> None:
    contained(alone)
    theirs = shutil.copytree(recipe, alone / "scripted")
    for given in ("", str(theirs), str(alone / "code" / ".." / "scripted")):
        (alone / "code").mkdir(exist_ok=True)
        with pytest.raises(UsageError, match=r"\bprepare\.py .*\bscore\.py .* --recipe\b"):
            again(alone, tmp_path, given, allowed=False)
    with pytest.raises(UsageError, match=r"/nowhere/image\.sif: .*\bimage file\b.*--image"):
        again(alone, tmp_path, allowed=True)
    with pytest.raises(UsageError, match=r"/nowhere/image\.sif: .*\bimage file\b.*--image"):
        again(alone, tmp_path, str(recipe), allowed=False)
    assert nothing_was_run(tmp_path)


@pytest.mark.parametrize("make", [a_folder, os.mkfifo])
def test_what_is_no_file_is_not_hashed_as_an_image(
    alone: Path, tmp_path: Path, make: Callable[[Path], object]
) -> None:
    contained(alone)
    image = tmp_path / "image.sif"
    make(image)
    for path in (str(image), "image.sif", "~no-such-user/image.sif", "/dev/zero", "a\0b", None):
        setting("image", path)(alone)
        told = rf"{re.escape(str(path))}: .*\bimage file\b.*--image"
        with pytest.raises(UsageError, match=told):
            again(alone, tmp_path)
    assert nothing_was_run(tmp_path)


def test_a_configuration_that_came_with_the_folder_is_nobodys(alone: Path, tmp_path: Path) -> None:
    for place in (alone, alone / "attempts"):
        (place / "hpcsci.toml").touch()
        here = replace(wanted(tmp_path), folder=place)
        with pytest.raises(UsageError, match=rf"{place}/hpcsci\.toml: "):
            reproduce_alone(alone, here, "", None, lambda text: None)
    assert nothing_was_run(tmp_path)


def test_a_missing_recipe_says_the_fix_and_may_be_given(
    alone: Path, recipe: Path, tmp_path: Path
) -> None:
    IdeaPaths(alone).recipe.unlink()
    with pytest.raises(UsageError, match=r"recipe\.tar: .*\bmissing\b.*--recipe"):
        again(alone, tmp_path)
    (recipe / "library").mkdir()
    (recipe / "library" / "references.bib").touch()
    found = again(alone, tmp_path, recipe=str(recipe))
    assert "prepare.py" in found.reasons[0], "it got that far"
    (recipe / "score.py").write_text("other\n")
    with pytest.raises(UsageError, match=rf"--recipe {recipe}: .*\bhash\b"):
        again(alone, tmp_path, recipe=str(recipe))
    with pytest.raises(RecipeError, match="nowhere"):
        again(alone, tmp_path, recipe="./nowhere")


def test_what_the_archive_leaves_out_is_named(alone: Path, recipe: Path, tmp_path: Path) -> None:
    (recipe / "raw.csv").write_text("1,2\n")
    data = archive.pack(recipe)
    assert data is not None
    IdeaPaths(alone).recipe.write_bytes(data[0])
    setting("recipe_hash", data[1])(alone)
    with pytest.raises(UsageError, match=r"recipe\.tar: .* raw\.csv, .*--recipe"):
        again(alone, tmp_path)
    assert "prepare.py" in again(alone, tmp_path, str(recipe)).reasons[0]


def test_a_folder_that_cannot_be_used_says_why(alone: Path, tmp_path: Path) -> None:
    IdeaPaths(alone).idea.unlink()
    with pytest.raises(RunDirectoryError, match=r"/idea\.json: .*\bclaim\.json\b"):
        again(alone, tmp_path)
    IdeaPaths(alone).claim.write_text("{}")
    with pytest.raises(RunDirectoryError, match=r"/claim\.json: .*\bcampaign_id\b"):
        again(alone, tmp_path)
    IdeaPaths(alone).claim.unlink()
    os.mkfifo(IdeaPaths(alone).claim)
    with pytest.raises(RunDirectoryError, match=r"/claim\.json: .*\bplain file\b"):
        again(alone, tmp_path)
    IdeaPaths(alone).claim.unlink()
    with pytest.raises(UsageError, match=r"\bno claim\.json\b.*--idea ID"):
        again(alone, tmp_path)


@pytest.mark.parametrize("name", ["idea.json", "claim.json", "recipe.tar"])
@pytest.mark.parametrize("make", [a_folder, os.mkfifo, a_link, a_hole])
def test_what_is_no_plain_file_is_not_read(
    alone: Path, tmp_path: Path, name: str, make: Callable[[Path], object]
) -> None:
    (alone / name).unlink()
    make(alone / name)
    if name == "recipe.tar":
        assert "recipe.tar cannot" in again(alone, tmp_path).reasons[0]
        return
    with pytest.raises(RunDirectoryError, match=rf"/{name}: cannot\b.*\banew\b"):
        again(alone, tmp_path)


def test_claims_of_earlier_versions_have_no_level(alone: Path, tmp_path: Path) -> None:
    claim_with(lambda claim: (claim.pop("q"), claim.pop("decision")))(alone)
    setting("data_hash", "other")(alone)
    notes = again(alone, tmp_path).notes
    assert any(re.match(r"claim\.json .*\bdefault\b", note) for note in notes)


@pytest.mark.parametrize(
    ("claimed", "own", "held", "told"),
    [
        ({}, {}, (0.05, False), ""),
        ({"q": 0.01}, {}, (0.01, False), ""),
        ({}, {"decision": "point"}, (0.05, False), ""),
        ({}, {"q": 0.01}, (0.01, False), r" q = 0\.05, .* loop\.q;.* q = 0\.01: "),
        ({"q": 0.999}, {}, (0.05, False), r" q = 0\.999, .* loop\.q;"),
        ({"q": 0.999}, {}, (0.05, False), r"; .* q = 0\.05: .* improvement"),
        ({"decision": "point"}, {}, (0.05, False), r"\bpoint\b.*; .* loop\.decision "),
        ({"decision": "point"}, {}, (0.05, False), r"; .* q = 0\.05: .* improvement"),
        ({"decision": "point"}, {"decision": "point"}, (0.05, True), r"point[^;]* loop\.decision"),
    ],
)
def test_who_wrote_a_claim_does_not_set_the_level_it_is_held_to(
    alone: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    claimed: dict[str, object],
    own: dict[str, object],
    held: tuple[float, bool],
    told: str,
) -> None:
    claim_with(lambda claim: claim.update(claimed))(alone)
    ran: list[tuple[Said, list[str]]] = []
    monkeypatch.setattr(within, "config_here", lambda config, *rest: config)
    monkeypatch.setattr(within, "run", lambda again, said, notes, alone: ran.append((said, notes)))
    reproduce_alone(alone, wanted(tmp_path, **own), "", None, lambda text: None)
    [(said, notes)] = ran
    assert (said.finding, said.q, said.by_mean) == (Verdict.IMPROVEMENT, *held)
    lax = [note for note in notes if "loop." in note]
    assert len(lax) == bool(told)
    assert re.search(told, "".join(lax))


def test_what_shows_nothing_at_the_readers_level_is_said_to(alone: Path) -> None:
    claim = verify_bundle.read_claim(alone)
    evidence = claim.evidence[Split.VALIDATION]
    weak = evidence.comparison.model_copy(update={"p_value": 0.4})
    shown = {Split.VALIDATION: evidence.model_copy(update={"comparison": weak})}
    claim = claim.model_copy(update={"q": 0.999, "evidence": shown})
    assert within.said_by(claim, LoopSettings(q=0.5))[0].finding is Verdict.IMPROVEMENT
    said, note = within.said_by(claim, LoopSettings())
    assert said.finding is Verdict.MAINTENANCE
    assert re.search(r" q = 0\.05: .* maintenance$", note)
    shown[Split.TEST] = evidence
    for q, confirmed, ending in ((0.999, True, ", confirmed"), (1e-12, False, ", not confirmed")):
        again = claim.model_copy(update={"q": 0.9999, "evidence": shown})
        said, note = within.said_by(again, LoopSettings(q=q))
        assert said.confirmed is confirmed
        assert ending in note


def test_what_is_laid_out_is_whole_and_taken_up_again(alone: Path, tmp_path: Path) -> None:
    claim, room = verify_bundle.read_claim(alone), RunPaths(tmp_path / "room")
    room.root.mkdir()
    assert verify_bundle.lay_out(alone, claim, "", room) == []
    place = rerun.choose_folder(RunPaths(alone), claim, None)
    assert place.root == alone / "reproductions" / "idea-0001-1"
    verify_bundle.settle(room, claim, place)
    for made in (place.recipe / "score.py", place.idea("idea-0001").code(1) / "experiment.py"):
        assert made.is_file()
    assert rerun.choose_folder(RunPaths(alone), claim, place.root).root == place.root
    verify_bundle.settle(room, claim, place)
    shutil.rmtree(place.recipe)
    verify_bundle.settle(room, claim, place)
    (place.recipe / "score.py").write_text("other\n")
    with pytest.raises(UsageError, match="was changed"):
        verify_bundle.settle(room, claim, place)


@pytest.fixture
def ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[str, object]]:
    """Ask for a folder, and say which claim is then run again: of an idea, or of a folder alone."""
    called: list[tuple[str, object]] = []
    monkeypatch.setattr(
        reproduce, "reproduce", lambda paths, idea, *rest: called.append((idea, paths.root))
    )
    monkeypatch.setattr(
        reproduce, "reproduce_alone", lambda directory, *rest: called.append(("alone", directory))
    )

    def ask(directory: Path, idea: str | None = None, recipe: str = "") -> tuple[str, object]:
        reproduce_folder(directory, idea, wanted(tmp_path), recipe, None, lambda text: None)
        return called.pop()

    return ask


def test_a_folder_in_its_campaign_is_found_whichever_way_leads_there(
    bench: CampaignBench, tmp_path: Path, ask: Callable[..., tuple[str, object]]
) -> None:
    root, inside = bench.paths.root, bench.paths.idea("idea-0001").root
    assert ask(inside / "attempts" / "..") == ("idea-0001", root)
    linked = tmp_path / "linked"
    linked.symlink_to(inside)
    assert ask(linked) == ("idea-0001", root)
    campaign = tmp_path / "campaign"
    campaign.symlink_to(root)
    assert ask(campaign / "ideas" / "idea-0001") == ("idea-0001", campaign)
    shutil.copytree(inside, tmp_path / "large" / "idea-0001")
    apart = tmp_path / "apart"
    apart.mkdir()
    shutil.copy(bench.paths.campaign, apart)
    (apart / "ideas").symlink_to(tmp_path / "large")
    assert ask(apart / "ideas" / "idea-0001") == ("idea-0001", apart)
    assert ask(tmp_path / "large" / "idea-0001") == ("alone", tmp_path / "large" / "idea-0001")


def test_which_claim_is_meant(
    bench: CampaignBench, tmp_path: Path, ask: Callable[..., tuple[str, object]]
) -> None:
    root = bench.paths.root
    inside, copied = bench.paths.idea("idea-0001").root, tmp_path / "copied"
    shutil.copytree(inside, copied)
    assert ask(root, "idea-0001") == ("idea-0001", root)
    assert ask(inside) == ("idea-0001", root), "its campaign is there: held against that too"
    assert ask(inside, "idea-0001") == ("idea-0001", root)
    assert ask(copied) == ("alone", copied)
    assert ask(copied, "idea-0001") == ("alone", copied)
    assert ask(tmp_path / "nowhere", "idea-0001") == ("idea-0001", tmp_path / "nowhere")
    with pytest.raises(UsageError, match="say with --idea which"):
        ask(root)
    with pytest.raises(UsageError, match="leave --idea out"):
        ask(copied, "idea-0002")
    with pytest.raises(UsageError, match="leave --recipe out"):
        ask(root, "idea-0001", recipe="digits")
    with pytest.raises(UsageError, match=r"/nowhere: .*\bnot there\b"):
        ask(tmp_path / "nowhere")
    with pytest.raises(UsageError, match=r"\bno claim\.json\b.*--idea ID"):
        ask(tmp_path)
