from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import jinja2
import pytest

import hpcscientist
from hpcscientist.authoring.edits.forms import Offer
from hpcscientist.authoring.edits.units import EditUnit
from hpcscientist.models.prompting.prompts import fence, render, templates
from hpcscientist.papers.writing.advice import ABSTRACT_ADVICE
from hpcscientist.papers.writing.drafts import FigureOffer
from hpcscientist.recipe.schema import Budgets, BudgetSpec, Resources, Topic
from hpcscientist.records.experiment import ConceptCheck, ReviewReply
from hpcscientist.records.idea import Proposal
from hpcscientist.records.literature import Concept, ConceptRecord, TaskAttributes
from hpcscientist.records.proposing import Direction as Way
from hpcscientist.records.proposing import Leader, Reference
from hpcscientist.records.trial import Direction, IdeaFailure, MetricSpec
from hpcscientist.reviews.form import load as load_form
from hpcscientist.reviews.reviewer import Example

ROOMS = {
    file.parent.name: templates(file.parent)
    for file in Path(hpcscientist.__file__).parent.glob("*/prompts.md.j2")
}
TOPIC = Topic(
    title="Small digits", description="Tell digits apart.", inputs="8x8 images", outputs="a digit",
    attributes=("few examples",),
)  # fmt: skip
IDEA = Proposal(
    title="Wider net", hypothesis="It underfits.", method="Double the width.",
    experiment_plan="WIDTH = 64 in experiment.py", summary="A wider network.",
)  # fmt: skip
METRICS = (
    MetricSpec(name="accuracy", direction=Direction.MAXIMIZE, minimum_effect=0.005),
    MetricSpec(name="loss", direction=Direction.MINIMIZE),
)
BUDGETS = Budgets(pilot=BudgetSpec(seconds=10.0), full=BudgetSpec(seconds=45.5))
REFERENCE = {"experiment.py": "WIDTH = 32\n", "data.py": "pass\n"}
OFFER = Offer(("unit", "search"), ("experiment.py",), ("experiment.py: WIDTH",))
SHARED: dict[str, Any] = {
    "topic": TOPIC,
    "reference_files": REFERENCE,
    "editable": ("experiment.py",),
    "budgets": BUDGETS,
}
CONTRACT = {"entry": "experiment.py", "predictions": "predictions.csv"}
ATTRIBUTES = TaskAttributes(inputs="an image", outputs="one of ten digits", other=("few images",))
TASK = {"topic": TOPIC, "attributes": ATTRIBUTES}
PAPER = {"id": "arxiv:1", "title": "Strokes", "abstract": "We count strokes."}
PAPERS = (
    Reference(paper_id="arxiv:1", title="Strokes", abstract="", year=2020),
    Reference(paper_id="doi:2", title="Pens", abstract=""),
)
PLAN = (("What the code must contain", "(1) a wider layer"), ("Model", "64 units"))
WAY = Way(title="More data", summary="Shift each image.")
FIELDS = (("Title", "Wider net"), ("Method", "Double the width."))
KNOWN: dict[str, Any] = SHARED | {
    "metrics": METRICS,
    "feedback_text": "Width helps.",
    "archive": [
        {"idea_id": "idea-0001", "title": "Dropout", "summary": "Drops.", "finding": "decline"},
        {"idea_id": "idea-0002", "title": "Mixup", "summary": "Mixes.", "finding": None},
    ],
    "seed_ideas": (IDEA,),
    "references": PAPERS,
    "abstracts": {"arxiv:1": "We count strokes."},
    "instruction": "Stay with numpy.",
    "leader": Leader(idea_id="idea-0001", proposal=IDEA, effect="+0.02 accuracy"),
    "leader_fields": FIELDS,
}
CONTEXTS: dict[str, dict[str, Any]] = {
    "attributes": {"topic": TOPIC},
    "queries": TASK
    | {"asked": ("digit recognition",), "papers": (("Strokes", "We count."), ("Pens", ""))}
    | {"count": 5},
    "rank": TASK | {"title": "Strokes", "abstract": "We count strokes."},
    "concepts": {
        "title": "Wider net",
        "summary": "A wider network.",
        "method": "Double the width.",
        "details": "WIDTH = 64",
        "count": 5,
    },
    "profile": {
        "concept": Concept(name="Softmax", definition="Normalised.", query="softmax"),
        "formulas": [{"id": "arxiv:1#f1", "title": "Strokes", "context": "So", "text": "a = b"}],
        "symbols": [{"id": "net/a.py:1-2", "code": "def softmax(x):\n    return x"}],
        "papers": [PAPER],
    },
    "directions": KNOWN | {"count": 10, "chosen": 5},
    "converge": KNOWN | {"directions": (WAY,)},
    "propose": KNOWN | {"number": 3, "direction": WAY, "others": ("Ensembles",)},
    "reflect": {"round": 1, "rounds": 3, "remarks": ("Too vague.",), "others": True},
    "repeats": {"title": "Wider net", "summary": "More units.", "reason": "looks like idea-0001"},
    "novelty": {
        "idea_fields": FIELDS,
        "searches": ("“pens”: 2 papers, 1 not found before",),
        "earlier": PAPERS[1:],
        "newest": PAPERS[:1],
        "abstracts": {"arxiv:1": "We count strokes."},
        "round": 2,
        "rounds": 10,
        "last": False,
        "problem": "it asks for a search without a query",
    },
    "feasibility": SHARED
    | {
        "idea_fields": FIELDS,
        "resources": Resources(cpus=2),
        "packages": ("numpy",),
        "reference_s": 12.5,
    },
    "plan": SHARED
    | {"idea_fields": FIELDS, "metrics": METRICS, "resources": Resources(cpus=2)}
    | {"packages": ("numpy",)}
    | {"concepts": (ConceptRecord(name="Width", definition="Units a layer.", code="WIDTH = 64"),)},
    "replan": {"problems": ("imports torch; there is numpy",)},
    "contradiction": {"lacking": ["needs data that the recipe lacks: a corpus"]},
    "code": SHARED
    | {"idea": IDEA, "resources": Resources(cpus=2), "contract": render("contract", **CONTRACT)}
    | {"plan": PLAN},
    "debug": {
        "idea": IDEA,
        "files": REFERENCE,
        "failure_kind": IdeaFailure.ERROR,
        "detail": "NameError: name 'x' is not defined",
        "frames": [
            {"file": "experiment.py", "line": 7, "function": "train", "code": "def train(): x"}
        ],
        "log_tail": "Traceback …",
        "earlier": ["a typo"],
        "guided": True,
        "definitions": (),
        "calls": (),
        "names": ("x: bound nowhere in experiment.py",),
        "shapes": (),
        "analysis": (),
        "round": 2,
        "rounds": 3,
    },
    "structure": {
        "title": "Wider",
        "files": REFERENCE,
        "failure_kind": IdeaFailure.ERROR,
        "detail": "NameError: name 'x' is not defined",
        "frames": [
            {"file": "experiment.py", "line": 7, "function": "train", "code": "def train(): x"}
        ],
        "log_tail": "Traceback …",
        "guided": True,
        "definitions": ("experiment.py:7 function train: def train(): x",),
        "calls": ("experiment.py:9 main calls train: train()",),
        "names": ("x: bound nowhere in experiment.py",),
        "shapes": ("experiment.py:3 layer = Linear(784, 10)",),
        "code": [{"file": "experiment.py", "first": 7, "code": "def train(): x"}],
        "editable": ("experiment.py",),
    },
    "complete": {
        "editable": ("experiment.py",),
        "budgets": BUDGETS,
        "idea_fields": FIELDS,
        "plan": PLAN,
        "concepts": (ConceptRecord(name="Width", definition="Units a layer.", code="WIDTH = 64"),),
        "files": REFERENCE,
        "findings": ("Width (experiment.py, line 1): partial. It is 32 still.",),
        "advice": "Set it.",
        "round": 1,
    },
    "improve": {
        "editable": ("experiment.py",),
        "budgets": BUDGETS,
        "idea_fields": FIELDS,
        "plan": PLAN,
        "concepts": (ConceptRecord(name="Width", definition="Units a layer.", code="WIDTH = 64"),),
        "metric": METRICS[0],
        "measured": "`accuracy` 0.9; `loss` 0.3",
        "reference": "`accuracy` 0.88; `loss` 0.35",
        "led": ("A wider layer.", "Standardised inputs."),
        "tried": ("Dropout. Result: `accuracy` 0.87",),
        "files": REFERENCE,
    },
    "advise": {
        "title": "Wider net",
        "method": "Double the width.",
        "details": "WIDTH = 64",
        "plan": PLAN,
        "concepts": (
            {"name": "Width", "definition": "Units a layer.", "own": False},
            {"name": "The loss, unchanged", "definition": "", "own": True},
        ),
        "profiles": (ConceptRecord(name="Width", definition="Units a layer.", code="WIDTH = 64"),),
        "files": {"experiment.py": "1+| WIDTH = 64", "data.py": "1 | pass"},
        "states": {"experiment.py": "changed", "data.py": "as in the reference"},
        "diff": "-WIDTH = 32\n+WIDTH = 64",
        "signs": ("experiment.py:1: `GAMMA` is set and never read by what runs",),
        "same_as_reference": True,
        "most": 150,
    },
    "analyse": {
        "topic": TOPIC,
        "metrics": METRICS,
        "budgets": BUDGETS,
        "idea_fields": FIELDS,
        "plan": PLAN,
        "reference": "`accuracy` 0.9 ± 0.01 (5 seeds)",
        "main": "`accuracy` 0.92 ± 0.01 (5 seeds), +0.02 against the reference",
        "runs": (
            {"name": "Run 1, ablation: no width", "change": "WIDTH = 32", "measured": "failed: x"},
            {"name": "Run 2, follow-up: depth", "change": "", "measured": "`accuracy` 0.91"},
        ),
        "curves": ({"name": "The idea itself", "text": "loss: 2 values; first 2, last 1"},),
        "left": 3,
    },
    "extend": {
        "editable": ("experiment.py",),
        "budgets": BUDGETS,
        "idea_fields": FIELDS,
        "plan": PLAN,
        "files": REFERENCE,
        "kind": "ablation",
        "title": "Without the width",
        "purpose": "What does the width give?",
        "change": "WIDTH = 32",
    },
    "unit": {
        "idea_fields": FIELDS,
        "unit": EditUnit("experiment.py", "WIDTH", 1, 1),
        "code": "WIDTH = 32",
        "written": "WIDTH = x",
        "names": ("WIDTH", "np"),
        "problem": "'x' is not defined",
        "fixes": False,
        "offer": OFFER,
    },
    "part": {
        "idea_fields": FIELDS,
        "unit": EditUnit("experiment.py", "WIDTH", 1, 1),
        "change": "64 in place of 32.",
        "failure": "NameError: name 'widht' is not defined",
        "code": "WIDTH = 32",
        "beside": [("experiment.py: train", "Twice as long.")],
        "imports": "import numpy as np",
        "names": ("train",),
    },
    "definition": {
        "idea_fields": FIELDS,
        "name": "RATE",
        "is_function": False,
        "code": "WIDTH = RATE",
    },
    "contract": CONTRACT,
    "repair": {"problem": "note: Field required", "cut_off": True, "thought_only": False},
    "rejected": {"problem": "experiment.py: the search text does not occur"},
    "reply_format": {"schema": '"type": "object"'},
}
PAPER: dict[str, Any] = {
    "title": "A wider layer",
    "topic": "Tell digits apart.",
    "about": "This paper is about one idea.",
    "fields": FIELDS,
    "facts": ("[a.mean] is printed as “5”: accuracy",),
}
FIGURES = (FigureOffer("forest", "effects with intervals", "Effects."),)
SECTION = ABSTRACT_ADVICE
WRITING = PAPER | {
    "advice": SECTION,
    "figures": FIGURES,
    "names": ("CIFAR-100",),
    "others": (("Method", "It is wide."),),
    "evidence": ("[@lecun1998#1] Networks read.",),
}
FORM = load_form("neurips", Path())
CONTEXTS |= {
    "review": {
        "guidance": FORM.guidance,
        "fields": FORM.fields,
        "examples": (Example("# Another paper", "overall: 6"),),
        "paper": "# Strokes",
        "count": 3,
        "previous": "overall: 4",
        "round": 2,
        "rounds": 5,
    },
    "chair": {"title": "Strokes", "reviews": ("overall: 4",), "fields": FORM.fields},
    "read": {"title": "Strokes", "text": "We count.", "part": 2, "count": 3},
    "compare": {
        "first": "# Strokes",
        "second": "# Pens",
        "first_parts": 2,
        "second_parts": 1,
        "aspects": (("rigor", "How sound it is."),),
    },
    "errors": {"paper": "# Strokes", "count": 2},
}
CONTEXTS |= {
    "outline": {k: v for k, v in PAPER.items() if k != "title"}
    | {"sections": (SECTION,), "figures": FIGURES},
    "related": {k: v for k, v in PAPER.items() if k not in ("about", "facts")}
    | {
        "sections": (SECTION,),
        "searches": ("“width”: 2 not found before",),
        "kept": ("[@lecun1998#1] Networks read.",),
        "papers": (("Strokes (2020)", ("[@a#1] Strokes are counted.",)),),
        "round": 1,
        "rounds": 2,
        "most": 6,
        "last": True,
    },
    "section": WRITING | {"points": ("It is wider.",)},
    "refine": WRITING | {"text": "It is.", "remarks": ("Say how wide.",)},
    "mend": WRITING | {"text": "It is.", "defects": ("method, paragraph 1: typed_number",)},
    "defects": {"defects": ("method, paragraph 1: typed_number",), "same": True},
    "checklist": {
        "advice": SECTION,
        "text": "It is.",
        "facts": PAPER["facts"],
        "questions": {"plain": "Is it plain?"},
        "supports": (("It reads.", "Networks read."),),
    },
    "whole": {k: v for k, v in PAPER.items() if k not in ("fields", "facts")}
    | {"texts": (("method", "Method", "It is."),)},
}
for name in ("code", "debug", "complete", "improve", "extend"):
    CONTEXTS[name] = CONTEXTS[name] | {"offer": OFFER}


