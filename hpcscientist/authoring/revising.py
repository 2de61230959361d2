"""One question for edits: ask, apply, check, and ask again with what was wrong.

All tasks of an author share this loop. An edit that is rejected, or that changes comments alone,
is not a failure yet: the reason goes back to the model, as often as the question allows, at a
higher temperature and with another seed. A reply that repeats a refused one does not count as a
try, and the next request offers the other form of edits. The second repair shows only the unit at
fault. A result that is no step forward (no change, the unchanged reference, a version that was
tried before) ends the question, so that no task goes in circles and no idea is credited with what
the reference does.
"""

from __future__ import annotations

import ast
import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, NamedTuple

from hpcscientist.authoring import checks, quoted
from hpcscientist.authoring.edits import EditError, apply
from hpcscientist.authoring.edits.forms import (
    LONGEST,
    Forms,
    Offer,
    UnitFault,
    fault_at,
    fault_of_edit,
    fault_of_file,
    of_unit,
)
from hpcscientist.authoring.edits.parts import is_writable
from hpcscientist.authoring.edits.units import EditUnit, unit_at, units_in
from hpcscientist.authoring.part_writer import PartsQuestion, PartWriter
from hpcscientist.authoring.review import reachability
from hpcscientist.authoring.review.equivalence import same_program, unread_constants
from hpcscientist.authoring.review.reachability import ReachedProgram
from hpcscientist.authoring.tracebacks.log import Frame
from hpcscientist.config.settings import RoleSettings
from hpcscientist.errors import PlaybookExhausted, ReplyError
from hpcscientist.files.hashing import hash_bytes, hash_texts
from hpcscientist.files.python_source import UNREADABLE, syntax_tree
from hpcscientist.files.text import one_line
from hpcscientist.models.prompting.fitting import GONE, Prompt, Window, of_template
from hpcscientist.models.prompting.prompts import render
from hpcscientist.models.reply_limits import Limits
from hpcscientist.models.role_client import CallPurpose, RoleClient
from hpcscientist.ports import Model
from hpcscientist.recipe.packages import available
from hpcscientist.records.authoring import (
    CodeReply,
    Draft,
    FixReply,
    GaveUp,
    UnitEdit,
)
from hpcscientist.records.base import Record
from hpcscientist.records.idea import Idea
from hpcscientist.system.interpreter import Interpreter

if TYPE_CHECKING:
    from hpcscientist.recipe.load import Recipe

REPEATS = "repeats an earlier version"
UNCHANGED = "the edits change nothing"
ONLY_COMMENTS = "the edits change nothing but comments and layout"
GIVEN_BACK = "the edits give back the unchanged reference"

TRIES = 3  # the first reply and two repairs
AGAIN = 2  # replies that may repeat a refused one
_PROBLEMS = 20  # at most so many of a version's problems go back to the model


@dataclass(frozen=True, slots=True)
class EditQuestion:
    """A question for edits of `files`, for an idea at a stage.

    `ordinals` number all possible replies: `TRIES`, and `AGAIN` that repeat a refused one.
    `prompt` asks for edits in the form that is offered. `seen` holds the hashes of versions that
    must not be returned. With `insist`, edits that change nothing go back to the model like
    rejected ones; without it they end the question. `failed` are the frames in which the code
    failed, and `failure` says how.
    """

    idea: Idea
    stage: str
    ordinals: tuple[int, ...]
    prompt: Callable[[Offer], Prompt]
    files: Mapping[str, str]
    seen: tuple[str, ...] = ()
    insist: bool = False
    failed: tuple[Frame, ...] = ()
    failure: str = ""
    reply_type: type[CodeReply] | type[FixReply] = CodeReply

    @property
    def least(self) -> int | None:
        """The fewest edits that an answer may have; None for no bound."""
        return 1 if self.insist else None


