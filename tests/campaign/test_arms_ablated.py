"""Each arm of `bench loop` leaves out what its name says, and only that: seen in whole campaigns.

The recorded replies of the shipped recipe go through every step of the real conductor; what is
counted is which prompts were asked and what stood in them, which ideas were let in, what was
fixed, and what was reviewed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

import pytest
from benchmarks.campaigns import loop
from test_grounded import Grounded, Jittery, playbook

from hpcscientist.campaign.proposals import campaign_library
from hpcscientist.config.settings import Settings
from hpcscientist.files.rundir import RunPaths
from hpcscientist.history import journal
from hpcscientist.models.chat import ChatLine
from hpcscientist.recipe.load import load, shipped_folder
from hpcscientist.records.events import AttemptReviewed, AttemptWritten
from hpcscientist.records.literature import Survey

IDEAS = 9  # one look-alike and one that needs fixing are among them
ABLATED = [arm for arm in loop.ARMS if arm not in (loop.WHOLE, "search")]


@dataclass(frozen=True)
class Did:
    """What a campaign did with each of the parts that can be left out."""

    told: int  # prompts for a proposal with an effect that was measured
    ranked: int  # papers that a model was asked about
    dropped: int  # papers that the survey found and did not keep
    alike: int  # ideas rejected as look-alikes
    repairs_asked: int
    repaired: int  # versions that fix another
    reviews_asked: int
    reviewed: int  # versions held against their idea


# What each arm brings to nothing; all else it does as the whole loop does it.
NOTHING_OF = {
    "no-feedback": {"told"},
    "no-ranking": {"ranked", "dropped"},
    "no-bank": {"alike"},
    "no-debugging": {"repairs_asked", "repaired"},
    "no-advisor": {"reviews_asked", "reviewed"},
}


def did(grounded: Grounded, model: Jittery) -> Did:
    def asked(stage: str) -> int:
        return sum(key.split()[1].startswith(f"{stage}/") for key in model.asked)

    paths = grounded.paths
    events = journal.read(paths.journal)
    survey = Survey.model_validate_json(paths.survey.read_bytes())
    ended = [idea.ended for idea in grounded.state.ideas.values() if idea.ended]
    return Did(
        told=sum("+0.2" in prompt for prompt in proposals(paths)),
        ranked=asked("rank"),
        dropped=sum(not paper.kept for paper in survey.papers),
        alike=sum(end.like is not None for end in ended),
        repairs_asked=asked("debug"),
        repaired=sum(isinstance(e, AttemptWritten) and e.kind == "debug" for e in events),
        reviews_asked=asked("advise"),
        reviewed=sum(isinstance(e, AttemptReviewed) for e in events),
    )


def proposals(paths: RunPaths) -> list[str]:
    """The prompts that ideas were proposed by."""
    found = []
    for chat in sorted(paths.root.glob("ideas/*/chat.jsonl")):
        calls = map(ChatLine.model_validate_json, chat.read_text().splitlines())
        found += [c.prompt[0].content for c in calls if c.key.startswith(("directions", "propose"))]
    return found


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Did]:
    """Run the campaign of an arm, once."""
    recipe = load(shipped_folder() / "digits")
    made = campaign_library.furnish(Settings(), recipe, RunPaths(tmp_path_factory.mktemp("shelf")))

    @cache
    def of(arm: str) -> Did:
        settings = loop.settings_of(arm, Settings(ideas=IDEAS), seed=0)
        folder = tmp_path_factory.mktemp(arm)
        # One after the other: what one is told does not depend on what else is under way.
        grounded = Grounded(folder, recipe, Path(made), 1, settings.model_dump())
        model = Jittery(playbook(recipe))
        grounded.drive(model)
        return did(grounded, model)

    return of


def test_the_whole_loop_does_all_of_it(run: Callable[[str], Did]) -> None:
    assert all(asdict(run(loop.WHOLE)).values())


@pytest.mark.parametrize("arm", ABLATED)
def test_an_arm_leaves_out_its_part_and_no_other(arm: str, run: Callable[[str], Did]) -> None:
    whole, without = asdict(run(loop.WHOLE)), asdict(run(arm))
    assert {part for part, count in without.items() if not count} == NOTHING_OF[arm]
    others = whole.keys() - NOTHING_OF[arm]
    if arm == "no-bank":  # who is let in goes on to be written, fixed and reviewed
        assert all(without[part] >= whole[part] for part in others)
    elif arm == "no-debugging":  # who is not fixed comes to no review
        assert all(without[part] <= whole[part] for part in others)
    else:
        assert {part: without[part] for part in others} == {part: whole[part] for part in others}