WRITERS = {"section", "refine", "mend"}


def test_every_template_has_a_context_here() -> None:
    names = [name for found in ROOMS.values() for name in found]
    assert sorted(name for name in names if not name.startswith("_")) == sorted(CONTEXTS)
    assert len(set(names)) == len(names), "a template is found by its name alone"


def test_a_template_lies_with_the_stage_that_asks_by_it() -> None:
    """Where two stages include one, it is in the room below them."""
    users: dict[str, set[str]] = {}
    for room, found in ROOMS.items():
        for text in found.values():
            for name in re.findall(r'(?:include|import|from) "([^"]+)"', text):
                users.setdefault(name, set()).add(room)
    for room, found in ROOMS.items():
        for name in found:
            rooms = users.get(name, set())
            if room != "models":
                assert rooms <= {room}, f"{name} is included by {rooms}"
            elif name.startswith("_"):
                assert len(rooms) > 1, f"{name} is of {rooms} alone"


@pytest.mark.parametrize("template", CONTEXTS)
def test_renders_without_leftovers(template: str) -> None:
    text = render(template, **CONTEXTS[template])
    # Who writes papers is told to write ids in braces.
    marks = ("{{", "}}", "{%") if template in WRITERS else ("{", "}")
    assert not any(mark in text for mark in (*marks, "\n\n\n", "None", "Undefined"))
    assert text == text.strip()
    lines = text.split("\n")
    assert all(
        i == 0 or lines[i - 1] == "" for i, line in enumerate(lines) if line.startswith("## ")
    )
    assert text