class Reviser:
    """A loop that asks a model to edit code until the edits apply and the result compiles."""

    def __init__(
        self,
        model: Model,
        recipe: Recipe,
        settings: RoleSettings,
        window: Window,
        python: Interpreter | None = None,
        form: Literal["auto", "parts", "search", "unit"] = "auto",
        drafts: Callable[[], int] = lambda: 1,
    ) -> None:
        """`drafts` returns how many first replies to a question may be asked for in parallel."""
        self._drafts = drafts
        self._forms = Forms(form, recipe.spec.editable)
        self._model, self._settings, self._window = model, settings, window
        self._python = python or Interpreter()
        self._reference, self._editable = dict(recipe.reference), recipe.spec.editable
        self._packages = available(recipe.reference)
        self._entry = recipe.spec.entry
        self._parts = PartWriter(self._editable, self._undefined)

    async def revise(self, asked: EditQuestion) -> Draft | GaveUp:
        """Return the edited files, or why there are none. Raises EndpointError."""
        client = RoleClient(self._model, "code", self._settings, asked.idea.seed, self._window)
        changed = self._changed(asked)
        offer = self._forms.offer(asked.files, near=_near(asked, changed, self._editable))
        now = first = _Asking.first(asked, offer)
        if offer.is_parts and (fault := _where(asked, changed, self._editable)) is not None:
            now = _Asking.of_unit(asked, fault, asked.failure, is_part=True)
        refused, tries, problem = list[object](), 0, ""
        spare: Draft | None = None
        for again, ordinal in enumerate(asked.ordinals):
            call = CallPurpose(
                asked.idea.idea_id, asked.idea.number, asked.stage, ordinal, again=again
            )
            drafts = 1 if again else max(1, self._drafts())
            reply, found = await self._first_usable(client, asked, now, call, drafts, problem)
            if isinstance(found, GaveUp) and not (reply and _gives_up(reply)):
                return spare or found
            self._forms.record(now.offer, not isinstance(found, Rejected) or bool(found.spare))
            if not isinstance(found, Rejected):
                return found
            assert reply is not None
            repeats = reply.edits in refused
            tries += not repeats
            problem, spare = found.problem, found.spare or spare
            refused.append(reply.edits)
            if tries == TRIES:
                break
            is_part = now.offer.is_parts and found.fault is not None
            if found.fault is not None and (is_part or tries == TRIES - 1):
                is_part = is_part and is_writable(found.fault.unit)
                now = _Asking.of_unit(asked, found.fault, problem, is_part=is_part)
            elif repeats:
                offer = self._forms.offer(asked.files, unlike=now.offer)
                now = first = _Asking.first(asked, offer)
            else:
                # Only the latest reply is shown, so that the prompt does not grow.
                now = first.again(reply, problem)
        return spare or GaveUp(reason=_useless(len(refused) - 1, problem))

    async def _first_usable(
        self,
        client: RoleClient,
        asked: EditQuestion,
        now: _Asking,
        call: CallPurpose,
        drafts: int,
        problem: str,
    ) -> _Answer:
        """Ask for `drafts` replies in parallel and return the first usable one.

        "First" goes by draft number, not by time, so that a replayed campaign takes the same one.
        If no draft is usable, the one that comes closest is returned.
        """
        calls = [replace(call, draft=draft) for draft in range(drafts)]
        tasks = [
            asyncio.ensure_future(self._answer(client, asked, now, one, problem)) for one in calls
        ]
        answers = list[_Answer]()
        try:
            for task in tasks:
                answers.append(await task)
                if isinstance(answers[-1].found, Draft):
                    break
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return max(answers, key=_Answer.rank)

    async def _answer(
        self, client: RoleClient, asked: EditQuestion, now: _Asking, call: CallPurpose, problem: str
    ) -> _Answer:
        try:
            if now.offer.is_parts:
                question = PartsQuestion(
                    *(asked.idea, now.files, now.prompt, now.limits, asked.reply_type, now.part),
                    failure=asked.failure,
                )
                reply = await self._parts.ask(client, call, question)
            else:
                reply = await client.ask(call, asked.reply_type, now.prompt, now.limits)
        except PlaybookExhausted:
            return _Answer(None, GaveUp(reason=_exhausted(call, problem)))
        except ReplyError as error:
            return _Answer(None, GaveUp(reason=one_line(str(error))))
        # In a thread, because finding the place of an edit may take a while.
        return _Answer(reply, await asyncio.to_thread(self._read, asked, reply, now))

    def _changed(self, asked: EditQuestion) -> set[str]:
        """Return the labels of units that differ from the reference; none if no frame is known."""
        if not asked.failed:
            return set()
        old = {u.label: u.text(self._reference) for u in units_in(self._reference, self._editable)}
        units = units_in(asked.files, self._editable)
        return {u.label for u in units if old.get(u.label) != u.text(asked.files)}

    def _undefined(self, files: Mapping[str, str]) -> list[str]:
        problems = checks.runtime_problems(files, self._packages, self._reference, self._python)
        return [problem.undefined for problem in problems if problem.undefined]

    def _read(
        self, asked: EditQuestion, reply: CodeReply | FixReply, now: _Asking
    ) -> Draft | GaveUp | Rejected:
        """Return a reply's result: new code, a GaveUp, or what is wrong with its edits."""
        if _gives_up(reply):
            return GaveUp(reason=one_line(_note(reply)) or "the model gave no reason")
        # Edits that search text were written with all of the code in view.
        by_unit = any(isinstance(edit, UnitEdit) for edit in reply.edits)
        before = now.files if by_unit else asked.files
        files = apply(before, reply.edits, self._editable)
        if isinstance(files, EditError):
            fault = fault_of_edit(before, reply.edits, files.edit - 1, self._editable)
            return Rejected(str(files), fault=fault)
        if broken := checks.syntax_problems(files, self._reference, self._python):
            fault = fault_of_file(before, reply.edits, str(broken[0].file), self._editable)
            return Rejected(_listed(broken), fault=fault)
        problems = checks.runtime_problems(files, self._packages, self._reference, self._python)
        objection = self._objection(asked, files)
        if isinstance(objection, GaveUp) and now.offer.is_parts:
            objection = objection.reason  # a slip: a model that gives up says so
        if objection is not None:
            return Rejected(objection) if isinstance(objection, str) else objection
        draft = Draft(files=files, note=_note(reply))
        if not problems:
            return draft
        fault = fault_at(files, str(problems[0].file), problems[0].line, self._editable)
        return Rejected(_listed(problems), draft, fault)

    def _objection(self, asked: EditQuestion, files: dict[str, str]) -> GaveUp | str | None:
        """Return why edited files are no step forward; a string goes back to the model."""
        if files == asked.files:
            return UNCHANGED if asked.insist else GaveUp(reason=UNCHANGED)
        if _same_program(asked.files, files):
            return ONLY_COMMENTS  # a slip, whereas no edit at all is an answer
        if _same_program(self._reference, files):
            return GaveUp(reason=GIVEN_BACK)
        if hash_texts(files) in asked.seen:
            return GaveUp(reason=REPEATS)
        return _idle(asked.files, files, self._entry)


