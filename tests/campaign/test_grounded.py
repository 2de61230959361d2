"""Ideas that go through every step: the real library, the recorded replies, the real conductor."""

from __future__ import annotations

import asyncio
import gc
import hashlib
import json
import os
import random
import re
import shutil
import sys
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from bench_campaign import ScriptedTrials, scored
from jinja2 import Template

from hpcscientist import __version__
from hpcscientist.campaign import stages
from hpcscientist.campaign.agents import Session, model_agents
from hpcscientist.campaign.proposals import campaign_library
from hpcscientist.config.settings import Settings
from hpcscientist.errors import EndpointError, LibraryError, RunDirectoryError
from hpcscientist.files.rundir import RunPaths
from hpcscientist.history import frozen, journal
from hpcscientist.history.frozen import CampaignConfig
from hpcscientist.history.journal import Journal
from hpcscientist.history.state import CampaignState
from hpcscientist.launching.wiring import assemble
from hpcscientist.models.chat import ChatLine
from hpcscientist.models.open import ROLES
from hpcscientist.models.playbook import PlaybookModel
from hpcscientist.recipe.load import Recipe, load, shipped_folder
from hpcscientist.records.events import AttemptWritten
from hpcscientist.records.idea import SURVEY_ID, Idea
from hpcscientist.records.literature import Survey
from hpcscientist.records.model_calls import ModelReply, ModelRequest
from hpcscientist.records.trial import IdeaFailed, IdeaFailure, Isolation, Outcome, Split, TrialSpec

IDEAS = 22
REJECTED = {
    "idea-0009": "looks like idea-0002 (cosine 0.9",
    "idea-0015": "not novel: doi:10.1109/icdar.2003.1227801",
    "idea-0016": "set aside, not feasible: needs about 5,400 s of a full trial",
}


# What is wrong with recorded code, in the order in which it shows when it is run.
FAULTS = {
    '"label.npy"': "FileNotFoundError: label.npy",
    "[labels / 1]": "IndexError: arrays used as indices must be of integer type",
    "range(epochs * 1.0)": "TypeError: 'float' object cannot be interpreted as an integer",
    "+= velocity\n": "TypeError: unsupported operand type(s) for +=",
    "argmax(axis=2)": "AxisError: axis 2 is out of bounds",
    "velocity[name].zero()": "AttributeError: no attribute 'zero'",
    "math.cosine(": "AttributeError: module 'math' has no attribute 'cosine'",
}


@pytest.fixture(scope="module")
def recipe() -> Recipe:
    return load(shipped_folder() / "digits")


@pytest.fixture(scope="module")
def library(recipe: Recipe, tmp_path_factory: pytest.TempPathFactory) -> Path:
    paths = RunPaths(tmp_path_factory.mktemp("shelf"))
    return Path(campaign_library.furnish(Settings(), recipe, paths))


@dataclass
class Jittery:
    """The recorded replies, each after others had their turn; `left` replies until it is gone."""

    inner: PlaybookModel
    seed: int = 0
    left: int = 10**6
    asked: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.inner.name

    async def probe(self) -> None:
        return None

    async def complete(self, request: ModelRequest) -> ModelReply:
        draw = random.Random(f"{self.seed} {request.subject} {request.key}")
        for _ in range(draw.randrange(20)):
            await asyncio.sleep(0)
        if self.left <= 0:
            raise EndpointError("the endpoint is gone")
        self.left -= 1
        reply = await self.inner.complete(request)  # which may hold none
        self.asked.append(f"{request.subject} {request.key}")
        return reply

    async def close(self) -> None:
        return None


class Faulty(ScriptedTrials):
    """Trials that print the traceback of the code that is at fault."""

    def __init__(self, paths: RunPaths) -> None:
        super().__init__(paths, self._judge_code)

    def _judge_code(self, spec: TrialSpec) -> Outcome:
        code = Path(spec.sources.code, spec.sources.entry).read_text()
        for fault, detail in FAULTS.items():
            if fault in code:
                at = code[: code.index(fault)].count("\n")
                log = (
                    "Traceback (most recent call last):\n"
                    f'  File "/scratch/code/{spec.sources.entry}", line {at + 1}, in main\n'
                    f"    {code.splitlines()[at].strip()}\n{detail}\n"
                )
                self._paths.trial(spec.trial_id).log.write_text(log)
                return IdeaFailed(failure=IdeaFailure.ERROR, detail=detail)
        noise = zlib.crc32(f"{spec.idea_id} {spec.seed}".encode()) % 97 / 1e4
        return scored((0.7 if spec.idea_id == "idea-0001" else 0.5) + noise)