@pytest.mark.parametrize(
    ("template", "name"), [(t, name) for t, context in CONTEXTS.items() for name in context]
)
def test_a_missing_name_is_an_error(template: str, name: str) -> None:
    context = {key: value for key, value in CONTEXTS[template].items() if key != name}
    with pytest.raises(jinja2.UndefinedError, match=name):
        render(template, **context)


def test_propose_says_what_counts() -> None:
    text = render("propose", **CONTEXTS["propose"])
    assert re.search(r"^- Decisive: `accuracy`, .*maximize; .* 0\.005 ", text, re.MULTILINE)
    for part in (
        "number 3",
        "- Also reported: `loss`, to minimize\n",
        "45.5 seconds",
        "`experiment.py` (editable)",
        "`data.py` (read only)",
        "- idea-0001, Dropout [decline]: Drops.\n- idea-0002, Mixup: Mixes.\n",
        "Width helps.",
        *Proposal.model_fields,
    ):
        assert part in text


def test_propose_shows_the_ideas_that_came_with_the_topic() -> None:
    assert f"- {IDEA.title}: {IDEA.summary}" in render("propose", **CONTEXTS["propose"])
    without = render("propose", **CONTEXTS["propose"] | {"seed_ideas": ()})
    assert "came with" not in without


def test_propose_for_the_first_idea() -> None:
    nothing = {"archive": [], "feedback_text": "", "references": (), "instruction": ""}
    alone = {"leader": None, "direction": None, "others": ()}
    text = render("propose", **CONTEXTS["propose"] | nothing | alone)
    assert re.search("^## Ideas .*\nNone .*\n\n## What ", text, re.MULTILINE)
    for part in ("has learned", "Papers", "Instruction", "develop", "direction of"):
        assert part not in text


