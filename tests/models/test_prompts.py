from __future__ import annotations

from pathlib import Path
from typing import Any

import jinja2
import pytest

import hpcscientist.models
from hpcscientist.models.prompts import fence, render
from hpcscientist.recipe.schema import Budgets, BudgetSpec, Resources, Topic
from hpcscientist.records.idea import Proposal
from hpcscientist.records.outcome import IdeaFailure
from hpcscientist.records.trial import Direction, MetricSpec

FOLDER = Path(hpcscientist.models.__file__).parent / "prompts"
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
SHARED: dict[str, Any] = {
    "topic": TOPIC,
    "reference_files": REFERENCE,
    "editable": ("experiment.py",),
    "budgets": BUDGETS,
}
CONTRACT = {"entry": "experiment.py", "predictions": "predictions.csv"}
CONTEXTS: dict[str, dict[str, Any]] = {
    "propose": SHARED
    | {
        "metrics": METRICS,
        "feedback_text": "Width helps.",
        "archive": [
            {"idea_id": "idea-0001", "title": "Dropout", "summary": "Drops.", "finding": "decline"},
            {"idea_id": "idea-0002", "title": "Mixup", "summary": "Mixes.", "finding": None},
        ],
        "seed_ideas": (IDEA,),
        "number": 3,
    },
    "code": SHARED
    | {"idea": IDEA, "resources": Resources(cpus=2), "contract": render("contract", **CONTRACT)},
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
        "round": 2,
        "rounds": 3,
    },
    "contract": CONTRACT,
    "repair": {"problem": "note: Field required"},
    "rejected": {"problem": "experiment.py: the search text does not occur"},
    "reply_format": {"schema": '"type": "object"'},
}


def test_every_template_has_a_context_here() -> None:
    names = {path.name.removesuffix(".md.j2") for path in FOLDER.iterdir()}
    assert {name for name in names if not name.startswith("_")} == set(CONTEXTS)


@pytest.mark.parametrize("template", CONTEXTS)
def test_renders_without_leftovers(template: str) -> None:
    text = render(template, **CONTEXTS[template])
    assert not any(mark in text for mark in ("{", "}", "\n\n\n", "None", "Undefined"))
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
    for part in (
        "number 3",
        "- Decisive: `accuracy`, to maximize; a change below 0.005 does not matter\n",
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
    assert "came with the topic" not in without


def test_propose_for_the_first_idea() -> None:
    text = render("propose", **CONTEXTS["propose"] | {"archive": [], "feedback_text": ""})
    assert "yours is the first" in text
    assert "has learned" not in text


@pytest.mark.parametrize("template", ["code", "debug"])
def test_rules_are_stated(template: str) -> None:
    text = render(template, **CONTEXTS[template])
    assert "placeholders.\n" in text
    for part in ("must occur exactly once", "no network", "labels", "are not available"):
        assert part in text


def test_code_states_contract_and_limits() -> None:
    text = render("code", **CONTEXTS["code"])
    for part in (
        "--budget pilot|full",
        "predictions.csv",
        "2 CPU cores, 0 GPUs",
        "Double the width",
    ):
        assert part in text
    assert 'Only these files may be edited or created: "experiment.py".' in text


def test_debug_shows_the_failure() -> None:
    text = render("debug", **CONTEXTS["debug"])
    for part in (
        "attempt 2 of at most 3",
        "Kind of failure: error",
        "NameError",
        "`experiment.py`, line 7, in `train`:\n```python\ndef train(): x\n```",
        "Traceback …",
        "1. a typo",
        "`give_up` to true",
    ):
        assert part in text


def test_debug_leaves_out_what_is_not_known() -> None:
    bare = {"frames": [], "log_tail": "", "earlier": []}
    text = render("debug", **CONTEXTS["debug"] | bare)
    for part in ("Where it failed", "End of its output", "Earlier diagnoses"):
        assert part not in text


def test_debug_can_be_told_which_files_are_editable() -> None:
    text = render("debug", **CONTEXTS["debug"], editable=("experiment.py",))
    assert "`data.py` (read only)" in text
    assert 'created: "experiment.py".' in text


def test_values_are_not_rendered_again() -> None:
    code = {"experiment.py": "f'{{ topic }}' {% raw %}\n"}
    assert "{{ topic }}' {% raw %}" in render("debug", **CONTEXTS["debug"] | {"files": code})


def test_a_fence_is_longer_than_those_inside() -> None:
    assert fence("a\n", "x.py") == "```python\na\n```"
    assert fence("```\nb\n````\n") == "`````\n```\nb\n````\n`````"
