"""Estimates that do not fit the digits recipe, each with its problem, and how they are judged."""

from __future__ import annotations

from typing import Any

from proposing_kit import Scripted, an_idea, digits, review

from hpcscientist.ideation.feasibility import FeasibilityJudge
from hpcscientist.records.proposing import FeasibilityVerdict

FITS: dict[str, Any] = {"seconds": 4.0, "memory_mb": 200, "fits": True, "reason": "Twice as slow."}
NUMPY_ALONE = "there is numpy, the standard library, and nothing can be installed"
FIGURES: list[tuple[dict[str, Any], str]] = [
    ({"seconds": 5400}, "needs about 5,400 s of a full trial; the recipe gives 20 s"),
    ({"seconds": 20.5}, "needs about 20.5 s of a full trial; the recipe gives 20 s"),
    ({"memory_mb": 65536}, "needs about 65,536 MiB of memory; the recipe gives 1,024 MiB"),
]
NAMES: list[tuple[dict[str, Any], str]] = [
    ({"files": ["data.py"]}, "changes data.py; the recipe lets change experiment.py alone"),
    ({"packages": ["torch"]}, f"imports torch; {NUMPY_ALONE}"),
    ({"data": ["MNIST"]}, "needs data that the recipe lacks: MNIST"),
]


async def judged(*replies: Any, **given: Any) -> tuple[FeasibilityVerdict, Scripted]:
    model = Scripted({f"feasibility/{n}": reply for n, reply in enumerate(replies, start=1)})
    verdict = await FeasibilityJudge(review(model), digits()).judge(an_idea(), **given)
    return verdict, model
