"""A language model as author: writes an idea's code, fixes, completes, improves and extends it.

Each call has a stage and an ordinal:

- `code`: ordinal 1 for the first version, and the next ordinal for each further reply. Another
  first version K counts from REPAIR (K - 1) + 1.
- `debug`: RUN N + R for debug round R of further run N (N is 0 for the idea itself), TREE + V for
  the repair that makes version V of a tree.
- `complete`: R for round R of completing.
- `improve`: V for version V of a tree, where it improves another.
- `extend`: N for further run N.

In all stages but `code`, each further reply adds REPAIR to the ordinal of the first. Repairs of a
reply that does not fit its schema belong to `RoleClient.ask`.

A prompt that is too long for the model drops its least useful material first: an earlier reply;
then what was tried before; then concepts, the last first; then files that may not be edited; and
last the plan. For debug rounds see `debugging`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from hpcscientist.authoring import quoted
from hpcscientist.authoring.debugging import Debugger, ordinal_of
from hpcscientist.authoring.edits.forms import Offer
from hpcscientist.authoring.edits.parts import is_writable
from hpcscientist.authoring.edits.units import units_in
from hpcscientist.authoring.part_writer import MOST_PARTS
from hpcscientist.authoring.revising import AGAIN, TRIES, EditQuestion, Reviser
from hpcscientist.authoring.tracebacks.log import Frame, frames
from hpcscientist.config.settings import CODE, AuthoringSettings, RoleSettings, Settings
from hpcscientist.models.prompting.fitting import (
    Prompt,
    Window,
    entries,
    from_the_end,
    of_template,
    read_only_files,
)
from hpcscientist.models.prompting.prompts import render
from hpcscientist.models.stage import (
    LOG_SIZE,
    PART_SIZE,
    SUMMARY_SIZE,
    TITLE_SIZE,
    Calls,
    Expected,
    Kind,
    Means,
    Sample,
    Stage,
    filler,
    traceback,
)
from hpcscientist.models.stage import TRIES as FORM_TRIES
from hpcscientist.ports import Model
from hpcscientist.records.authoring import (
    Brief,
    ChangesReply,
    CodeReply,
    CompleteTask,
    Draft,
    ExtendTask,
    FixChangesReply,
    FixReply,
    FixTask,
    GaveUp,
    ImproveTask,
    PartChange,
    PartReply,
    RedraftTask,
    StructureReply,
    Variant,
)
from hpcscientist.records.base import Record
from hpcscientist.records.experiment import CodeReview, ConceptCheck, FurtherRun
from hpcscientist.records.trial import IdeaFailed, IdeaFailure
from hpcscientist.system.interpreter import Interpreter

if TYPE_CHECKING:
    from hpcscientist.recipe.load import Recipe

REPLIES = TRIES + AGAIN  # the most for one question for edits; its first drafts count as one
MOST_DRAFTS = 4
_SPARE = 16  # idle request slots per further draft, because other ideas take some of them
REPAIR = 1000  # beyond any number of rounds


class ModelAuthor:
    """An author that asks a model for edits and applies them; implements `ports.Author`.

    `authoring` says what a repair's prompt shows; see `debugging`. `python` is the interpreter
    that runs the code. `idle` returns how many more requests the model would answer at once.
    """

    def __init__(
        self,
        model: Model,
        recipe: Recipe,
        settings: RoleSettings = CODE,
        window: Window | None = None,
        authoring: AuthoringSettings | None = None,
        python: Interpreter | None = None,
        idle: Callable[[], int] = lambda: 0,
    ) -> None:
        self._reference = dict(recipe.reference)
        self._spec = recipe.spec
        window = window or Window(settings.context)
        self._debugger = Debugger(model, recipe.spec.editable, authoring, settings, window)
        authoring = authoring or AuthoringSettings()
        drafts = partial(_drafts, authoring.samples, idle)
        self._reviser = Reviser(model, recipe, settings, window, python, authoring.edits, drafts)

    async def write(self, brief: Brief) -> Draft | GaveUp:
        """Write the first version from the reference. Raises EndpointError."""
        return await self._first(brief, 1, (), ())

    async def redraft(self, task: RedraftTask) -> Draft | GaveUp:
        """Write another first version from the reference. Raises EndpointError."""
        return await self._first(task.brief, task.number, task.earlier, task.seen)

    async def _first(
        self, brief: Brief, number: int, earlier: tuple[str, ...], seen: tuple[str, ...]
    ) -> Draft | GaveUp:
        before = REPAIR * (number - 1)
        question = EditQuestion(
            idea=brief.idea,
            stage="code",
            ordinals=tuple(range(before + 1, before + REPLIES + 1)),
            prompt=partial(self._code_prompt, brief, earlier),
            files=self._reference,
            seen=seen,
            # Otherwise the unchanged reference would be measured as if it were the idea.
            insist=True,
        )
        return await self._reviser.revise(question)

    async def fix(self, task: FixTask) -> Draft | GaveUp:
        """Fix a failed version; give up rather than go in circles. Raises EndpointError."""
        # In the last round every unit may change: the fault may not be where the code failed.
        at_once = task.round < task.rounds
        failed = await asyncio.to_thread(frames, task.log_tail, task.files) if at_once else ()
        question = EditQuestion(
            idea=task.idea,
            stage="debug",
            ordinals=_with_repairs(ordinal_of(task)),
            prompt=await self._debugger.prompt(task),
            files=task.files,
            seen=task.seen,
            failed=tuple(failed),
            failure=_told(task.outcome.detail, failed),
            reply_type=FixReply,
        )
        return await self._reviser.revise(question)

    async def complete(self, task: CompleteTask) -> Draft | GaveUp:
        """Add what a reviewer found lacking. Raises EndpointError."""
        question = EditQuestion(
            idea=task.brief.idea,
            stage="complete",
            ordinals=_with_repairs(task.round),
            prompt=partial(self._complete_prompt, task),
            files=task.files,
            seen=task.seen,
        )
        return await self._reviser.revise(question)

    async def improve(self, task: ImproveTask) -> Draft | GaveUp:
        """Improve a version that runs, by its pilot's values. Raises EndpointError."""
        question = EditQuestion(
            idea=task.brief.idea,
            stage="improve",
            ordinals=_with_repairs(task.number),
            prompt=partial(self._improve_prompt, task),
            files=task.files,
            seen=task.seen,
        )
        return await self._reviser.revise(question)

    async def extend(self, task: ExtendTask) -> Draft | GaveUp:
        """Make the code of a further run from scored code. Raises EndpointError."""
        question = EditQuestion(
            idea=task.brief.idea,
            stage="extend",
            ordinals=_with_repairs(task.number),
            prompt=partial(self._extend_prompt, task),
            files=task.files,
            seen=task.seen,
        )
        return await self._reviser.revise(question)

    def _code_prompt(self, brief: Brief, earlier: tuple[str, ...], offer: Offer) -> Prompt:
        spec = self._spec
        return of_template(
            "code",
            (
                entries("drafts", tuple(map(quoted.field, earlier))),
                from_the_end("concepts", brief.concepts),
                read_only_files("reference_files", self._reference, spec.editable),
                from_the_end("plan", quoted.plan_fields(brief.plan)),
            ),
            topic=spec.topic,
            idea=brief.idea.proposal,
            contract=self._contract(),
            budgets=spec.budgets,
            resources=spec.resources,
            editable=spec.editable,
            offer=offer,
        )

    def _complete_prompt(self, task: CompleteTask, offer: Offer) -> Prompt:
        spec = self._spec
        return of_template(
            "complete",
            (
                from_the_end("concepts", task.brief.concepts),
                read_only_files("files", task.files, spec.editable),
                from_the_end("plan", quoted.plan_fields(task.brief.plan)),
            ),
            idea_fields=quoted.idea_fields(task.brief.idea.proposal),
            findings=quoted.findings(task.review),
            advice=quoted.field(task.review.advice),
            round=task.round,
            budgets=spec.budgets,
            editable=spec.editable,
            offer=offer,
        )

    def _improve_prompt(self, task: ImproveTask, offer: Offer) -> Prompt:
        """Return the question; one that is too long first drops what was tried, oldest first."""
        spec = self._spec
        return of_template(
            "improve",
            (
                entries("tried", tuple(map(quoted.variant, task.tried))),
                entries("led", tuple(map(quoted.field, task.led))),
                from_the_end("concepts", task.brief.concepts),
                read_only_files("files", task.files, spec.editable),
                from_the_end("plan", quoted.plan_fields(task.brief.plan)),
            ),
            idea_fields=quoted.idea_fields(task.brief.idea.proposal),
            metric=spec.primary,
            measured=quoted.values(task.values),
            reference=quoted.values(task.reference),
            budgets=spec.budgets,
            editable=spec.editable,
            offer=offer,
        )

    def _extend_prompt(self, task: ExtendTask, offer: Offer) -> Prompt:
        spec, run = self._spec, task.run
        return of_template(
            "extend",
            (
                read_only_files("files", task.files, spec.editable),
                from_the_end("plan", quoted.plan_fields(task.brief.plan)),
            ),
            idea_fields=quoted.idea_fields(task.brief.idea.proposal),
            kind=run.kind,
            title=quoted.entry(run.title),
            purpose=quoted.field(run.purpose),
            change=quoted.block(run.change),
            budgets=spec.budgets,
            editable=spec.editable,
            offer=offer,
        )

    def _contract(self) -> str:
        spec = self._spec
        steps = [step.name for step in spec.budgets.steps]
        given = {"entry": spec.entry, "predictions": spec.predictions, "steps": steps}
        return render("contract", **given, processes=spec.processes)


