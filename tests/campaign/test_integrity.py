"""What trials change of the run directory is restored before it is used, and their ideas named.

The trials are scripted, so what a candidate does is done as its trial ends.
"""

from __future__ import annotations

import os
import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from bench_campaign import CampaignBench, ScriptedProposer, scored

from hpcscientist.campaign import integrity as integrity_module
from hpcscientist.campaign.integrity import FileIntegrity, make_way
from hpcscientist.campaign.trial_runner import TrialRunner
from hpcscientist.errors import RunDirectoryError
from hpcscientist.execution import presence
from hpcscientist.files import vault
from hpcscientist.files.hashing import hash_tree
from hpcscientist.files.rundir import RunPaths
from hpcscientist.files.trusted import TrustedCopy
from hpcscientist.history import frozen, journal
from hpcscientist.history.journal import Journal
from hpcscientist.history.status import tampering_notice
from hpcscientist.judgement.summary import read_rows
from hpcscientist.records.events import Event, TamperingFound, TrialEnded, TrialQueued
from hpcscientist.records.findings import ResultRow
from hpcscientist.records.idea import BASELINE_ID
from hpcscientist.records.trial import (
    IdeaFailed,
    IdeaFailure,
    Isolation,
    MachineFailed,
    MachineFailure,
    Outcome,
    Split,
    Stage,
    TrialSpec,
)

WORDS = ("one two", "three four", "five six")
FIRST, EVIL, LAST = "idea-0001", "idea-0002", "idea-0003"
Attack = Callable[[RunPaths], object]


def value(spec: TrialSpec) -> Outcome:
    return scored(0.5 + 0.01 * (spec.seed % 7) + (0.1 if spec.idea_id in (FIRST, LAST) else 0.0))


def attacking(paths: RunPaths, attack: Attack) -> Callable[[TrialSpec], Outcome]:
    def judge(spec: TrialSpec) -> Outcome:
        if spec.idea_id == EVIL:
            attack(paths)
        return value(spec)

    return judge


@pytest.fixture(autouse=True)
def own_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(vault.ROOT_VARIABLE, str(tmp_path / "root"))
    monkeypatch.setattr(vault, "_known", {})
    vault.make_campaign_key("scripted-1")


def a_bench(folder: Path, **loop: int | float) -> CampaignBench:
    bench = CampaignBench(folder, len(WORDS), ideas_in_flight=1, **loop)
    bench.config = bench.config.model_copy(update={"in_flight": 1})
    frozen.write(bench.paths, bench.config)
    bench.trusted = True
    return bench


async def a_driver_of_an_ended_campaign(
    folder: Path,
) -> tuple[CampaignBench, Journal, FileIntegrity]:
    bench = a_bench(folder)
    await bench.drive(value, ScriptedProposer(*WORDS))
    opened = Journal(bench.paths.journal, bench.state.apply)
    integrity = FileIntegrity.of(bench.paths, opened, bench.state, bench.config)
    integrity.begin()
    return bench, opened, integrity


def rows(bench: CampaignBench) -> list[ResultRow]:
    return [row for row in read_rows(bench.paths).rows if row.idea_id != EVIL]


def found(bench: CampaignBench) -> list[TamperingFound]:
    return [e for e in journal.read(bench.paths.journal) if isinstance(e, TamperingFound)]


def rewrite_code(paths: RunPaths) -> None:
    for file in paths.root.glob("ideas/*/attempts/*/code/*.py"):
        file.write_text("changed")


def plant(paths: RunPaths) -> None:
    """The idea that is to come is there already."""
    if not paths.idea(LAST).root.exists():
        shutil.copytree(paths.idea(EVIL).root, paths.idea(LAST).root)


def nest(folder: Path, levels: int) -> None:
    for _ in range(levels):
        folder = folder / "d"
        folder.mkdir(exist_ok=True)
    (folder / "deep.py").touch()


