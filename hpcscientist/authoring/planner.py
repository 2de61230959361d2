"""The planner: a model turns an idea, its concepts and the reference code into a plan.

AI-Researcher (arXiv 2505.18705) plans data, model, training and testing before any code is
written. Here a plan also names what is compared, what the code must contain for the idea to count
as carried out, and what may be left out in later runs. The plan is checked against the recipe
(see `problems`) before any code is written from it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from hpcscientist.authoring import quoted
from hpcscientist.config.settings import Settings
from hpcscientist.models.prompting import naming
from hpcscientist.models.prompting.fitting import (
    GONE,
    Prompt,
    from_the_end,
    of_template,
    read_only_files,
)
from hpcscientist.models.prompting.prompts import line, render
from hpcscientist.models.reply_limits import Limit
from hpcscientist.models.role_client import UNANSWERED, CallPurpose, RoleClient
from hpcscientist.models.stage import TRIES, Calls, Expected, Kind, Means, Sample, Stage
from hpcscientist.recipe.packages import available, importable
from hpcscientist.records.base import Record
from hpcscientist.records.experiment import ExperimentPlan
from hpcscientist.records.idea import Idea
from hpcscientist.records.literature import ConceptRecord

if TYPE_CHECKING:
    from hpcscientist.recipe.load import Recipe


# Checks of a plan against its recipe: what exists, what a run may take, what is measured.
#
# Arithmetic and look-ups in a list need no model. Models put words around names (see
# `models.prompting.naming`), so a text that may mean an existing name counts as that name.

_SHOWN = 120  # characters of an entry, and of all entries, that a problem quotes
_ALL = 400
_WORD = re.compile(r"[^\W_]+")
_EMPTY = ("", "none", "n/a", "null", "nothing", "-")
_TEXTS = ("data", "model", "training", "testing", "comparison")
# Words that do not tell one part from another.
_COMMON = frozenset(
    re.findall(
        r"\w+",
        "the and for with without from into that this its our all any one two each per use "
        "uses used using run runs only not remove removed removing leave leaving left out "
        "drop dropping ablate ablation disable disabling replace replaced instead reference "
        "baseline same part parts model method code new set ",
    )
)
# Metrics that somebody has to compute; if the recipe does not score them, nobody does.
_MEASURES = re.compile(
    r"\b(accuracy|f1|auc|auroc|auprc|roc[- ]auc|bleu|rouge|meteor|perplexity|rmse|mae|mape|ndcg|"
    r"mrr|iou|miou|psnr|ssim|fid|wer|cer|mcc)\b",
    re.IGNORECASE,
)


def problems(plan: ExperimentPlan, recipe: Recipe) -> tuple[str, ...]:
    """Return what the recipe does not allow in a plan, each with what it does allow; () if none.

    Checks seconds and memory, files that change, packages, empty fields, the metric of the
    comparison, parts and ablations. An estimate that meets a limit exactly is within it.
    """
    return (
        *_exceeded(plan, recipe),
        *_files(plan, recipe),
        *_packages(plan, recipe),
        *_texts(plan),
        *_metrics(plan, recipe),
        *_parts(plan),
        *_ablations(plan),
    )


def trimmed(plan: ExperimentPlan) -> ExperimentPlan:
    """Return a plan without empty and repeated entries, and without ablations that name no part.

    If no part would be left, all parts stay.
    """
    parts = _each_once(plan.parts) or plan.parts
    shorter = plan.model_copy(update={"parts": parts})
    named = (text for text in plan.ablations if _names_a_part(text, shorter))
    return shorter.model_copy(update={"ablations": _each_once(named)})


def _each_once(entries: Iterable[str]) -> tuple[str, ...]:
    first = dict[str, str]()
    for text in entries:
        first.setdefault(_plain(text), text)
    return tuple(text for plain, text in first.items() if plain not in _EMPTY)


def _exceeded(plan: ExperimentPlan, recipe: Recipe) -> Iterator[str]:
    given_s, given_mb = recipe.spec.budgets.full.seconds, recipe.spec.resources.memory_mb
    if plan.seconds > given_s:
        yield (
            f"needs about {_figure(plan.seconds)} s of a full run; "
            f"the recipe gives {_figure(given_s)} s"
        )
    if plan.memory_mb > given_mb:
        yield (
            f"needs about {_figure(plan.memory_mb)} MiB of memory; "
            f"the recipe gives {_figure(given_mb)} MiB"
        )


def _files(plan: ExperimentPlan, recipe: Recipe) -> Iterator[str]:
    editable = recipe.spec.editable
    there = line(", ".join(editable), _ALL)
    named = naming.files(plan.files, (*recipe.reference, *editable))
    for name in named:
        if not any(fnmatchcase(name, pattern) for pattern in editable):
            deed = "changes" if name in recipe.reference else "makes"
            yield f"{deed} {name}; the recipe lets change or make {there} alone"
    if not named:
        yield f"names no file that changes; the recipe lets change or make {there}"


def _packages(plan: ExperimentPlan, recipe: Recipe) -> Iterator[str]:
    packages = available(recipe.reference)
    there = ", ".join((*packages, "the standard library"))
    files = (*recipe.reference, *naming.files(plan.files, recipe.reference))
    own = {part for name in files for part in PurePosixPath(name).with_suffix("").parts}
    for name in naming.packages(plan.packages):
        if name not in own and not importable(name, packages):
            yield f"imports {name}; there is {there}, and nothing can be installed"


def _texts(plan: ExperimentPlan) -> Iterator[str]:
    for name in _TEXTS:
        if _plain(getattr(plan, name)) in _EMPTY:
            yield f"says nothing under {name}"


def _metrics(plan: ExperimentPlan, recipe: Recipe) -> Iterator[str]:
    names = [metric.name for metric in recipe.spec.metrics]
    there, said = ", ".join(names), _words(plan.comparison)
    if not any(_is_said(name, said) for name in names):
        yield f"compares by no metric that is scored; the recipe scores {there}"
        return
    scored = {word for name in names for word in _words(name)}
    for name in dict.fromkeys(found.lower() for found in _MEASURES.findall(plan.comparison)):
        if not scored.intersection(_words(name)):
            yield f"compares by {name}; the recipe scores {there} alone"


def _parts(plan: ExperimentPlan) -> Iterator[str]:
    seen = dict[str, int]()
    for number, part in enumerate(plan.parts, start=1):
        plain = _plain(part)
        if plain in _EMPTY:
            yield f"part {number} of {len(plan.parts)} is empty"
        elif plain in seen:
            yield f"part {number} repeats part {seen[plain]}: {line(part, _SHOWN)}"
        else:
            seen[plain] = number


def _ablations(plan: ExperimentPlan) -> Iterator[str]:
    there = line("; ".join(line(part, _SHOWN) for part in plan.parts), _ALL)
    for text in plan.ablations:
        if _plain(text) not in _EMPTY and not _names_a_part(text, plan):
            yield f"leaves out what is no part: {line(text, _SHOWN)}; the parts are {there}"


def _names_a_part(text: str, plan: ExperimentPlan) -> bool:
    """Return whether an ablation shares a distinctive word with any part, or gives its number.

    Words of one stem count as equal ("mixing", "mixed").
    """
    said = _telling(text)
    numbers = {str(number) for number in range(1, len(plan.parts) + 1)}
    if numbers.intersection(re.findall(r"(?:part|concept|\(|#)\s*(\d+)\b", text.lower())):
        return True
    return any(
        _akin(word, other) for part in plan.parts for other in _telling(part) for word in said
    )


def _telling(text: str) -> set[str]:
    """Return the distinctive words of a text; all of its words if there are none."""
    words = set(_words(text))
    return {word for word in words - _COMMON if len(word) > 2} or words


def _is_said(name: str, said: list[str]) -> bool:
    """Return whether all words of a metric's name occur; "accuracies" counts as "accuracy"."""
    return all(any(_akin(word, other) for other in said) for word in _words(name))


