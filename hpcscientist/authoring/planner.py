"""The plan: from an idea, its concepts and the reference code to what is done, step by step.

AI-Researcher (arXiv 2505.18705) plans data, model, training and testing before any code is
written. Here a plan names besides what is compared, what the code must contain for the idea to
have been carried out, and what may be left out in later runs; and it is held against the limits
of the recipe (see `limits`) before anyone writes code by it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hpcscientist.authoring import quoted
from hpcscientist.authoring.limits import problems, trimmed
from hpcscientist.config.settings import Settings
from hpcscientist.models.prompting.materials import (
    GONE,
    Prompt,
    from_the_end,
    of_template,
    read_only_files,
)
from hpcscientist.models.prompting.prompts import render
from hpcscientist.models.prompting.quoting import line
from hpcscientist.models.reply_limits import Limit
from hpcscientist.models.role_client import UNANSWERED, Call, RoleClient
from hpcscientist.models.sample import Sample
from hpcscientist.models.stage import TRIES, Calls, Expected, Kind, Means, Stage
from hpcscientist.recipe.packages import available
from hpcscientist.records.base import Record
from hpcscientist.records.experiment import ExperimentPlan
from hpcscientist.records.idea import Idea
from hpcscientist.records.known.survey import ConceptRecord

if TYPE_CHECKING:
    from hpcscientist.recipe.load import Recipe

__all__ = ["Planned", "Planner", "problems"]

REPAIRS = 2
AGAIN = 2  # plans that may repeat a refused one, which is then no try
_PARTS, _PACKAGES = 8, 10  # the prompt says eight parts
_REASON = 1000  # characters of an endpoint's or a library's own words


class Planned(Record):
    """What came of planning. `problems` are those of the last plan, and why it was the last.

    With a plan they are what was mended in it without asking; without one, why there is none.
    """

    plan: ExperimentPlan | None
    problems: tuple[str, ...] = ()


class Planner:
    """Plans ideas; stage `plan`, ordinal 1, and 2 and 3 where a plan breaks the recipe's limits."""

    def __init__(self, voice: RoleClient, recipe: Recipe) -> None:
        self._voice, self._recipe = voice, recipe
        self._packages = available(recipe.reference)
        editable = recipe.spec.editable
        self._limits = {
            "parts": Limit(least=1, most=_PARTS),
            "ablations": Limit(most=_PARTS),
            "files": Limit(values=editable, least=1, most=len(editable)),
            "packages": Limit(values=self._packages, most=_PACKAGES),
        }

    async def plan(self, idea: Idea, concepts: Sequence[ConceptRecord] = ()) -> Planned:
        """Return a plan within the recipe's limits, or why there is none.

        A plan that breaks a limit goes back with every problem; one that repeats a refused one is
        asked for once more. One that is still at odds with
        itself alone after the last repair (a part named twice, an ablation of no part) is used
        without what is odd. Raises EndpointError.
        """
        asked = prompt = self._prompt(idea, concepts)
        plan: ExperimentPlan | None = None
        found: tuple[str, ...] = ()
        refused = set[ExperimentPlan]()
        for ordinal in range(1, 1 + REPAIRS + AGAIN + 1):
            call = Call(idea.idea_id, idea.number, "plan", ordinal, again=ordinal - 1)
            try:
                plan = await self._voice.ask(call, ExperimentPlan, prompt, self._limits)
            except UNANSWERED as error:
                return self._settled(plan, (*found, line(str(error), _REASON)))
            found = problems(plan, self._recipe)
            if not found:
                return Planned(plan=trimmed(plan))
            refused.add(plan)
            if len(refused) > REPAIRS:
                break
            # The latest plan alone is shown, so the prompt does not grow with each repair.
            said = render("replan", problems=found)
            prompt = asked.answered((plan.model_dump_json(), GONE), said)
        return self._settled(plan, found)

    def _settled(self, plan: ExperimentPlan | None, found: tuple[str, ...]) -> Planned:
        """Return a plan that will not be asked for again, if it can be used at all."""
        shorter = plan and trimmed(plan)
        if shorter and problems(shorter, self._recipe):
            shorter = None
        return Planned(plan=shorter, problems=found)

    def _prompt(self, idea: Idea, concepts: Sequence[ConceptRecord]) -> Prompt:
        """Ask for a plan; too long, it goes without concepts, the last first, then files."""
        spec, reference = self._recipe.spec, self._recipe.reference
        return of_template(
            "plan",
            (
                from_the_end("concepts", [_on_lines(concept) for concept in concepts]),
                read_only_files("reference_files", reference, spec.editable),
            ),
            topic=spec.topic,
            idea_fields=quoted.idea_fields(idea.proposal),
            metrics=spec.metrics,
            budgets=spec.budgets,
            resources=spec.resources,
            editable=spec.editable,
            packages=self._packages,
        )


def _on_lines(concept: ConceptRecord) -> ConceptRecord:
    """Return a concept whose name and definition are a line each; the rest is fenced."""
    texts = {"name": quoted.entry(concept.name), "definition": quoted.field(concept.definition)}
    return concept.model_copy(update=texts)


class PlanStage(Stage[Planner]):
    """The plan, once an idea."""

    name = "plan"
    kinds = (Kind("plan", "code", ExperimentPlan),)

    def applies(self, settings: Settings, has_library: bool) -> bool:
        """Return whether ideas are planned."""
        return settings.authoring.plan

    def calls(self, expected: Expected) -> Sequence[Calls]:
        """Return how often it asks: a plan that breaks a limit goes back."""
        ideas = expected.settings.ideas
        return (Calls("plan", ideas, ideas * TRIES * (1 + REPAIRS + AGAIN)),)

    def open(self, means: Means) -> Planner:
        """Return who plans."""
        return Planner(means.voice("code"), means.recipe)

    async def weigh(self, opened: Planner, sample: Sample) -> None:
        """Plan an idea."""
        await opened.plan(sample.idea)


PLAN = PlanStage()