@dataclass
class Grounded:
    """The digits campaign with scripted trials, in a folder of its own."""

    folder: Path
    recipe: Recipe
    library: Path
    in_flight: int = 4
    settings: dict[str, Any] = field(default_factory=dict)
    state: CampaignState = field(default_factory=CampaignState)
    generation: int = 0
    banked: int = 0

    @property
    def paths(self) -> RunPaths:
        return RunPaths(self.folder / "run")

    def prepare(self, recorded: frozenset[str]) -> CampaignConfig:
        if self.paths.campaign.exists():
            return frozen.read(self.paths)
        self.paths.trials.mkdir(parents=True)
        self.paths.recipe.symlink_to(self.recipe.folder)
        nowhere = {Split.VALIDATION: os.devnull, Split.TEST: os.devnull}
        settings = Settings.model_validate({"ideas": IDEAS, **self.settings})
        config = CampaignConfig(
            campaign_id="grounded-1",
            created="2026-01-01T00:00:00+00:00",
            package_version=__version__,
            python=sys.executable,
            recipe_name="digits",
            recipe_origin=str(self.recipe.folder),
            recipe_hash=self.recipe.recipe_hash,
            data_hash="",
            views=nowhere,
            labels=nowhere,
            model_spec="playbook",
            model_name="playbook",
            library=str(self.library),
            steps=stages.applied(settings, True, dict.fromkeys(ROLES, recorded)),
            isolation=Isolation.NONE,
            slots=2,
            in_flight=self.in_flight,
            lag=2,
            settings=settings,
        )
        frozen.write(self.paths, config)
        return config

    def drive(self, model: Jittery) -> None:
        """Drive it as a new driver would, from whatever is on the disk."""
        config = self.prepare(model.inner.stages())
        self.state = CampaignState()
        self.generation += 1
        kept = Journal(self.paths.journal, self.state.apply)
        session = Session(self.paths, kept, self.state, self.generation)
        shelved = campaign_library.open_library(self.library)
        agents = model_agents(model, config, self.recipe, session, None, shelved)
        wired = assemble(config, self.recipe, session, agents, Faulty(self.paths))

        async def run() -> None:
            try:
                await wired.conductor.run()
            finally:
                await wired.close()
                self.banked = len(wired.conductor.performers.admission.bank)

        try:
            asyncio.run(run())
        finally:
            kept.close()

    def idea(self, idea_id: str) -> Idea:
        return Idea.model_validate_json(self.paths.idea(idea_id).idea.read_bytes())

    def story(self) -> dict[str, Any]:
        """All that is known of each idea, and how it ended."""
        found: dict[str, Any] = {"survey": json.loads(self.paths.survey.read_text())}
        for idea_id, idea in self.state.ideas.items():
            own = self.paths.idea(idea_id)
            idea_file = self.idea(idea_id)
            checks = [own.verdict("novelty"), own.verdict("feasibility"), own.concepts, own.plan]
            found[idea_id] = (
                *(idea_file.proposal, idea_file.direction, idea_file.papers, idea_file.mode),
                *(path.read_text() if path.exists() else None for path in checks),
                (idea.ended.status, idea.ended.reason) if idea.ended else None,
            )
        return found


@pytest.fixture(scope="module")
def whole(
    recipe: Recipe, library: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Grounded, Jittery]:
    grounded = Grounded(tmp_path_factory.mktemp("whole"), recipe, library)
    model = Jittery(playbook(recipe))
    grounded.drive(model)
    return grounded, model


def playbook(recipe: Recipe) -> PlaybookModel:
    assert recipe.playbook is not None
    return PlaybookModel(recipe.playbook)


