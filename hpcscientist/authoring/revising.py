"""One question for edits: asked, applied, checked, and asked again with what was wrong.

What the tasks of an author share. An edit that is rejected, or changes comments alone, is no
failure yet: its reason goes back to the model, as often as the question allows. A result that is
no step forward (no change, the unchanged reference, a version that was tried before) ends the
question, so that no task goes round in circles and no idea is credited with what the reference
does.
"""

from __future__ import annotations

import ast
import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from hpcscientist.authoring import checks
from hpcscientist.authoring.edits import EditError, apply
from hpcscientist.config.settings import RoleSettings
from hpcscientist.errors import PlaybookExhausted, ReplyError
from hpcscientist.files.handed.python import UNREADABLE, syntax_tree
from hpcscientist.files.hashing import hash_bytes, hash_texts
from hpcscientist.files.text import one_line
from hpcscientist.models.prompting.fitting import Window
from hpcscientist.models.prompting.materials import GONE, Prompt
from hpcscientist.models.prompting.prompts import render
from hpcscientist.models.reply_limits import Limit, Limits
from hpcscientist.models.voice import Call, Voice
from hpcscientist.ports.model import Model
from hpcscientist.recipe.packages import available
from hpcscientist.records.asked.authoring import Draft, GaveUp
from hpcscientist.records.asked.replies import CodeReply, FixReply
from hpcscientist.records.base import Record
from hpcscientist.records.idea import Idea
from hpcscientist.system.interpreter import Interpreter

if TYPE_CHECKING:
    from hpcscientist.recipe.load import Recipe

REPEATS = "repeats an earlier version"
UNCHANGED = "the edits change nothing"
ONLY_COMMENTS = "the edits change nothing but comments and layout"
GIVEN_BACK = "the edits give back the unchanged reference"