def _akin(word: str, other: str) -> bool:
    return word == other or (min(len(word), len(other)) >= 4 and word[:4] == other[:4])


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


def _plain(text: str) -> str:
    return " ".join(text.casefold().split()).strip(" .`'\"")


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


__all__ = ["PlanResult", "Planner", "problems"]

REPAIRS = 2
AGAIN = 2  # plans that may repeat a refused one; these do not count as tries
_PARTS, _PACKAGES = 8, 10  # the prompt says eight parts
_REASON = 1000  # characters of an endpoint's or a library's message


class PlanResult(Record):
    """The result of planning. `problems` are the last plan's, and why no further one was made.

    With a plan, they were fixed in it without asking the model; without one, they say why.
    """

    plan: ExperimentPlan | None
    problems: tuple[str, ...] = ()


class Planner:
    """A planner; it asks in stage `plan`, ordinal 1, and from 2 on if a plan breaks the limits."""

    def __init__(self, client: RoleClient, recipe: Recipe) -> None:
        self._client, self._recipe = client, recipe
        self._packages = available(recipe.reference)
        editable = recipe.spec.editable
        self._limits = {
            "parts": Limit(least=1, most=_PARTS),
            "ablations": Limit(most=_PARTS),
            "files": Limit(values=editable, least=1, most=len(editable)),
            "packages": Limit(values=self._packages, most=_PACKAGES),
        }

    async def plan(self, idea: Idea, concepts: Sequence[ConceptRecord] = ()) -> PlanResult:
        """Return a plan within the recipe's limits, or why there is none.

        A plan that breaks a limit goes back to the model with every problem. A plan that repeats
        a refused one does not count as a repair. If the last plan contradicts only itself (a part
        named twice, an ablation of no part), it is used without those entries. Raises
        EndpointError.
        """
        asked = prompt = self._prompt(idea, concepts)
        plan: ExperimentPlan | None = None
        found: tuple[str, ...] = ()
        refused = set[ExperimentPlan]()
        for ordinal in range(1, 1 + REPAIRS + AGAIN + 1):
            call = CallPurpose(idea.idea_id, idea.number, "plan", ordinal, again=ordinal - 1)
            try:
                plan = await self._client.ask(call, ExperimentPlan, prompt, self._limits)
            except UNANSWERED as error:
                return self._settled(plan, (*found, line(str(error), _REASON)))
            found = problems(plan, self._recipe)
            if not found:
                return PlanResult(plan=trimmed(plan))
            refused.add(plan)
            if len(refused) > REPAIRS:
                break
            # Only the latest plan is shown, so that the prompt does not grow.
            said = render("replan", problems=found)
            prompt = asked.answered((plan.model_dump_json(), GONE), said)
        return self._settled(plan, found)

    def _settled(self, plan: ExperimentPlan | None, found: tuple[str, ...]) -> PlanResult:
        """Return the last plan, trimmed, if it then has no problems; nothing more is asked."""
        shorter = plan and trimmed(plan)
        if shorter and problems(shorter, self._recipe):
            shorter = None
        return PlanResult(plan=shorter, problems=found)

    def _prompt(self, idea: Idea, concepts: Sequence[ConceptRecord]) -> Prompt:
        """Return the question; one that is too long drops concepts, the last first, then files."""
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
    """Return a concept with its name and definition on one line each; the rest is fenced."""
    texts = {"name": quoted.entry(concept.name), "definition": quoted.field(concept.definition)}
    return concept.model_copy(update=texts)


class PlanStage(Stage[Planner]):
    """The stage that plans, once per idea."""

    name = "plan"
    kinds = (Kind("plan", "code", ExperimentPlan),)

    def applies(self, settings: Settings, has_library: bool) -> bool:
        """Return whether ideas are planned."""
        return settings.authoring.plan

    def calls(self, expected: Expected) -> Sequence[Calls]:
        """Return how often the stage asks; a plan that breaks a limit goes back."""
        ideas = expected.settings.ideas
        return (Calls("plan", ideas, ideas * TRIES * (1 + REPAIRS + AGAIN)),)

    def open(self, means: Means) -> Planner:
        """Return the planner."""
        return Planner(means.client("code"), means.recipe)

    async def weigh(self, opened: Planner, sample: Sample) -> None:
        """Plan an idea."""
        await opened.plan(sample.idea)


PLAN = PlanStage()