def test_propose_shows_papers_leader_direction_and_what_others_do() -> None:
    text = render("propose", **CONTEXTS["propose"])
    for part in (
        "- [arxiv:1] Strokes (2020): We count strokes.\n- [doi:2] Pens\n",
        "Stay with numpy.",
        "## The idea to develop: idea-0001\nThe best so far: +0.02 accuracy\n- Title: Wider net\n",
        "More data: Shift each image.",
        "- Ensembles\n",
        "- Develop idea-0001",
    ):
        assert part in text


@pytest.mark.parametrize("template", ["directions", "converge", "propose"])
def test_what_is_the_same_for_all_ideas_comes_first(template: str) -> None:
    """Servers keep the beginning that prompts share."""
    text = render(template, **CONTEXTS[template])
    places = [
        text.index(part)
        for part in ("Small digits", "WIDTH = 32", "Strokes", "came with", "Width helps", "Mixup")
    ]
    assert places == sorted(places)


def test_the_last_round_of_novelty_searches_no_more() -> None:
    text = render("novelty", **CONTEXTS["novelty"] | {"last": True})
    assert " Give " not in text
    assert "last round" in text


def test_nothing_new_was_found_or_it_did_not_fit() -> None:
    context = CONTEXTS["novelty"] | {"newest": (), "earlier": (), "problem": ""}
    assert "None that" in render("novelty", **context)
    assert "Left out" in render("novelty", **context, left_out={"newest": 1})