def test_every_step_is_taken(whole: tuple[Grounded, Jittery]) -> None:
    grounded, model = whole
    config = frozen.read(grounded.paths)
    assert config.steps == (
        *("survey", "directions", "reflect", "novelty", "feasibility", "concepts"),
        *("plan", "advise", "analyse"),
    )
    asked = {key.split()[1].split("/")[0] for key in model.asked}
    assert asked >= model.inner.stages()
    survey = Survey.model_validate_json(grounded.paths.survey.read_bytes())
    dropped = {paper.title: paper for paper in survey.papers if not paper.kept}
    assert set(dropped) == {
        "Show and tell: a neural image caption generator",
        "Scikit-learn: Machine Learning in Python",
    }
    assert all(paper.reason for paper in dropped.values())
    assert len(survey.kept) == 12


def test_each_rejection_names_its_evidence(whole: tuple[Grounded, Jittery]) -> None:
    ended = {i: idea.ended for i, idea in whole[0].state.ideas.items()}
    rejected = {i: e.reason or "" for i, e in ended.items() if e and e.status == "rejected"}
    assert rejected.keys() == REJECTED.keys()
    for idea_id, reason in REJECTED.items():
        assert rejected[idea_id].startswith(reason)
    # It is set aside, not lost.
    assert whole[0].idea("idea-0016").proposal.title
    assert whole[0].paths.idea("idea-0016").verdict("feasibility").exists()


def test_an_idea_tells_where_it_came_from(whole: tuple[Grounded, Jittery]) -> None:
    grounded, _ = whole
    survey = Survey.model_validate_json(grounded.paths.survey.read_bytes())
    kept = {paper.paper_id for paper in survey.kept}
    for number in (2, 8, 17):
        idea = grounded.idea(f"idea-{number:04d}")
        assert idea.direction
        assert 0 < len(idea.papers) <= 10
        assert set(idea.papers) <= kept
        assert idea.model == "playbook"
        chats = {ref.chat for ref in idea.prompts}
        leader = f"idea-{(number - 1) // 5 * 5 + 1:04d}"
        assert chats == {SURVEY_ID, leader, idea.idea_id}
        for ref in idea.prompts:
            lines = grounded.paths.idea(ref.chat).chat.read_text().splitlines()
            calls = {call.key: call for call in map(ChatLine.model_validate_json, lines)}
            prompt = json.dumps([message.model_dump() for message in calls[ref.key].prompt])
            assert hashlib.sha256(prompt.encode()).hexdigest() == ref.prompt_sha256
    assert grounded.idea("idea-0017").proposal.parent_ids == ("idea-0001", "idea-0005")


def test_what_reflection_changed_stands(whole: tuple[Grounded, Jittery]) -> None:
    title = whole[0].idea("idea-0008").proposal.title
    assert title == "Warm-up and cosine decay from a much higher learning rate"
    assert "idea-0008 reflect/2" in whole[1].asked
    assert "idea-0008 reflect/3" not in whole[1].asked


def attempts_of(grounded: Grounded, idea_id: str) -> list[tuple[int, int, str]]:
    """Number, parent and kind of each attempt, as the journal has them."""
    events = journal.read(grounded.paths.journal)
    written = (e for e in events if isinstance(e, AttemptWritten) and e.idea_id == idea_id)
    return [(e.attempt, e.parent, e.kind) for e in written]


@pytest.mark.parametrize(
    ("idea_id", "rounds"), [("idea-0008", 1), ("idea-0019", 3), ("idea-0022", 5)]
)
def test_code_is_fixed_in_the_first_third_and_fifth_round(
    whole: tuple[Grounded, Jittery], idea_id: str, rounds: int
) -> None:
    fixed = [(n, n - 1, "debug") for n in range(2, rounds + 2)]
    assert attempts_of(whole[0], idea_id) == [(1, 0, "draft"), *fixed]
    ended = whole[0].state.ideas[idea_id].ended
    assert ended is not None
    assert (ended.status, ended.attempt) == ("scored", rounds + 1)


def test_the_structure_is_analysed_before_it_is_fixed(whole: tuple[Grounded, Jittery]) -> None:
    lines = whole[0].paths.idea("idea-0008").chat.read_text().splitlines()
    calls = {call.key: call for call in map(ChatLine.model_validate_json, lines)}
    assert [key for key in calls if key in ("structure/1", "debug/1")] == ["structure/1", "debug/1"]
    assert "math has no attribute cosine" in calls["debug/1"].prompt[0].content