@dataclass(frozen=True, slots=True)
class Rejected:
    """What is wrong with a reply's edits. `spare` is their result if it compiles; `fault` is the
    unit to fix, if known.

    A problem that a check foresees is worth another question. If the answer is no better, or
    there is none, running `spare` for its traceback is better than giving up the idea.
    """

    problem: str
    spare: Draft | None = None
    fault: UnitFault | None = None


class _Answer(NamedTuple):
    """A reply and its result; without a reply, the result is a GaveUp."""

    reply: CodeReply | FixReply | None
    found: Draft | GaveUp | Rejected

    def rank(self) -> int:
        """Return how much the answer is worth: usable code most, no reply least."""
        if isinstance(self.found, Rejected):
            return 2 + bool(self.found.spare)
        return 4 if isinstance(self.found, Draft) else int(self.reply is not None)


@dataclass(frozen=True, slots=True)
class _Asking:
    """One request of a question: what it offers, and the `files` that unit edits apply to.

    `part` is the part to write; None if the model names the parts first.
    """

    prompt: Prompt
    offer: Offer
    limits: Limits
    files: Mapping[str, str]
    part: EditUnit | None = None

    @classmethod
    def first(cls, asked: EditQuestion, offer: Offer) -> _Asking:
        """Return the request that asks the question in the form of an offer."""
        return cls(asked.prompt(offer), offer, offer.limits(asked.least), asked.files)

    @classmethod
    def of_unit(
        cls, asked: EditQuestion, fault: UnitFault, problem: str, *, is_part: bool
    ) -> _Asking:
        """Return the request for one unit alone."""
        offer = of_unit(fault.unit, fault.files, is_part=is_part)
        prompt = of_template(
            "unit",
            (),
            idea_fields=quoted.idea_fields(asked.idea.proposal),
            unit=fault.unit,
            offer=offer,
            code=fault.unit.text(fault.files),
            written=fault.written,
            names=fault.names,
            problem=problem,
            fixes=asked.reply_type is FixReply,
        )
        part = fault.unit if is_part else None
        return cls(prompt, offer, offer.limits(1, len(offer.units)), fault.files, part)

    def again(self, reply: Record, problem: str) -> _Asking:
        """Return the same request with the latest reply and what was wrong with it."""
        said = render("rejected", problem=problem)
        if self.offer.is_parts:  # the reply was assembled from several
            return replace(self, prompt=self.prompt.noted(said))
        return replace(self, prompt=self.prompt.answered((reply.model_dump_json(), GONE), said))


