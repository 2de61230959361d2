"""A language model as author: writes an idea's code, mends, completes, improves and extends it.

The keys of its calls: the first version is stage `code`, ordinal 1, and each repair of
rejected edits the next ordinal; another first version K has ordinals from REPAIR (K - 1) + 1.
Elsewhere the one repair of edits has the ordinal of what it repairs, and REPAIR more: debug round
R of further run N is stage `debug`, ordinal RUN N + R (N is 0 for the idea itself), and the
repair that makes version V of a tree has ordinal TREE + V; round R of completing is stage
`complete`, ordinal R; version V of a tree, where it improves another, is stage `improve`, ordinal
V; and further run N is stage `extend`, ordinal N. (Repairs of a reply's form are `ask`'s.)

Where a prompt is too long for the model it goes without what tells least: an earlier reply;
then what was tried before; then concepts, the last first; then files that may not be edited; and
last the plan. What a debug round goes without is the debugger's matter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hpcscientist.authoring import quoted
from hpcscientist.authoring.debugging import Debugger, ordinal_of
from hpcscientist.authoring.revising import Question, Reviser
from hpcscientist.config.settings import CODE, AuthoringSettings, RoleSettings
from hpcscientist.models.prompting.fitting import Window
from hpcscientist.models.prompting.materials import (
    Prompt,
    entries,
    from_the_end,
    of_template,
    read_only_files,
)
from hpcscientist.models.prompting.prompts import render
from hpcscientist.ports.model import Model
from hpcscientist.records.asked.authoring import (
    Brief,
    CompleteTask,
    Draft,
    ExtendTask,
    FixTask,
    GaveUp,
    ImproveTask,
    RedraftTask,
)
from hpcscientist.records.asked.replies import FixReply
from hpcscientist.system.interpreter import Interpreter

if TYPE_CHECKING:
    from hpcscientist.recipe.load import Recipe

WRITE_REPAIRS = 2
FIX_REPAIRS = 1  # also where code is completed or extended
REPAIR = 1000  # beyond any number of rounds


class ModelAuthor:
    """Has a model write edits and applies them; implements `ports.author.Author`.

    `authoring` says what a repair is shown; see `debugging`. `python` is what runs the code.
    """

    def __init__(
        self,
        model: Model,
        recipe: Recipe,
        settings: RoleSettings = CODE,
        window: Window | None = None,
        authoring: AuthoringSettings | None = None,
        python: Interpreter | None = None,
    ) -> None:
        self._reference = dict(recipe.reference)
        self._spec = recipe.spec
        window = window or Window(settings.context)
        self._debugger = Debugger(model, recipe.spec.editable, authoring, settings, window)
        self._reviser = Reviser(model, recipe, settings, window, python)

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
        question = Question(
            idea=brief.idea,
            stage="code",
            ordinals=tuple(range(before + 1, before + WRITE_REPAIRS + 2)),
            prompt=self._code_prompt(brief, earlier),
            files=self._reference,
            seen=seen,
            # The unchanged reference would be measured as if it were the idea.
            insist=True,
        )
        return await self._reviser.revise(question)

    async def fix(self, task: FixTask) -> Draft | GaveUp:
        """Mend a failed version; gives up rather than go round in circles.

        Raises EndpointError.
        """
        question = Question(
            idea=task.idea,
            stage="debug",
            ordinals=_with_repairs(ordinal_of(task)),
            prompt=await self._debugger.prompt(task),
            files=task.files,
            seen=task.seen,
            reply_type=FixReply,
        )
        return await self._reviser.revise(question)

    async def complete(self, task: CompleteTask) -> Draft | GaveUp:
        """Add what a reviewer found lacking. Raises EndpointError."""
        question = Question(
            idea=task.brief.idea,
            stage="complete",
            ordinals=_with_repairs(task.round),
            prompt=self._complete_prompt(task),
            files=task.files,
            seen=task.seen,
        )
        return await self._reviser.revise(question)

    async def improve(self, task: ImproveTask) -> Draft | GaveUp:
        """Make a version that runs better by its pilot. Raises EndpointError."""
        question = Question(
            idea=task.brief.idea,
            stage="improve",
            ordinals=_with_repairs(task.number),
            prompt=self._improve_prompt(task),
            files=task.files,
            seen=task.seen,
        )
        return await self._reviser.revise(question)

    async def extend(self, task: ExtendTask) -> Draft | GaveUp:
        """Make the code of a further run from code that was scored. Raises EndpointError."""
        question = Question(
            idea=task.brief.idea,
            stage="extend",
            ordinals=_with_repairs(task.number),
            prompt=self._extend_prompt(task),
            files=task.files,
            seen=task.seen,
        )
        return await self._reviser.revise(question)

    def _code_prompt(self, brief: Brief, earlier: tuple[str, ...]) -> Prompt:
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
        )

    def _complete_prompt(self, task: CompleteTask) -> Prompt:
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
        )

    def _improve_prompt(self, task: ImproveTask) -> Prompt:
        """Ask for something better; too long, it goes without what was tried, the oldest first."""
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
        )

    def _extend_prompt(self, task: ExtendTask) -> Prompt:
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
        )

    def _contract(self) -> str:
        spec = self._spec
        steps = [step.name for step in spec.budgets.steps]
        return render("contract", entry=spec.entry, predictions=spec.predictions, steps=steps)


def _with_repairs(ordinal: int) -> tuple[int, ...]:
    return tuple(ordinal + REPAIR * again for again in range(FIX_REPAIRS + 1))