def test_a_part_is_completed_and_runs_are_added(whole: tuple[Grounded, Jittery]) -> None:
    grounded = whole[0]
    assert attempts_of(grounded, "idea-0014") == [(1, 0, "draft"), (2, 1, "complete")]
    followed = [(1, 0, "draft"), (2, 1, "sensitivity"), (3, 1, "ablation")]
    assert attempts_of(grounded, "idea-0001") == followed
    ended = grounded.state.ideas["idea-0001"].ended
    assert ended is not None
    assert (ended.status, ended.attempt) == ("scored", 1)
    assert "AttributeError" in grounded.paths.idea("idea-0001").notes.read_text()


def test_concepts_cite_formula_and_code_of_the_library(whole: tuple[Grounded, Jittery]) -> None:
    found = json.loads(whole[0].paths.idea("idea-0001").concepts.read_text())
    assert [concept["name"] for concept in found] == ["Momentum"]
    assert r"\mu v_t" in found[0]["formula"]
    assert found[0]["code_id"].startswith("methods/training.py:")
    assert "def momentum_step" in found[0]["code"]
    # Who writes the code is shown both.
    lines = whole[0].paths.idea("idea-0001").chat.read_text().splitlines()
    (call,) = [c for c in map(ChatLine.model_validate_json, lines) if c.key == "code/1"]
    assert "def momentum_step" in call.prompt[0].content
    assert found[0]["formula"] in call.prompt[0].content


@pytest.mark.parametrize("in_flight", [pytest.param(1, marks=pytest.mark.full), IDEAS])
def test_the_same_ideas_whatever_goes_on_side_by_side(
    whole: tuple[Grounded, Jittery], tmp_path: Path, in_flight: int
) -> None:
    first = whole[0]
    again = Grounded(tmp_path, first.recipe, first.library, in_flight)
    again.drive(Jittery(playbook(first.recipe), seed=in_flight))
    assert again.story() == first.story()
    assert again.state.ideas.keys() == first.state.ideas.keys()


def test_a_run_directory_replays_its_own_campaign(
    whole: tuple[Grounded, Jittery], tmp_path: Path
) -> None:
    first = whole[0]
    again = Grounded(tmp_path, first.recipe, first.library, in_flight=2)
    again.drive(Jittery(PlaybookModel(first.paths.root), seed=7))
    assert again.story() == first.story()
    tokens = (first.state.prompt_tokens, first.state.completion_tokens)
    assert (again.state.prompt_tokens, again.state.completion_tokens) == tokens


def settled_calls(paths: RunPaths) -> set[str]:
    """The calls whose outcome lies in a file, as "idea key"."""
    found: set[str] = set()
    for folder in (paths.root / "ideas").iterdir():
        own = paths.idea(folder.name)
        keys = [json.loads(line)["key"] for line in own.chat.read_text().splitlines()]
        outcomes = {
            ("propose/", "reflect/"): own.idea,
            ("directions/", "converge/"): own.directions,
            ("plan/",): own.plan,
            ("code/1",): own.code(1),
            **{(f"analyse/{n}",): own.reading(n) for n in (1, 2, 3)},
        }
        for beginnings, outcome in outcomes.items():
            if outcome.exists():
                found.update(f"{folder.name} {key}" for key in keys if key.startswith(beginnings))
    return found


