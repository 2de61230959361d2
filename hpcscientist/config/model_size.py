"""Settings that follow from a model's size.

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

SMALL = 4.0  # billions of weights, below which a model is small
# By role: settings for a small model in it, by section and key.
FOR_SMALL: Mapping[Role, Mapping[str, Mapping[str, Any]]] = {
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
    """Return the settings for models of these sizes, and a line on what changed ("": nothing).

    A key that the user set to another value than its default stays as it is.
    """
    if settings.model_size == "large":
        return settings, ""
    changed, defaults = list[str](), Settings()
    for role, sections in FOR_SMALL.items():
        size = billions(specs.get(role, ""))
        if settings.model_size == "auto" and (size is None or size >= SMALL):
            continue
        for name, keys in sections.items():
            section, default = getattr(settings, name), getattr(defaults, name)
            # Not `model_fields_set`: layers of configuration set every key.
            new = {k: v for k, v in keys.items() if getattr(section, k) == getattr(default, k)}
            changed += [f"{name}.{key} = {value}" for key, value in new.items()]
            settings = settings.model_copy(update={name: section.model_copy(update=new)})
    if not changed:
        return settings, ""
    return (
        settings,
        f'settings for a small model: {", ".join(changed)}; model_size = "large" drops them',
    )
