"""Estimates that do not fit the digits recipe, each with its problem, and how they are judged."""

from __future__ import annotations

from typing import Any

from proposing_kit import Scripted, an_idea, digits, review

from hpcscientist.ideation.feasibility import FeasibilityJudge
from hpcscientist.records.proposing import FeasibilityVerdict

FITS: dict[str, Any] = {"seconds": 4.0, "memory_mb": 200, "fits": True, "reason": "Twice as slow."}
NUMPY_ALONE = "there .* numpy, .*"
FIGURES: list[tuple[dict[str, Any], str]] = [
    ({"seconds": 5400}, "needs .* 5,400 s .*; .* 20 s"),
    ({"seconds": 20.5}, r"needs .* 20\.5 s .*; .* 20 s"),
    ({"memory_mb": 65536}, "needs .* 65,536 MiB .*; .* 1,024 MiB"),
]
NAMES: list[tuple[dict[str, Any], str]] = [
    ({"files": ["data.py"]}, r"changes data\.py; .* experiment\.py .*"),
    ({"packages": ["torch"]}, f"imports torch; {NUMPY_ALONE}"),
    ({"data": ["MNIST"]}, "needs data .*: MNIST"),
]


async def judged(*replies: Any, **given: Any) -> tuple[FeasibilityVerdict, Scripted]:
    model = Scripted({f"feasibility/{n}": reply for n, reply in enumerate(replies, start=1)})
    verdict = await FeasibilityJudge(review(model), digits()).judge(an_idea(), **given)
    return verdict, model