def test_with_prompts_that_were_edited_what_is_settled_stands(
    whole: tuple[Grounded, Jittery], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, model = whole
    again = Grounded(tmp_path, first.recipe, first.library)
    with pytest.raises(EndpointError):
        again.drive(Jittery(playbook(first.recipe), seed=1, left=len(model.asked) * 3 // 5))
    settled = settled_calls(again.paths)
    for stage in ("propose", "directions", "converge", "plan", "code", "analyse"):
        assert [call for call in settled if call.split()[1].startswith(f"{stage}/")], stage
    ended = {i: s.ended for i, s in again.state.ideas.items() if s.ended}
    assert ended
    render = Template.render

    def edited(self: Template, *args: Any, **context: Any) -> str:
        return f"{render(self, *args, **context)}\n\nThis is said since."

    monkeypatch.setattr(Template, "render", edited)
    last = Jittery(playbook(first.recipe), seed=2)
    again.drive(last)
    assert settled.isdisjoint(last.asked)
    assert {i: again.state.ideas[i].ended for i in ended} == ended
    reasons = {i: s.ended for i, s in first.state.ideas.items()}
    assert {i: s.ended for i, s in again.state.ideas.items()} == reasons


def test_whatever_stops_it_nothing_is_asked_twice(
    whole: tuple[Grounded, Jittery], tmp_path: Path
) -> None:
    first, model = whole
    again = Grounded(tmp_path, first.recipe, first.library)
    asked: list[str] = []
    for replies in (1, 9, 11, 5, 30, 40, 60):
        stopping = Jittery(playbook(first.recipe), seed=replies, left=replies)
        with pytest.raises(EndpointError):
            again.drive(stopping)
        asked += stopping.asked
    last = Jittery(playbook(first.recipe))
    again.drive(last)
    assert again.story() == first.story()
    # Also what was let in and set aside later rejects its look-alikes.
    assert again.banked == first.banked == IDEAS - 1
    assert len(asked + last.asked) == len(set(asked + last.asked))
    assert set(asked + last.asked) == set(model.asked)


def test_follow_up_develops_what_improved_most(
    whole: tuple[Grounded, Jittery], tmp_path: Path
) -> None:
    first = whole[0]
    stories = []
    for in_flight in (1, 4, 12):
        settings = {"proposing": {"mode": "follow-up", "batch": 3}, "ideas": 12}
        folder = tmp_path / str(in_flight)
        again = Grounded(folder, first.recipe, first.library, in_flight, settings)
        again.drive(Jittery(playbook(first.recipe), seed=in_flight))
        stories.append(again.story())
        modes = [again.idea(i).mode for i in again.state.ideas]
        # The first batch has nothing to follow; the second begins while the first is under way.
        assert modes == ["open"] * 6 + ["follow-up"] * 6
        parents = [again.idea(i).proposal.parent_ids for i in again.state.ideas]
        assert all("idea-0001" in of for of in parents[6:])
    assert stories[0] == stories[1] == stories[2]


def test_a_library_that_was_changed_since_launch_is_told(
    whole: tuple[Grounded, Jittery], tmp_path: Path
) -> None:
    first, paths = whole[0], RunPaths(tmp_path / "run")
    notes: list[str] = []
    same = campaign_library.open_library(first.library).fingerprint
    config = frozen.read(first.paths).model_copy(update={"library_hash": same})
    assert campaign_library.reopen(config, paths, notes.append) is not None
    assert notes == []
    other = config.model_copy(update={"library_hash": "another"})
    assert campaign_library.reopen(other, paths, notes.append) is not None
    (note,) = notes
    assert note.startswith(f"{other.library}: ")


def test_a_library_moves_with_its_run_directory_and_a_lost_one_is_named(
    whole: tuple[Grounded, Jittery], tmp_path: Path
) -> None:
    first, paths = whole[0], RunPaths(tmp_path / "moved")
    gone = str(tmp_path / "run" / "library")
    config = frozen.read(first.paths).model_copy(update={"library": gone})
    with pytest.raises(LibraryError, match=f"library build .*/library --out {paths.library}`"):
        campaign_library.reopen(config, paths, lambda text: None)
    shutil.copytree(first.library, paths.library)
    assert campaign_library.reopen(config, paths, lambda text: None) is not None
    # A folder of the user's own is looked for nowhere else.
    literature = config.settings.literature.model_copy(update={"library": gone})
    settings = config.settings.model_copy(update={"literature": literature})
    with pytest.raises(LibraryError, match=re.escape(f"{gone}: ")):
        given = config.model_copy(update={"settings": settings})
        campaign_library.reopen(given, paths, lambda text: None)


def test_a_damaged_survey_is_named(
    whole: tuple[Grounded, Jittery], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first, model = whole
    again = Grounded(tmp_path, first.recipe, first.library)
    before = next(n for n, call in enumerate(model.asked) if call.startswith("idea-"))
    with pytest.raises(EndpointError):
        again.drive(Jittery(playbook(first.recipe), left=before))
    again.paths.survey.write_text("{")
    with pytest.raises(RunDirectoryError, match=r"survey\.json: is damaged"):
        again.drive(Jittery(playbook(first.recipe)))
    gc.collect()
    assert "never retrieved" not in caplog.text  # of the other ideas that came upon it