ATTACKS: dict[str, tuple[Attack, str]] = {
    "code": (rewrite_code, "ideas/idea-0001/attempts/1/code"),
    "a module beside code": (
        lambda paths: (paths.idea(FIRST).code(1) / "random.py").write_text(""),
        "ideas/idea-0001/attempts/1/code",
    ),
    "folders too deep to recurse": (
        lambda paths: nest(paths.idea(FIRST).code(1), 1200),
        "ideas/idea-0001/attempts/1/code",
    ),
    "no idea": (lambda paths: shutil.rmtree(paths.idea(FIRST).root), "ideas/idea-0001/idea.json"),
    "no ideas": (lambda paths: shutil.rmtree(paths.root / "ideas"), "ideas/idea-0001/idea.json"),
    "an idea that is a pipe": (
        lambda paths: (shutil.rmtree(paths.idea(FIRST).root), os.mkfifo(paths.idea(FIRST).root)),
        "ideas/idea-0001/idea.json",
    ),
    "a link for an idea": (
        lambda paths: (
            (
                paths.idea(FIRST).root.rename(paths.root / "elsewhere"),
                paths.idea(FIRST).root.symlink_to(paths.root / "elsewhere"),
            )
            if not paths.idea(FIRST).root.is_symlink() and not (paths.root / "elsewhere").exists()
            else None
        ),
        "ideas/idea-0001/idea.json",
    ),
    "campaign.toml": (lambda paths: paths.campaign.write_text("q = 1"), "campaign.toml"),
    "a note": (
        lambda paths: (paths.idea(FIRST).attempt(1) / "note.md").write_text("better than it is"),
        "ideas/idea-0001/attempts/1/note.md",
    ),
    "the recipe": (
        lambda paths: (paths.recipe / "score.py").write_text("print(1)"),
        "recipe/score.py",
    ),
    "the journal": (lambda paths: os.truncate(paths.journal, 100), "journal.jsonl"),
}


@pytest.mark.parametrize("name", ATTACKS)
async def test_what_a_trial_changes_is_restored_and_its_idea_named(
    name: str, tmp_path: Path
) -> None:
    undisturbed, bench = a_bench(tmp_path / "undisturbed"), a_bench(tmp_path / "attacked")
    await undisturbed.drive(value, ScriptedProposer(*WORDS))
    attack, changed = ATTACKS[name]
    await bench.drive(attacking(bench.paths, attack), ScriptedProposer(*WORDS))
    assert rows(bench) == rows(undisturbed)
    assert {event.suspects for event in found(bench)} == {(EVIL,)}
    assert changed in {name for event in found(bench) for name in event.changed}
    assert hash_tree(bench.paths.idea(FIRST).code(1)) == bench.state.ideas[FIRST].code_hashes[1]
    assert hash_tree(bench.paths.recipe) == bench.config.recipe_hash
    assert frozen.read(bench.paths) == bench.config
    assert f"{EVIL} (" in tampering_notice(bench.state.tampering)
    assert not found(undisturbed)


@pytest.mark.parametrize(("begun", "suspects"), [(True, (EVIL,)), (False, ())])
async def test_who_began_is_suspected_though_the_journal_does_not_say_so_yet(
    begun: bool, suspects: tuple[str, ...], tmp_path: Path
) -> None:
    bench, opened, integrity = await a_driver_of_an_ended_campaign(tmp_path)
    queued = next(
        event
        for event in journal.read(bench.paths.journal)
        if isinstance(event, TrialQueued) and event.idea_id == EVIL
    )
    bench.state.apply(queued.model_copy(update={"trial_id": "next", "run": 1}))
    if begun:
        bench.paths.trial("next").root.mkdir()
        presence.announce(bench.paths.trial("next"), 1)
    rewrite_code(bench.paths)
    integrity.look()
    opened.close()
    assert [event.suspects for event in found(bench)] == [suspects]


async def test_what_is_put_in_the_place_of_an_idea_to_come_counts_for_nothing(
    tmp_path: Path,
) -> None:
    bench = a_bench(tmp_path)
    await bench.drive(attacking(bench.paths, plant), ScriptedProposer(*WORDS))
    assert bench.state.ideas[LAST].summary == WORDS[2]