@pytest.mark.parametrize("template", ["code", "debug", "improve"])
def test_rules_are_stated(template: str) -> None:
    text = render(template, **CONTEXTS[template])
    assert "placeholders.\n" in text
    for part in ("exactly once", "no network", "labels", "not available"):
        assert part in text


def test_code_tells_another_first_version_from_the_earlier_ones() -> None:
    alone = render("code", **CONTEXTS["code"])
    another = render("code", **CONTEXTS["code"], drafts=("A wider layer.", "Two layers."))
    assert "\n1. A wider layer.\n2. Two layers.\n" in another
    assert "must differ" in another
    before, after = another.split("## First versions that were written before")
    assert alone == before + "## Before you reply" + after.split("## Before you reply")[1]


def test_improve_says_what_counts_and_what_was_tried() -> None:
    text = render("improve", **CONTEXTS["improve"])
    for part in (
        "- What counts: `accuracy`, the higher",
        "code: `accuracy` 0.9; `loss` 0.3\n",
        "same seed: `accuracy` 0.88",
        "1. A wider layer.\n2. Standardised inputs.\n",
        "- Dropout. Result: `accuracy` 0.87\n",
        "45.5 seconds",
    ):
        assert part in text, part
    lower = render("improve", **CONTEXTS["improve"] | {"metric": METRICS[1]})
    assert "`loss`, the lower" in lower
    bare = render("improve", **CONTEXTS["improve"] | {"reference": "", "led": (), "tried": ()})
    assert not any(word in bare for word in ("same seed", "came about", "before\n"))


