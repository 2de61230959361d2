"""A language model as author: writes an idea's code, and mends it from its traceback.

The keys of its calls: the first version is stage `code`, ordinal 1, and each repair of
rejected edits the next ordinal; debug round R is stage `debug`, ordinal R, and the one
repair of its edits ordinal DEBUG_REPAIR + R. (Repairs of a reply's form are `ask`'s.)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeVar

from hpcscientist.authoring import checks
from hpcscientist.authoring.edits import EditError, apply
from hpcscientist.authoring.traceback import frames, headline
from hpcscientist.config.settings import CodeSettings
from hpcscientist.errors import PlaybookExhausted, ReplyError
from hpcscientist.files.hashing import hash_texts
from hpcscientist.files.text import one_line
from hpcscientist.models.prompts import render
from hpcscientist.models.structured import ask
from hpcscientist.ports.model import Model
from hpcscientist.records.authoring import Draft, FixTask, GaveUp
from hpcscientist.records.base import Record
from hpcscientist.records.idea import Idea, idea_seed
from hpcscientist.records.model import Message, ModelRequest
from hpcscientist.records.replies import CodeReply, Edit, FixReply

if TYPE_CHECKING:
    from hpcscientist.recipe.load import Recipe

WRITE_REPAIRS = 2
DEBUG_REPAIR = 1000  # beyond any number of debug rounds
REPEATS = "repeats an earlier version"


_Reply = TypeVar("_Reply", CodeReply, FixReply)


class ModelAuthor:
    """Has a model write edits and applies them; implements `ports.author.Author`."""

    def __init__(self, model: Model, recipe: Recipe, settings: CodeSettings | None = None) -> None:
        self._model = model
        self._reference = dict(recipe.reference)
        self._spec = recipe.spec
        self._settings = settings or CodeSettings()

    async def write(self, idea: Idea) -> Draft | GaveUp:
        """Write the first version from the reference. Raises EndpointError."""
        spec = self._spec
        prompt = render(
            "code",
            topic=spec.topic,
            idea=idea.proposal,
            reference_files=self._reference,
            contract=render("contract", entry=spec.entry, predictions=spec.predictions),
            budgets=spec.budgets,
            resources=spec.resources,
            editable=spec.editable,
        )
        request = self._request(idea, "code", 1, prompt)
        problem = ""
        for ordinal in range(1, WRITE_REPAIRS + 2):
            reply = await self._ask(request, CodeReply, problem)
            if isinstance(reply, GaveUp):
                return reply
            files = self._edited(self._reference, reply.edits)
            if isinstance(files, dict) and files != self._reference:
                return Draft(files=files, note=reply.note)
            # The unchanged reference would be measured as if it were the idea.
            problem = "the edits change nothing" if isinstance(files, dict) else files
            request = _again(request, ordinal + 1, reply, problem)
        return GaveUp(reason=one_line(f"no usable code after {WRITE_REPAIRS} repairs: {problem}"))

    async def fix(self, task: FixTask) -> Draft | GaveUp:
        """Mend a failed version; gives up rather than go round in circles.

        Raises EndpointError.
        """
        request = self._request(task.idea, "debug", task.round, self._debug_prompt(task))
        problem = ""
        for _ in range(2):
            reply = await self._ask(request, FixReply, problem)
            if isinstance(reply, GaveUp):
                return reply
            if reply.give_up:
                return GaveUp(reason=one_line(reply.diagnosis) or "the model gave no reason")
            files = self._edited(task.files, reply.edits)
            if isinstance(files, dict):
                if files == task.files or hash_texts(files) in task.seen:
                    return GaveUp(reason=REPEATS)
                return Draft(files=files, note=reply.diagnosis)
            problem = files
            request = _again(request, DEBUG_REPAIR + task.round, reply, problem)
        return GaveUp(reason=one_line(f"no usable edits after a repair: {problem}"))

    def _debug_prompt(self, task: FixTask) -> str:
        last = headline(task.log_tail)
        detail = task.outcome.detail
        if last and last not in detail:
            detail = f"{detail}\n{last}"
        return render(
            "debug",
            idea=task.idea.proposal,
            round=task.round,
            rounds=task.rounds,
            failure_kind=task.outcome.failure.value.replace("_", " "),
            detail=detail,
            frames=frames(task.log_tail, task.files),
            log_tail=task.log_tail,
            earlier=task.earlier,
            files=task.files,
            editable=self._spec.editable,
        )

    def _request(self, idea: Idea, stage: str, ordinal: int, prompt: str) -> ModelRequest:
        return ModelRequest(
            idea_id=idea.idea_id,
            stage=stage,
            ordinal=ordinal,
            messages=(Message(role="user", content=prompt),),
            temperature=self._settings.temperature,
            max_tokens=self._settings.max_tokens,
            seed=idea_seed(idea.seed, idea.number),
        )

    async def _ask(
        self, request: ModelRequest, reply_type: type[_Reply], problem: str
    ) -> _Reply | GaveUp:
        """Ask; what ends this idea alone becomes a reason to give it up.

        `problem` is what was wrong with the latest reply, if this asks for another.
        """
        try:
            return await ask(self._model, request, reply_type)
        except PlaybookExhausted:
            why = f" ({problem})" if problem else ""
            call = f"{request.idea_id}, stage {request.key}"
            return GaveUp(reason=one_line(f"the playbook holds no reply for {call}{why}"))
        except ReplyError as error:
            return GaveUp(reason=one_line(str(error)))

    def _edited(self, files: Mapping[str, str], edits: tuple[Edit, ...]) -> dict[str, str] | str:
        """Return the edited files, or what is wrong with the edits or their result."""
        edited = apply(files, edits, self._spec.editable)
        if isinstance(edited, EditError):
            return str(edited)
        return "\n".join(str(problem) for problem in checks.check(edited)) or edited


def _again(request: ModelRequest, ordinal: int, reply: Record, problem: str) -> ModelRequest:
    """Return the same question with the latest reply and what was wrong with it."""
    messages = (
        request.messages[0],
        Message(role="assistant", content=reply.model_dump_json()),
        Message(role="user", content=render("rejected", problem=problem)),
    )
    return request.model_copy(update={"messages": messages, "ordinal": ordinal})
