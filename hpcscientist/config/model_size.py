"""Which parts of the loop a model's size leaves out.

Measured with Qwen2.5-Coder-1.5B on the recipe `digits` (README, "Small models"): plans, reviews of
code, searches for novelty, reflections and concepts took three of four tokens and raised no idea's
score; a list of what the reference has already is what such a model calls a plan.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from hpcscientist.config.settings import Settings
from hpcscientist.records.model_calls import Role

SMALL = 4.0  # billions of weights, below which a model is small
# By role: what is left out with a small model in it, by section and key of the settings.
LEFT_OUT: Mapping[Role, Mapping[str, Mapping[str, Any]]] = {
    "ideation": {"proposing": {"reflections": 0}},
    "review": {
        "proposing": {"novelty_rounds": 0, "feasibility": False},
        "literature": {"concepts": 0},
        "authoring": {"advice_rounds": 0, "further_runs": 0},
    },
    "code": {
        "authoring": {"plan": False, "analysis": False, "edits": "parts"},
        "loop": {"debug_rounds": 3},
    },
}
# `1.5b`, `0.5B`, `135M` as models' names have them, but not the `b` of `8bit`.
_SIZE = re.compile(r"(?<![\d.a-z])(\d+(?:\.\d+)?)(b|m)(?![a-z\d])", re.IGNORECASE)


def billions(name: str) -> float | None:
    """Return how many billion weights a model has by its name or SPEC; None where it says not."""
    found = _SIZE.findall(re.split(r"[#/:]", name.rstrip("/"))[-1])
    sizes = [float(number) / (1 if unit in "bB" else 1000) for number, unit in found]
    return max(sizes, default=None)


def fitted(settings: Settings, specs: Mapping[Role, str]) -> tuple[Settings, str]:
    """Return settings without what small models make nothing of, and a line on that ("": none).

    What the user set to another value than the default stays as it is.
    """
    if settings.model_size == "large":
        return settings, ""
    left = list[str]()
    for role, sections in LEFT_OUT.items():
        size = billions(specs.get(role, ""))
        if settings.model_size == "auto" and (size is None or size >= SMALL):
            continue
        for name, keys in sections.items():
            section = getattr(settings, name)
            # Not `model_fields_set`: layers of configuration set every key.
            plain = type(section)()
            new = {k: v for k, v in keys.items() if getattr(section, k) == getattr(plain, k)}
            left += [f"{name}.{key}" for key in new]
            settings = settings.model_copy(update={name: section.model_copy(update=new)})
    if not left:
        return settings, ""
    return settings, (
        f"a small model: left out is what such a one makes nothing of ({', '.join(left)}); "
        'model_size = "large" has all of it'
    )