def test_code_states_contract_and_limits() -> None:
    text = render("code", **CONTEXTS["code"])
    for part in (
        "--budget pilot|full",
        "predictions.csv",
        "2 CPU cores, 0 GPUs",
        "Double the width",
    ):
        assert part in text
    assert 'created: "experiment.py".' in text


def test_code_shows_the_details_of_an_idea_that_has_some() -> None:
    assert "Details" not in render("code", **CONTEXTS["code"])
    detailed = IDEA.model_copy(update={"technical_details": "Initialise with zeros."})
    text = render("code", **CONTEXTS["code"] | {"idea": detailed})
    assert "- Method: Double the width.\n- Details: Initialise with zeros.\n- Plan: " in text


def test_debug_shows_the_failure() -> None:
    text = render("debug", **CONTEXTS["debug"])
    assert re.search(r"\battempt 2 .*\b3\b", text)
    for part in (
        "failure: error",
        "NameError",
        "`experiment.py`, line 7, in `train`:\n```python\ndef train(): x\n```",
        "Traceback …",
        "1. a typo",
        "`give_up` to true",
    ):
        assert part in text


def test_debug_shows_the_structure_around_the_failure() -> None:
    found = {name: CONTEXTS["structure"][name] for name in ("definitions", "calls", "names")}
    text = render("debug", **CONTEXTS["debug"] | found | {"analysis": ("Cause: a typo.",)})
    for part in (
        "code around",
        "frames first:\n```\n",
        "main calls train: train()\n```",
        "x: bound nowhere in experiment.py",
        "code.\n```\nCause: a typo.\n```",
    ):
        assert part in text
    assert "Shapes" not in text
    whole = render("debug", **CONTEXTS["debug"] | found | {"guided": False})
    assert re.search(r"^## .*\bwhole\b.*\nDefinitions:$", whole, re.MULTILINE)


def test_debug_leaves_out_what_is_not_known() -> None:
    bare = {"frames": [], "log_tail": "", "earlier": []}
    text = render("debug", **CONTEXTS["debug"] | bare)
    for part in ("`experiment.py`, line ", "its output", "Earlier diagnoses"):
        assert part not in text


def test_debug_can_be_told_which_files_are_editable() -> None:
    text = render("debug", **CONTEXTS["debug"], editable=("experiment.py",))
    assert "`data.py` (read only)" in text
    assert 'created: "experiment.py".' in text


def test_advise_shows_what_is_judged_and_what_is_known() -> None:
    text = render("advise", **CONTEXTS["advise"])
    for part in (
        "1. Width: Units a layer.\n2. The loss, unchanged (the",
        "### `experiment.py` (changed)\n```python\n1+| WIDTH = 64\n```",
        "### `data.py` (as in",
        "```\n-WIDTH = 32\n+WIDTH = 64\n```",
        "- experiment.py:1: `GAMMA` is set and never read by what runs\n",
        "reference predicts",
        "at most 150.",
        *ReviewReply.model_fields,
        *ConceptCheck.model_fields,
    ):
        assert part in text


def test_advise_leaves_out_what_there_is_not() -> None:
    bare = {"details": "", "plan": (), "profiles": (), "diff": "", "signs": ()}
    text = render("advise", **CONTEXTS["advise"] | bare | {"same_as_reference": False})
    for part in ("Its details", "## How it", "papers", "patch", "Found by"):
        assert part not in text


def test_values_are_not_rendered_again() -> None:
    code = {"experiment.py": "f'{{ topic }}' {% raw %}\n"}
    assert "{{ topic }}' {% raw %}" in render("debug", **CONTEXTS["debug"] | {"files": code})


def test_a_fence_is_longer_than_those_inside() -> None:
    assert fence("a\n", "x.py") == "```python\na\n```"
    assert fence("```\nb\n````\n") == "`````\n```\nb\n````\n`````"