async def test_what_changed_while_nobody_drove_is_restored_by_who_resumes(tmp_path: Path) -> None:
    bench = a_bench(tmp_path)
    stops = ScriptedProposer(*WORDS[:2], RuntimeError("stop"))
    with pytest.raises(RuntimeError, match="stop"):
        await bench.drive(value, stops)
    rewrite_code(bench.paths)
    (bench.paths.recipe / "score.py").write_text("print(1)")
    await bench.drive(value, ScriptedProposer(*WORDS))
    assert {status for status, _ in bench.ended().values()} == {"scored"}
    (event,) = found(bench)
    assert event.suspects == ()
    assert {"recipe/score.py", "ideas/idea-0001/attempts/1/code"} <= set(event.changed)


async def test_a_campaign_of_an_earlier_version_gets_copies_of_what_is_as_it_was(
    tmp_path: Path,
) -> None:
    bench = a_bench(tmp_path)
    bench.trusted = False
    with pytest.raises(RuntimeError, match="stop"):
        await bench.drive(value, ScriptedProposer(*WORDS[:2], RuntimeError("stop")))
    assert TrustedCopy.found(bench.paths.root) is None
    bench.trusted = True

    def judge(spec: TrialSpec) -> Outcome:
        rewrite_code(bench.paths)
        return value(spec)

    await bench.drive(judge, ScriptedProposer(*WORDS))
    assert {status for status, _ in bench.ended().values()} == {"scored"}
    for idea in bench.state.ideas.values():
        code = bench.paths.idea(idea.idea_id).code(1)
        assert hash_tree(code) == idea.code_hashes[1]


@pytest.mark.parametrize("at_once", [1, 3])
async def test_what_was_measured_with_changed_data_counts_for_nothing(
    at_once: int, tmp_path: Path
) -> None:
    """Whoever ran meanwhile runs again; who changes them with nothing beside it has done it."""
    data = tmp_path / "data" / "validation"
    data.mkdir(parents=True)
    (data / "x.csv").write_text("1,2")
    known = f"{hash_tree(data.parent)[:16]}-of-labels"
    shown: list[list[object]] = []
    for name in ("undisturbed", "attacked"):
        bench = a_bench(tmp_path / name)
        views = {Split.VALIDATION: str(data), Split.TEST: str(data.with_name("test"))}
        update = {"in_flight": at_once, "views": views, "data_hash": known}
        bench.config = bench.config.model_copy(update=update)
        frozen.write(bench.paths, bench.config)
        bench.pace = random.Random(1)

        def judge(spec: TrialSpec, evil: bool = name == "attacked") -> Outcome:
            again = spec.run > 1 or spec.stage is not Stage.PILOT
            if evil and spec.idea_id == EVIL and not (again and at_once > 1):
                (data / "x.csv").write_text("3,4")
            return value(spec) if (data / "x.csv").read_text() == "1,2" else scored(0.1)

        await bench.drive(judge, ScriptedProposer(*WORDS))
        shown.append([row.model_dump(exclude={"cpu_hours", "gpu_hours"}) for row in rows(bench)])
    assert bench.ended()[EVIL][0] == ("failed" if at_once == 1 else "scored")
    assert shown[0] == shown[1]
    assert f"{data.parent}/validation/x.csv" in {n for event in found(bench) for n in event.changed}
    assert {idea for event in found(bench) for idea in event.suspects} >= {EVIL}


