"""What a bench of authoring may take, in one line before it starts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from benchmarks.authoring.outcomes import MODES
from benchmarks.authoring.preparing import Prepared
from hpcscientist.campaign import stages
from hpcscientist.campaign.strategies import strategy_of
from hpcscientist.config.extent import FIXES
from hpcscientist.config.settings import Settings
from hpcscientist.launching.costs import estimate
from hpcscientist.launching.costs.weighing import weigh
from hpcscientist.models.stage import Calls, Expected

_HOUR = 3600.0


def line(prepared: Prepared) -> str:
    """Return pilots, hours and tokens: bounds, and beside them a guess of the tokens.

    The guess supposes that each idea fails once, and is fixed once in each mode.
    """
    checked = prepared.checked
    spec, ideas = checked.recipe.spec, checked.settings.ideas
    most = 1 + ideas * (1 + len(MODES) * prepared.rounds)
    hours = most * spec.budgets.pilot.seconds / _HOUR
    said = f"{1 + ideas} to {most} pilots of at most {spec.budgets.pilot.seconds:g} s"
    said += f" ({hours * spec.resources.cpus:.3g} CPU-hours"
    said += f", {hours * spec.resources.gpus:.3g} GPU-hours at most)"
    if not checked.is_paid:
        return f"{said}; no model is asked, replies are recorded"
    return f"{said}; {_tokens(prepared)}"


def _tokens(prepared: Prepared) -> str:
    settings = prepared.checked.settings
    weights = weigh(prepared.checked.recipe, settings)
    guess = prompt = completion = most = at_most = 0
    kinds = stages.kinds()
    for entry in _calls(prepared):
        allowed = settings.role(kinds[entry.kind].role).max_tokens
        guess += entry.guess
        prompt += entry.guess * weights.get(entry.kind, 0)
        completion += entry.guess * allowed
        most += entry.most
        at_most += entry.most * allowed
    return (
        f"about {guess} requests with {prompt:,} prompt tokens and replies of at most "
        f"{completion:,}, if each idea fails once and is fixed at once; whatever happens, at most "
        f"{most} requests with replies of {at_most:,} tokens"
    )


def _calls(prepared: Prepared) -> Iterator[Calls]:
    """The requests of all modes; code is written, and ideas are proposed, once for all."""
    settings = prepared.checked.settings
    once = {"code"} if prepared.seed_ideas else {"code", "propose"}
    yield from (entry for entry in _expected(settings, FIXES) if entry.kind in once)
    for mode in MODES:
        authoring = settings.authoring.model_copy(update={"debugging": mode})
        own = settings.model_copy(update={"authoring": authoring})
        for entry in _expected(own, min(FIXES, prepared.rounds)):
            if entry.kind in ("debug", "structure"):
                yield entry


def _expected(settings: Settings, fixes: int) -> tuple[Calls, ...]:
    versions = replace(strategy_of(settings).versions(settings, ()), fixes=fixes)
    return estimate.calls(Expected(settings, (), versions))
