"""Code by parts: a model names the functions and constants that change, then writes each alone.

The calls that write parts keep the question's ordinal and have the stage `code-part`,
`debug-part`, … Their draft numbers tell them apart: the parts of draft D are numbered from 8 D.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from hpcscientist.authoring import quoted
from hpcscientist.authoring.edits import EditError, apply, parts
from hpcscientist.authoring.edits.units import IMPORTS, EditUnit, find_unit, units_in
from hpcscientist.models.prompting.fitting import Prompt, of_template
from hpcscientist.models.reply_limits import Limits
from hpcscientist.models.role_client import UNANSWERED, CallPurpose, RoleClient
from hpcscientist.records.authoring import (
    ChangesReply,
    CodeReply,
    FixChangesReply,
    FixReply,
    UnitEdit,
)
from hpcscientist.records.idea import Idea

MOST_PARTS = 7  # written for one reply: parts that it names, and definitions that these lack
_NAMED, _MISSING = 4, 3
_PER_DRAFT = 8

Reply = CodeReply | FixReply


@dataclass(frozen=True, slots=True)
class PartsQuestion:
    """A question for an idea: which parts of `files` change, and the new code of each.

    If `part` is set, `prompt` asks for the new code of that part alone. Otherwise `prompt` asks
    which parts change, within `limits`. `failure` says how the current code fails.
    """

    idea: Idea
    files: Mapping[str, str]
    prompt: Prompt
    limits: Limits
    reply_type: type[CodeReply] | type[FixReply]
    part: EditUnit | None = None
    failure: str = ""


class PartWriter:
    """A writer of code by parts; `undefined` returns the names that files use but never define."""

    def __init__(
        self, editable: Sequence[str], undefined: Callable[[Mapping[str, str]], Sequence[str]]
    ) -> None:
        self._editable, self._undefined = editable, undefined

    async def ask(self, client: RoleClient, call: CallPurpose, asked: PartsQuestion) -> Reply:
        """Return the model's parts as edits. Raises what the client raises."""
        if asked.part is not None:
            note, wanted = "one part was written anew", [(asked.part, asked.prompt)]
        elif asked.reply_type is CodeReply:
            plain = await client.ask(call, ChangesReply, asked.prompt, asked.limits)
            note, wanted = plain.note, self._prompts(asked, plain)
        else:
            fix = await client.ask(call, FixChangesReply, asked.prompt, asked.limits)
            if fix.give_up:
                return FixReply(diagnosis=fix.diagnosis, give_up=True)
            note, wanted = fix.diagnosis, self._prompts(asked, fix)
        call = replace(call, stage=f"{call.stage}-part", draft=call.draft * _PER_DRAFT)
        calls = [replace(call, draft=call.draft + number) for number in range(len(wanted))]
        # Wait for all calls before raising the first failure, so that none outlives the question.
        written = await asyncio.gather(
            *(
                _written(client, its, asked.files, unit, prompt)
                for its, (unit, prompt) in zip(calls, wanted, strict=True)
            ),
            return_exceptions=True,
        )
        edits = list[UnitEdit]()
        for found in written:
            if isinstance(found, BaseException):
                raise found
            edits += found
        edits += await self._missing(client, replace(call, draft=call.draft + _NAMED), asked, edits)
        if asked.reply_type is CodeReply:
            return CodeReply(note=note, edits=tuple(edits))
        return FixReply(diagnosis=note, edits=tuple(edits))

    def _prompts(
        self, asked: PartsQuestion, reply: ChangesReply | FixChangesReply
    ) -> list[tuple[EditUnit, Prompt]]:
        """Return the parts that a reply names, each once, with the prompt for its new code."""
        units = units_in(asked.files, self._editable)
        changes: dict[str, str] = {}
        for change in reply.changes[:_NAMED]:
            changes.setdefault(change.part, change.change)
        found = [(find_unit(part, units), change) for part, change in changes.items()]
        return [
            (unit, _part_prompt(asked, unit, change, changes, units))
            for unit, change in found
            if unit is not None and parts.is_writable(unit)
        ]

    async def _missing(
        self, client: RoleClient, call: CallPurpose, asked: PartsQuestion, edits: Sequence[UnitEdit]
    ) -> list[UnitEdit]:
        """Ask for the constants and functions that new parts use but nothing defines.

        If a call gets no usable reply, the definition stays missing; a repair of the part may
        then do without it.
        """
        files = apply(asked.files, edits, self._editable)
        if not edits or isinstance(files, EditError):
            return []
        found = list[UnitEdit]()
        for number, name in enumerate(list(dict.fromkeys(self._undefined(files)))[:_MISSING]):
            user = next((e for e in edits if re.search(rf"\b{name}\b", e.code)), None)
            if user is None:
                continue
            is_called = re.search(rf"\b{name}\(", user.code) is not None
            begun = f"def {name}(" if is_called else f"{name} ="
            prompt = of_template(
                "definition",
                (),
                idea_fields=quoted.idea_fields(asked.idea.proposal),
                name=name,
                is_function=is_called,
                code=user.code,
            )
            its = replace(call, draft=call.draft + number)
            try:
                text = await client.write(its, prompt, parts.FENCE + begun)
            except UNANSWERED:
                continue
            own, beside = parts.source(text, begun, name, ())
            label = parts.outermost(user.unit)
            found += [UnitEdit(unit=label, action="add", code=code) for code in (own, *beside)]
        return found


async def _written(
    client: RoleClient, call: CallPurpose, files: Mapping[str, str], unit: EditUnit, prompt: Prompt
) -> list[UnitEdit]:
    """Return a part's new code as edits, with the new definitions that it uses."""
    begun = parts.head(unit, files)
    text = await client.write(call, prompt, parts.FENCE + begun)
    known = {other.name for other in units_in(files, [unit.file])}
    own, beside = parts.source(text, begun, unit.name, known)
    label = parts.outermost(unit.label)
    more = [UnitEdit(unit=label, action="add", code=code) for code in beside]
    return [UnitEdit(unit=unit.label, code=own), *more]


def _part_prompt(
    asked: PartsQuestion,
    unit: EditUnit,
    change: str,
    changes: Mapping[str, str],
    units: Sequence[EditUnit],
) -> Prompt:
    """Return the prompt for one part's new code; it shows the other parts' changes."""
    of_file = [other for other in units if other.file == unit.file]
    return of_template(
        "part",
        (),
        idea_fields=quoted.idea_fields(asked.idea.proposal),
        unit=unit,
        change=change,
        failure=quoted.field(asked.failure),
        code=unit.text(asked.files),
        beside=[(part, text) for part, text in changes.items() if part != unit.label],
        imports=next((u.text(asked.files) for u in of_file if u.name == IMPORTS), ""),
        names=[u.name for u in of_file if parts.is_writable(u) and u != unit],
    )
