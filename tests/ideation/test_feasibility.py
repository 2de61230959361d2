from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest
from feasibility_kit import FIGURES, FITS, NAMES, judged
from proposing_kit import Scripted, an_idea, digits, review

from hpcscientist.errors import EndpointError, PlaybookExhausted, ReplyError
from hpcscientist.ideation.feasibility import FeasibilityJudge
from hpcscientist.models.prompting.fitting import TokenEstimate, Window
from hpcscientist.recipe.packages import imported
from hpcscientist.records.idea import idea_seed
from hpcscientist.records.proposing import FeasibilityVerdict


async def test_an_idea_that_fits() -> None:
    verdict, model = await judged(FITS)
    assert verdict == FeasibilityVerdict(
        fits=True, reason="Twice as slow.", seconds=4.0, memory_mb=200
    )
    (request,) = model.asked
    assert (request.subject, request.key, request.role) == (
        "idea-0003", "feasibility/1", "review",
    )  # fmt: skip
    assert request.seed == idea_seed(5, 3)
    prompt = model.prompt("feasibility/1")
    for part in (
        "Time: 20 seconds",
        "1 CPU core, 0 GPUs, 1024 MiB",
        'change: "experiment.py"',
        "library, numpy.",
        "def train(",
        "- Method: Double the width.\n",
    ):
        assert part in prompt


async def test_the_measured_time_of_the_reference_is_told() -> None:
    _, model = await judged(FITS, reference_s=1.2345)
    assert "reference takes 1.23\n" in model.prompt("feasibility/1")


@pytest.mark.parametrize(
    ("reply", "problem"),
    [
        *(({**reply, "fits": True}, problem) for reply, problem in FIGURES),
        *(({**reply, "fits": False}, problem) for reply, problem in FIGURES),
        *(({**reply, "fits": False}, problem) for reply, problem in NAMES),
    ],
)
async def test_what_does_not_fit_is_named_with_both_figures(
    reply: dict[str, Any], problem: str
) -> None:
    verdict, model = await judged(FITS | reply)
    assert not verdict.fits
    (told,) = verdict.problems
    assert re.fullmatch(problem, told)
    assert model.keys == ["feasibility/1"]


async def test_all_problems_are_named() -> None:
    verdict, _ = await judged(
        {"seconds": 1e400, "memory_mb": 2048, "files": ["a.py", "experiment.py", "b.py"]}
        | {"packages": ["scipy", "math"], "data": ["X", "X"], "fits": False, "reason": "Much."}
    )
    expected = (
        "needs .* inf s ",
        "needs .* 2,048 MiB ",
        r"changes a\.py;",
        r"changes b\.py;",
        "imports scipy;",
        "needs data .*: X$",
    )
    assert len(verdict.problems) == len(expected)
    assert all(map(re.match, expected, verdict.problems))
    assert verdict.seconds is None  # JSON has no such number
    assert FeasibilityVerdict.model_validate_json(verdict.model_dump_json()) == verdict


async def test_limits_are_met_exactly() -> None:
    assert (await judged(FITS | {"seconds": 20, "memory_mb": 1024}))[0].fits


@pytest.mark.parametrize(
    "data",
    [
        *("empty", "[]", "(empty)", "None (empty)", "The digits training set (already provided)"),
        *("Only the provided data", "synthetic noise generated on the fly", "existing images"),
        *("the given training data", "same as the reference", "Synthetic samples, mixed up"),
    ],
)
async def test_a_remark_that_nothing_is_missing_is_no_data(data: str) -> None:
    verdict, model = await judged(FITS | {"data": [data]})
    assert (verdict.fits, verdict.problems, model.keys) == (True, (), ["feasibility/1"])


async def test_what_the_digits_playbook_records_is_set_aside_without_a_question() -> None:
    path = digits().playbook
    assert path is not None
    lines = [json.loads(text) for text in path.read_text().splitlines()]
    (reply,) = (x["reply"] for x in lines if (x["idea"], x["stage"]) == (16, "feasibility"))
    verdict, model = await judged(reply)
    expected = ("needs .* 5,400 s ", "needs .* 6,000 MiB ", "imports torch;", "needs data .*: ")
    assert len(verdict.problems) == len(expected)
    assert all(map(re.match, expected, verdict.problems))
    assert model.keys == ["feasibility/1"]


@pytest.mark.parametrize(
    "reply",
    [ReplyError("a hole"), PlaybookExhausted("none left"), "?", FITS | {"seconds": -1}, {}],
)
async def test_what_nobody_could_judge_goes_on(reply: Any) -> None:
    verdict, _ = await judged(reply)
    assert (verdict.fits, verdict.problems, verdict.seconds) == (True, (), None)
    assert re.match("it .* judged: ", verdict.reason)


async def test_an_endpoint_that_fails_is_no_answer() -> None:
    with pytest.raises(EndpointError):
        await judged(EndpointError("down"))


async def test_a_short_context_costs_the_code() -> None:
    model = Scripted({"feasibility/1": FITS})
    judge = FeasibilityJudge(review(model, Window(3000, TokenEstimate())), digits())
    assert (await judge.judge(an_idea())).reason == "Twice as slow."
    assert "[left out" in model.prompt("feasibility/1")


async def test_packages_of_the_recipe_s_own_reference_count() -> None:
    code = "import os, scipy.stats as s\nfrom torch.nn import Linear\nfrom . import model\n"
    recipe = replace(digits(), reference={"experiment.py": code, "model.py": "import data.sets"})
    assert imported(recipe.reference) == ("data", "scipy", "torch")
    model = Scripted({"feasibility/1": FITS | {"packages": ["PyTorch", "scipy"]}})
    assert (await FeasibilityJudge(review(model), recipe).judge(an_idea())).fits