async def test_where_code_that_scores_is_changed_the_driver_stops_before_it_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python runs a `.pth` file in every process that starts, in one that scores too."""
    environment = tmp_path / "environment"
    environment.mkdir()
    monkeypatch.syspath_prepend(str(environment))
    planted = environment / "odd.pth"
    bench = a_bench(tmp_path / "run")
    with pytest.raises(RunDirectoryError, match=re.escape(str(planted))):
        await bench.drive(
            attacking(bench.paths, lambda _: planted.write_text("import os")),
            ScriptedProposer(*WORDS),
        )
    (event,) = found(bench)
    assert (event.changed, event.suspects) == ((str(planted),), (EVIL,))
    assert not [e for e in journal.read(bench.paths.journal) if is_end_of(e, EVIL)]
    assert not list(bench.paths.trials.glob(f"{EVIL}*/result.arrow"))
    planted.unlink()
    await bench.drive(value, ScriptedProposer(*WORDS))
    assert {row.idea_id: row.status for row in rows(bench)}[LAST] == "scored"


def is_end_of(event: Event, idea_id: str) -> bool:
    return isinstance(event, TrialEnded) and event.idea_id == idea_id


async def test_trials_whose_folders_another_removed_run_again(tmp_path: Path) -> None:
    """None of them is lost to the machine, and the campaign goes on."""
    undisturbed, bench = a_bench(tmp_path / "undisturbed"), a_bench(tmp_path / "attacked")
    for one in (undisturbed, bench):
        one.config = one.config.model_copy(update={"in_flight": 3})
        one.pace = random.Random(1)
    await undisturbed.drive(value, ScriptedProposer(*WORDS))
    hit: set[str] = set()

    def judge(spec: TrialSpec) -> Outcome | None:
        others = {bench.state.trials[trial].idea_id for trial in bench.state.running}
        if EVIL not in others - {spec.idea_id} or spec.idea_id == BASELINE_ID or spec.run > 1:
            return value(spec)
        hit.add(spec.trial_id)
        shutil.rmtree(bench.paths.trial(spec.trial_id).root)
        return None  # its worker found no folder to write into

    await bench.drive(judge, ScriptedProposer(*WORDS))
    assert hit
    assert {status for status, _ in bench.ended().values()} == {"scored"}
    assert [r.mean for r in rows(bench)] == [r.mean for r in rows(undisturbed)]
    ends = [e for e in journal.read(bench.paths.journal) if isinstance(e, TrialEnded)]
    failed = [e.report.outcome for e in ends if isinstance(e.report.outcome, MachineFailed)]
    assert [outcome.failure for outcome in failed] == [MachineFailure.TAMPERED] * len(hit)


async def test_a_folder_that_was_removed_before_its_trial_started_is_not_held_against_it(
    tmp_path: Path,
) -> None:
    bench = a_bench(tmp_path)
    hit: list[str] = []

    def judge(spec: TrialSpec) -> Outcome | None:
        if spec.trial_id in hit and spec.run == 1:
            return None  # with nothing beside it
        return value(spec)

    started = TrialRunner._started

    def removed(self: TrialRunner, spec: TrialSpec) -> None:
        if spec.stage is not Stage.PILOT and spec.idea_id == LAST and spec.run == 1:
            hit.append(spec.trial_id)
            shutil.rmtree(bench.paths.trial(spec.trial_id).root)
        started(self, spec)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TrialRunner, "_started", removed)
        await bench.drive(judge, ScriptedProposer(*WORDS))
    assert hit
    assert bench.ended()[LAST] == ("scored", None)


async def test_in_a_sandbox_nobody_is_suspected_and_what_is_used_is_whole(tmp_path: Path) -> None:
    bench = a_bench(tmp_path)
    bench.config = bench.config.model_copy(update={"isolation": Isolation.APPTAINER})

    def judge(spec: TrialSpec) -> Outcome:
        if spec.stage is Stage.PILOT and spec.idea_id == FIRST:
            rewrite_code(bench.paths)
        return value(spec)

    await bench.drive(judge, ScriptedProposer(*WORDS))
    assert {status for status, _ in bench.ended().values()} == {"scored"}
    assert [event.suspects for event in found(bench)] == [()]


@pytest.mark.parametrize("victim", [BASELINE_ID, FIRST])
async def test_nobody_is_blamed_for_what_another_may_have_done(victim: str, tmp_path: Path) -> None:
    """A trial whose folder was changed while others ran is run again alone."""
    bench = a_bench(tmp_path, drift_every=1)
    bench.config = bench.config.model_copy(update={"in_flight": 3})
    bench.pace = random.Random(1)
    hit: list[str] = []
    tampered = IdeaFailed(failure=IdeaFailure.TAMPERING, detail="it changed spec.json")

    def judge(spec: TrialSpec) -> Outcome:
        others = {bench.state.trials[trial].idea_id for trial in bench.state.running}
        if spec.idea_id == victim and others - {victim, BASELINE_ID} and not hit:
            hit.append(spec.trial_id)
            return tampered
        return value(spec)

    await bench.drive(judge, ScriptedProposer(*WORDS))
    assert {status for status, _ in bench.ended().values()} == {"scored"}
    ends = [
        event.report.outcome
        for event in journal.read(bench.paths.journal)
        if isinstance(event, TrialEnded) and event.report.trial_id in hit
    ]
    assert isinstance(ends[0], MachineFailed)
    assert ends[0].failure is MachineFailure.TAMPERED
    assert ends[1] == value_of(bench, hit[0])


def value_of(bench: CampaignBench, trial_id: str) -> Outcome:
    report = bench.state.trials[trial_id].report
    assert report is not None
    return report.outcome


async def test_who_changes_its_folder_with_nothing_beside_it_has_done_it(tmp_path: Path) -> None:
    bench = a_bench(tmp_path)

    def judge(spec: TrialSpec) -> Outcome:
        if spec.idea_id == EVIL:
            return IdeaFailed(failure=IdeaFailure.TAMPERING, detail="it changed spec.json")
        return value(spec)

    await bench.drive(judge, ScriptedProposer(*WORDS))
    status, reason = bench.ended()[EVIL]
    assert status == "failed"
    assert reason is not None
    assert reason.startswith("tampering")
    assert bench.ended()[FIRST] == bench.ended()[LAST] == ("scored", None)


def test_folders_of_a_run_directory_may_be_links_to_other_disks(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path / "run")
    (tmp_path / "disk" / "idea-0001").mkdir(parents=True)
    paths.root.mkdir()
    (paths.root / "ideas").symlink_to(tmp_path / "disk")
    (paths.root / "ideas" / "idea-0002").symlink_to("idea-0001")
    assert make_way(paths, paths.idea(FIRST).idea).parent.samefile(tmp_path / "disk" / FIRST)
    make_way(paths, paths.idea(EVIL).idea)
    assert not paths.idea(EVIL).root.is_symlink()
    assert (paths.root / "ideas").is_symlink()


async def test_what_is_changed_again_as_soon_as_it_is_restored_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A candidate that runs beside the driver changes each file between its check and its use."""
    undisturbed = a_bench(tmp_path / "undisturbed")
    await undisturbed.drive(value, ScriptedProposer(*WORDS))
    checked = FileIntegrity.check

    def raced(self: FileIntegrity, path: Path, **how: bool) -> None:
        checked(self, path, **how)
        for file in (path, *path.glob("*.py")):
            if file.is_file():
                file.write_text("changed")

    monkeypatch.setattr(FileIntegrity, "check", raced)
    bench = a_bench(tmp_path / "raced")
    await bench.drive(value, ScriptedProposer(*WORDS))
    assert {status for status, _ in bench.ended().values()} == {"scored"}
    assert rows(bench) == rows(undisturbed)
    assert found(bench)


@pytest.mark.parametrize("name", ["code", "recipe", "campaign.toml"])
async def test_what_changes_while_it_is_restored_is_noticed_the_next_time(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench, opened, integrity = await a_driver_of_an_ended_campaign(tmp_path)
    place = bench.paths.idea(FIRST).code(1) if name == "code" else bench.paths.root / name
    file = next(place.glob("**/*.py")) if place.is_dir() else place
    intact, mark, again = file.read_bytes(), integrity_module._mark, ["changed again"]

    def make_way_for(paths: RunPaths, path: Path) -> Path:
        monkeypatch.setattr(integrity_module, "_mark", mark_of)
        return make_way(paths, path)

    def mark_of(path: Path) -> object:
        while again:  # a candidate that runs is as fast, once
            file.write_text(again.pop())
        return mark(path)

    monkeypatch.setattr(integrity_module, "make_way", make_way_for)
    file.write_text("changed")
    integrity.look()
    integrity.look()
    opened.close()
    assert file.read_bytes() == intact
