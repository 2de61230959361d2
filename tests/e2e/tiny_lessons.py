"""What a tiny model is taught: the tiny recipe's real prompts, each with the reply wanted.

    python tests/e2e/tiny_lessons.py FOLDER

trains a model on them and writes it to FOLDER (see tiny_models). The prompts are what the
proposer and the author really send, with all that differs from campaign to campaign drawn
at random: how many ideas there are, what became of them, measured effects, folders.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tiny_models import Lesson, make_trained
from tiny_recipe import RATE, edit, write_recipe

from hpcscientist.authoring.coder import ModelAuthor
from hpcscientist.config.settings import AuthoringSettings
from hpcscientist.feedback.summary import IdeaNote, summarise
from hpcscientist.ideation.propose import ModelProposer
from hpcscientist.models.prompting.fitting import Window
from hpcscientist.recipe.load import Recipe, load
from hpcscientist.records.authoring import Brief, CodeReply, Edit, FixReply, FixTask
from hpcscientist.records.findings import Comparison, Finding, Verdict
from hpcscientist.records.idea import Idea, Proposal, idea_id_of
from hpcscientist.records.model_calls import ModelReply, ModelRequest
from hpcscientist.records.proposing import ArchiveEntry, ProposalTask
from hpcscientist.records.trial import IdeaFailed, IdeaFailure

DRAW = "draw.random() < ERROR_RATE"
# (title, summary, search, replace): one that helps, one that helps less, one fixed from its
# traceback, one given up, one that makes things worse, one that changes nothing.
IDEAS = [
    (
        "Fewer slips",
        "Lower the share of wrong answers to almost nothing at all.",
        RATE,
        "ERROR_RATE = 0.01",
    ),
    (
        "Two readers",
        "A second reader checks each number, and both must slip for a mistake to stand.",
        DRAW,
        f"{DRAW} ** 2",
    ),
    (
        "Sorted reading",
        "Read inputs in ascending order before deciding about parity.",
        RATE,
        "ERROR_RATE = random.sort_of(0.3)",
    ),
    (
        "A hopeless case",
        "Import some library which nobody has ever installed anywhere.",
        "import random",
        "import random.rondom as random",
    ),
    (
        "Careless reading",
        "Hurry, and accept many more slips than before.",
        RATE,
        "ERROR_RATE = 0.45",
    ),
    (
        "Backward reading",
        "Begin with the last line of the file, and write its row first.",
        "read_text().split():",
        "read_text().split()[::-1]:",
    ),
]
FAILURES = {
    2: (
        "AttributeError: module 'random' has no attribute 'sort_of'",
        5,
        "ERROR_RATE = random.sort_of(0.3)",
    ),
    3: (
        "ModuleNotFoundError: No module named 'random.rondom'; 'random' is not a package",
        3,
        "import random.rondom as random",
    ),
}
FIX = FixReply(
    diagnosis="There is no function of the name sort_of.",
    edits=(Edit(**edit("random.sort_of(0.3)", "min(0.3, 0.25)")[0]),),
)
GIVE_UP = FixReply(diagnosis="The idea cannot be made to work.", give_up=True)
# The form that is taught: what is searched for is one line here, a unit may be all of the file.
SEARCH = AuthoringSettings(edits="search")
NUMBERS = 12  # ideas beyond the sixth repeat earlier ones, and are rejected as look-alikes


def proposal(number: int) -> Proposal:
    title, summary, search, replacement = IDEAS[(number - 1) % len(IDEAS)]
    return Proposal(
        title=title,
        hypothesis=f"{title} changes the accuracy.",
        method=f"Replace {search} by {replacement}",
        experiment_plan="Change that line alone.",
        summary=summary,
    )


def code(number: int) -> CodeReply:
    title, _, search, replacement = IDEAS[(number - 1) % len(IDEAS)]
    return CodeReply(note=title, edits=(Edit(**edit(search, replacement)[0]),))


def lessons(repeats: int = 8, seed: int = 0) -> list[Lesson]:
    """The lessons, `repeats` of each kind with all that varies drawn anew."""
    with tempfile.TemporaryDirectory() as folder:
        recipe = load(write_recipe(Path(folder), Path("COUNTED")))
    return asyncio.run(_lessons(recipe, repeats, random.Random(seed)))


async def _lessons(recipe: Recipe, repeats: int, draw: random.Random) -> list[Lesson]:
    found = []
    for _ in range(repeats):
        for number in range(1, NUMBERS + 1):
            found.append(await _asked(_elsewhere(recipe, draw), number, "propose", draw))
        for number in range(1, len(IDEAS) + 1):
            found.append(await _asked(_elsewhere(recipe, draw), number, "code", draw))
            found.append(await _asked(_elsewhere(recipe, draw), number, "debug", draw))
    return found


def _elsewhere(recipe: Recipe, draw: random.Random) -> Recipe:
    """The recipe as it would be in another folder: the reference holds a path."""
    name = "experiment.py"
    text = recipe.reference[name].replace("COUNTED", f"{_folder(draw)}/executed")
    return replace(recipe, reference={**recipe.reference, name: text})


def _folder(draw: random.Random) -> str:
    words = ["tmp", "srv", "home", "scratch", "pytest-of-root", "test_campaign0", "shared", "run"]
    numbers = [f"t-{draw.randrange(16**6):06x}", f"pytest-{draw.randrange(300)}"]
    return "/" + "/".join(draw.sample([*words, *numbers], draw.randint(2, 5)))


class _Recorder:
    """A model that gives one reply and keeps what it was asked."""

    name = "teacher"

    def __init__(self, reply: str) -> None:
        self.reply = reply
        self.asked: list[ModelRequest] = []

    async def probe(self) -> None:
        """There is nothing to reach."""

    async def close(self) -> None:
        """There is nothing to release."""

    async def complete(self, request: ModelRequest) -> ModelReply:
        self.asked.append(request)
        return ModelReply(
            text=self.reply,
            model=self.name,
            prompt_tokens=0,
            completion_tokens=0,
            tokens_estimated=True,
            latency_s=0.0,
        )


async def _asked(recipe: Recipe, number: int, stage: str, draw: random.Random) -> Lesson:
    wanted: Proposal | CodeReply | FixReply
    if stage == "propose":
        wanted = proposal(number)
    elif stage == "code":
        wanted = code(number)
    else:
        wanted = FIX if number == 3 else GIVE_UP
    # The engine's grammar allows no blanks between the parts of a reply.
    model = _Recorder(wanted.model_dump_json(exclude_none=True))
    window = Window(holds_schemas=True)  # as a served model's: its prompts show no schema
    author = ModelAuthor(model, recipe, window=window, authoring=SEARCH)
    if stage == "propose":
        proposer = ModelProposer(model, recipe, 0, window=window)
        await proposer.propose(_proposal_task(recipe, number, draw))
    elif stage == "code":
        await author.write(Brief(idea=_idea(number)))
    else:
        await author.fix(_fix_task(recipe, number, draw))
    request = model.asked[0]
    messages = tuple({"role": m.role, "content": m.content} for m in request.messages)
    return Lesson(messages, model.reply, request.reply_schema or {})


def _idea(number: int) -> Idea:
    return Idea(
        idea_id=idea_id_of(number),
        number=number,
        round=1,
        proposal=proposal(number),
        model="teacher",
        seed=0,
    )


def _proposal_task(recipe: Recipe, number: int, draw: random.Random) -> ProposalTask:
    """A task with some of the earlier ideas, of which some have ended."""
    earlier = range(1, draw.randint(1, number))
    phrases = ["in progress", "failed", "rejected", *(verdict.value for verdict in Verdict)]
    archive = tuple(
        ArchiveEntry(
            idea_id=idea_id_of(i),
            title=proposal(i).title,
            summary=proposal(i).summary,
            finding=draw.choice(phrases),
        )
        for i in earlier
    )
    notes = [_note(i, draw) for i in earlier if draw.random() < 0.7]
    return ProposalTask(
        idea_id=idea_id_of(number),
        number=number,
        round=1,
        feedback=summarise(notes, recipe.spec.primary, 2000).text,
        archive=archive,
        scores=(),
    )


def _note(number: int, draw: random.Random) -> IdeaNote:
    status: Any = draw.choice(["scored", "failed"])
    delta = draw.uniform(-0.3, 0.3)
    comparison = Comparison(
        mean=0.7 + delta,
        std=0.02,
        n=2,
        baseline_mean=0.7,
        delta=delta,
        ci_low=delta - draw.random(),
        ci_high=delta + draw.random(),
        p_value=draw.random(),
        paired=True,
    )
    verdict = draw.choice([None, *Verdict])
    return IdeaNote(
        idea_id=idea_id_of(number),
        title=proposal(number).title,
        summary=proposal(number).summary,
        status=status,
        reason="error: it ended with exit code 1; given up" if status == "failed" else None,
        finding=None
        if status == "failed"
        else Finding(comparison=comparison, p_adjusted=draw.random(), verdict=verdict),
    )


def _fix_task(recipe: Recipe, number: int, draw: random.Random) -> FixTask:
    error, line, source = FAILURES.get(
        (number - 1) % len(IDEAS), ("OSError: [Errno 5] Input/output error", 14, "rows = []")
    )
    chosen = code(number).edits[0]
    name = "experiment.py"
    text = recipe.reference[name].replace(chosen.search or "", chosen.replace)
    where = draw.choice(["/code", _folder(draw)])
    log = (
        "Traceback (most recent call last):\n"
        f'  File "{where}/{name}", line {line}, in <module>\n    {source}\n{error}\n'
    )
    rounds = draw.randint(1, 4)
    return FixTask(
        idea=_idea(number),
        files={**recipe.reference, name: text},
        outcome=IdeaFailed(failure=IdeaFailure.ERROR, detail=error),
        log_tail=log,
        round=draw.randint(1, rounds),
        rounds=rounds,
    )


if __name__ == "__main__":
    print(json.dumps(vars(make_trained(Path(sys.argv[1]), lessons()))))