_EDITS = 20  # of one reply; a change of more places replaces the file
_PROBLEMS = 20  # of a version, as many as go back to the model


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked for an idea at a stage: edits of `files`.

    `ordinals` are those of the first try and of each repair of rejected edits. `seen` holds the
    hashes of versions that are not to come back. `insist`: edits that change nothing go back to
    the model like any that are rejected, where else they end the question.
    """

    idea: Idea
    stage: str
    ordinals: tuple[int, ...]
    prompt: Prompt
    files: Mapping[str, str]
    seen: tuple[str, ...] = ()
    insist: bool = False
    reply_type: type[CodeReply] | type[FixReply] = CodeReply


class Reviser:
    """Has a model edit code of a recipe until the edits fit and the result compiles."""

    def __init__(
        self,
        model: Model,
        recipe: Recipe,
        settings: RoleSettings,
        window: Window,
        python: Interpreter | None = None,
    ) -> None:
        self._model, self._settings, self._window = model, settings, window
        self._python = python or Interpreter()
        self._reference, self._editable = dict(recipe.reference), recipe.spec.editable
        self._packages = available(recipe.reference)

    async def revise(self, asked: Question) -> Draft | GaveUp:
        """Return the edited files, or why there are none. Raises EndpointError."""
        voice = Voice(self._model, "code", self._settings, asked.idea.seed, self._window)
        prompt, problem = asked.prompt, ""
        spare: Draft | None = None
        for ordinal in asked.ordinals:
            call = Call(asked.idea.idea_id, asked.idea.number, asked.stage, ordinal)
            try:
                reply = await voice.ask(call, asked.reply_type, prompt, self._limits(asked))
            except PlaybookExhausted:
                return spare or GaveUp(reason=_exhausted(call, problem))
            except ReplyError as error:
                return spare or GaveUp(reason=one_line(str(error)))
            # In a thread: finding the place of an edit may take a while.
            found = await asyncio.to_thread(self._read, asked, reply)
            if isinstance(found, GaveUp) and not _gives_up(reply):
                return spare or found
            if not isinstance(found, _Rejected):
                return found
            problem, spare = found.problem, found.spare or spare
            # The latest reply alone is shown, so the prompt does not grow with each repair.
            prompt = _again(asked.prompt, reply, problem)
        return spare or GaveUp(reason=_useless(len(asked.ordinals) - 1, problem))

    def _limits(self, asked: Question) -> Limits:
        """Allow edits of editable files alone; a first version must have one."""
        return {
            "edits.file": Limit(values=self._editable),
            "edits": Limit(least=1 if asked.insist else None, most=_EDITS),
        }

    def _read(self, asked: Question, reply: CodeReply | FixReply) -> Draft | GaveUp | _Rejected:
        """Return what a reply comes to: new code, an end, or what is wrong with its edits."""
        if _gives_up(reply):
            return GaveUp(reason=one_line(_note(reply)) or "the model gave no reason")
        files = apply(asked.files, reply.edits, self._editable)
        if isinstance(files, EditError):
            return _Rejected(str(files))
        if broken := checks.syntax_problems(files, self._reference, self._python):
            return _Rejected(_listed(broken))
        problems = checks.runtime_problems(files, self._packages, self._reference, self._python)
        objection = self._objection(asked, files)
        if objection is not None:
            return _Rejected(objection) if isinstance(objection, str) else objection
        draft = Draft(files=files, note=_note(reply))
        return _Rejected(_listed(problems), draft) if problems else draft

    def _objection(self, asked: Question, files: dict[str, str]) -> GaveUp | str | None:
        """Say why edited files are no step forward; a string is said to the model, too."""
        if files == asked.files:
            return UNCHANGED if asked.insist else GaveUp(reason=UNCHANGED)
        if _same_program(asked.files, files):
            return ONLY_COMMENTS  # a slip, where no edit at all is an answer
        if _same_program(self._reference, files):
            return GaveUp(reason=GIVEN_BACK)
        return GaveUp(reason=REPEATS) if hash_texts(files) in asked.seen else None


@dataclass(frozen=True, slots=True)
class _Rejected:
    """What is wrong with a reply's edits; `spare` is their result where it compiles.

    A problem that a check foresees is worth another question. Where that is not answered, or no
    better, a trial and its traceback are worth more than to give the idea up.
    """

    problem: str
    spare: Draft | None = None


def _listed(problems: Sequence[checks.Problem]) -> str:
    return "\n".join(map(str, problems[:_PROBLEMS]))


def _same_program(before: Mapping[str, str], after: Mapping[str, str]) -> bool:
    """Whether files that were edited are read as the same code."""
    changed = (name for name in {*before, *after} if before.get(name) != after.get(name))
    return all(_same_code(name, before.get(name), after.get(name)) for name in changed)


def _same_code(name: str, before: str | None, after: str | None) -> bool:
    """Whether two texts of a file are read as the same code, so that every run is the same."""
    if not name.endswith(".py") or before is None or after is None:
        return False
    code = _code_hash(before)
    return code is not None and code == _code_hash(after)


@lru_cache(maxsize=64)
def _code_hash(text: str) -> str | None:
    """Return one hash for all texts that are read as the same code; None of what is no code, or
    cannot be compared. Kept, for each version is compared with the reference and with its parent.
    """
    try:
        return hash_bytes(ast.dump(syntax_tree(text)).encode())
    except UNREADABLE:
        return None


def _gives_up(reply: CodeReply | FixReply) -> bool:
    return isinstance(reply, FixReply) and reply.give_up


def _note(reply: CodeReply | FixReply) -> str:
    return reply.diagnosis if isinstance(reply, FixReply) else reply.note


def _again(prompt: Prompt, reply: Record, problem: str) -> Prompt:
    """Return the same question with the latest reply and what was wrong with it."""
    return prompt.answered((reply.model_dump_json(), GONE), render("rejected", problem=problem))


def _exhausted(call: Call, problem: str) -> str:
    """Name the call; `problem` is what was wrong with the latest reply, if this is a repair."""
    why = f" ({problem})" if problem else ""
    name = f"{call.idea_id}, stage {call.stage}/{call.ordinal}"
    return one_line(f"the playbook holds no reply for {name}{why}")


def _useless(repairs: int, problem: str) -> str:
    count = "1 repair" if repairs == 1 else f"{repairs} repairs"
    return one_line(f"no usable edits after {count}: {problem}")