def _near(asked: EditQuestion, changed: set[str], editable: Sequence[str]) -> set[str]:
    """Return the labels of the units in which the code failed, and of the changed ones."""
    units = units_in(asked.files, editable)
    held = (unit_at(frame.line, frame.file, units) for frame in asked.failed)
    return changed | {unit.label for unit in held if unit is not None}


def _where(asked: EditQuestion, changed: set[str], editable: Sequence[str]) -> UnitFault | None:
    """Return the innermost failing unit that was changed, to be rewritten at once.

    Asked to choose, small models too often name another unit, and that prompt is five times as
    long.
    """
    units = units_in(asked.files, editable)
    held = (unit_at(frame.line, frame.file, units) for frame in asked.failed)
    own = [u for u in held if u is not None and u.label in changed and is_writable(u)]
    return UnitFault(asked.files, own[-1]) if own and own[-1].length <= LONGEST else None


def _listed(problems: Sequence[checks.Problem]) -> str:
    return "\n".join(map(str, problems[:_PROBLEMS]))


def _idle(before: Mapping[str, str], after: Mapping[str, str], entry: str) -> str | None:
    """Return a complaint that nothing that runs is changed; None if something is, or may be.

    Small models define what an idea asks for and forget to use it.
    """
    old, new = reachability.read(before, entry), reachability.read(after, entry)
    if old is None or new is None or not (old.known and new.known):
        return None
    # A file that nothing imports may be run by another program.
    apart = {*old.trees, *new.trees} - {*old.files, *new.files}
    if any(before.get(name) != after.get(name) for name in apart):
        return None
    if not same_program(new, old, after, before):
        return None
    unused = [name for name in _unused(new) if name not in _unused(old)]
    return (
        f"nothing that runs is changed: {', '.join(unused[:_PROBLEMS]) or 'the new code'} is never "
        "used. Change the function that has to use it as well"
    )


def _unused(program: ReachedProgram) -> list[str]:
    constants = [name for _, name, _ in unread_constants(program)]
    return [*(unit.name for unit in program.unreached), *constants]


def _same_program(before: Mapping[str, str], after: Mapping[str, str]) -> bool:
    """Return whether edited files parse as the same code."""
    changed = (name for name in {*before, *after} if before.get(name) != after.get(name))
    return all(_same_code(name, before.get(name), after.get(name)) for name in changed)


def _same_code(name: str, before: str | None, after: str | None) -> bool:
    """Return whether two texts of a file parse as the same code, so that every run is the same."""
    if not name.endswith(".py") or before is None or after is None:
        return False
    code = _code_hash(before)
    return code is not None and code == _code_hash(after)


@lru_cache(maxsize=64)
def _code_hash(text: str) -> str | None:
    """Return one hash for all texts that parse as the same code; None if a text does not parse.

    Cached, because each version is compared with the reference and with its parent.
    """
    try:
        return hash_bytes(ast.dump(_without_docstrings(syntax_tree(text))).encode())
    except UNREADABLE:
        return None


def _without_docstrings(tree: ast.Module) -> ast.Module:
    holders = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(tree):
        if isinstance(node, holders) and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return tree


def _gives_up(reply: CodeReply | FixReply) -> bool:
    return isinstance(reply, FixReply) and reply.give_up


def _note(reply: CodeReply | FixReply) -> str:
    return reply.diagnosis if isinstance(reply, FixReply) else reply.note


def _exhausted(call: CallPurpose, problem: str) -> str:
    """Return which call has no reply; `problem` is the latest reply's, if this is a repair."""
    why = f" ({problem})" if problem else ""
    name = f"{call.subject}, stage {call.stage}/{call.ordinal}"
    return one_line(f"the playbook holds no reply for {name}{why}")


def _useless(repairs: int, problem: str) -> str:
    count = "1 repair" if repairs == 1 else f"{repairs} repairs"
    return one_line(f"no usable edits after {count}: {problem}")