def _told(detail: str, failed: Sequence[Frame]) -> str:
    """Return how a trial failed, after the lines of candidate code that led there."""
    lines = [f"  in {frame.function}: {frame.code.strip()}" for frame in failed]
    return "\n".join([*lines, detail])


def _drafts(samples: int, idle: Callable[[], int]) -> int:
    """Return how many first replies to ask for: more than one only if that delays no other idea."""
    return samples or min(MOST_DRAFTS, 1 + idle() // _SPARE)


def _with_repairs(ordinal: int) -> tuple[int, ...]:
    return tuple(ordinal + REPAIR * again for again in range(REPLIES))


_BY_PARTS = ("code", "debug", "complete", "improve", "extend")


class CodeStage(Stage[ModelAuthor]):
    """The stage that writes code: first versions, repairs, improvements, further runs."""

    name = "code"
    kinds = (
        Kind("code", "code", CodeReply),
        Kind("debug", "code", FixReply),
        Kind("structure", "code", StructureReply),
        Kind("complete", "code", CodeReply),
        Kind("improve", "code", CodeReply),
        Kind("extend", "code", CodeReply),
        *(Kind(f"{stage}-part", "code", PartReply) for stage in _BY_PARTS),
    )
    optional = False

    def calls(self, expected: Expected) -> Sequence[Calls]:
        """Return how often the stage asks, for one version and its repairs or for a tree."""
        settings, own = expected.settings, expected.versions
        ideas, authoring = settings.ideas, settings.authoring
        most = FORM_TRIES * _replies(settings)
        # In a tree, all versions but one first version may be repairs, or all improvements.
        repairs = ideas * (own.beside + (1 + own.runs_at_most) * settings.loop.debug_rounds)
        first, fixes = ideas * own.first, ideas * own.fixes
        found = [Calls("code", first, first * most), Calls("debug", fixes, repairs * most)]
        if authoring.analysis and authoring.debugging != "none":
            found.append(Calls("structure", fixes, repairs * FORM_TRIES))
        if own.beside:
            found.append(Calls("improve", ideas * own.improvements, ideas * own.beside * most))
        if "advise" in expected.stages:
            rounds = authoring.advice_rounds
            found.append(Calls("complete", ideas * min(1, rounds), ideas * rounds * most))
        if own.runs_at_most:
            found.append(Calls("extend", ideas * own.runs, ideas * own.runs_at_most * most))
        if authoring.edits == "parts":
            parts = [of for of in found if of.kind in _BY_PARTS]
            # Only a reply that fits its schema names parts; the parts' own replies have no schema.
            found += [
                Calls(f"{of.kind}-part", 2 * of.guess, MOST_PARTS * of.most // FORM_TRIES)
                for of in parts
            ]
        return found

    def answers(self, sample: Sample) -> Mapping[str, Record]:
        """Return replies that name a part; without them no part would be asked for."""
        if sample.settings.authoring.edits != "parts":
            return {}
        units = units_in(sample.recipe.reference, sample.recipe.spec.editable)
        part = next((unit.label for unit in units if is_writable(unit)), "")
        named = (PartChange(part=part, change=filler(SUMMARY_SIZE)),)
        plain = ChangesReply(note=filler(TITLE_SIZE), changes=named)
        fix = FixChangesReply(diagnosis=filler(TITLE_SIZE), changes=named)
        return {kind: fix if kind == "debug" else plain for kind in _BY_PARTS}

    def open(self, means: Means) -> ModelAuthor:
        """Return the author."""
        settings = means.settings
        return ModelAuthor(
            *(means.model, means.recipe, settings.code, means.windows.get("code")),
            *(settings.authoring, means.python, partial(means.idle, "code")),
        )

    async def weigh(self, opened: ModelAuthor, sample: Sample) -> None:
        """Ask for every kind of version that the campaign may need."""
        recipe, settings, brief = sample.recipe, sample.settings, sample.brief
        files = recipe.reference
        await opened.write(Brief(idea=sample.idea))
        await opened.fix(
            FixTask(
                idea=sample.idea,
                files=files,
                outcome=IdeaFailed(failure=IdeaFailure.ERROR, detail=filler(TITLE_SIZE)),
                log_tail=f"{filler(LOG_SIZE)}\n{traceback(recipe)}",
                round=1,
                rounds=max(1, settings.loop.debug_rounds),
            )
        )
        if sample.versions.beside:
            await opened.improve(_improvement(sample))
        if "advise" in sample.stages:
            check = ConceptCheck(
                concept=filler(TITLE_SIZE), state="partial", remark=filler(SUMMARY_SIZE)
            )
            review = CodeReview(attempt=1, checks=(check,), advice=filler(SUMMARY_SIZE))
            await opened.complete(CompleteTask(brief=brief, files=files, review=review, round=1))
        if sample.versions.runs_at_most:
            run = FurtherRun(
                kind="ablation",
                title=filler(TITLE_SIZE),
                purpose=filler(SUMMARY_SIZE),
                change=filler(PART_SIZE),
            )
            await opened.extend(ExtendTask(brief=brief, files=files, run=run, number=1))


def _replies(settings: Settings) -> int:
    """Return the most replies that a question for edits takes; each draft counts."""
    spec = settings.code.model or settings.model
    drafts = settings.authoring.samples or (MOST_DRAFTS if spec.startswith("vllm:") else 1)
    return drafts - 1 + REPLIES


def _improvement(sample: Sample) -> ImproveTask:
    """Return a task from the middle of a tree: two versions led to it, two were made from it."""
    values = {metric.name: 0.0 for metric in sample.recipe.spec.metrics}
    return ImproveTask(
        brief=sample.brief,
        files=sample.recipe.reference,
        number=1,
        values=values,
        reference=values,
        led=(filler(SUMMARY_SIZE),) * 2,
        tried=(Variant(note=filler(SUMMARY_SIZE), values=values),) * 2,
    )


AUTHOR = CodeStage()
