"""Which parts of the loop are left out for small models.

Measured with Qwen2.5-Coder-1.5B on the recipe `digits` (README, "Small models"): plans, reviews of
code, searches for novelty, reflections and concepts took three of four tokens and raised no idea's
score. The plans of such a model only list what the reference already has.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from hpcscientist.config.settings import Settings
from hpcscientist.records.model_calls import Role

SMALL = 4.0  # a model with fewer billions of weights is small
# What is left out if a role has a small model: by role, section and key of the settings.
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
# Matches `1.5b`, `0.5B`, `135M` in models' names, but not the `b` of `8bit`.
_SIZE = re.compile(r"(?<![\d.a-z])(\d+(?:\.\d+)?)(b|m)(?![a-z\d])", re.IGNORECASE)


def billions(name: str) -> float | None:
    """Return a model's size in billions of weights, from its name or SPEC; None if not named."""
    found = _SIZE.findall(re.split(r"[#/:]", name.rstrip("/"))[-1])
    sizes = [float(number) / (1 if unit in "bB" else 1000) for number, unit in found]
    return max(sizes, default=None)


def fitted(settings: Settings, specs: Mapping[Role, str]) -> tuple[Settings, str]:
    """Return settings without the parts that do not help small models, and a note ("" for none).

    Settings that the user changed from the default stay as they are.
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
            # Not `model_fields_set`: the layers of configuration set every key.
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
