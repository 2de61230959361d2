"""Prompts for fixing a failed attempt: its output, its code structure and a model's analysis.

Exception-traceback-guided debugging as in Dolphin (arXiv 2501.03916, section 3.2), in three modes
that can be compared as in its table 5. `none` shows how the trial failed and the end of its
output. `structure` adds an outline of all code, without guidance by a traceback. `traceback` adds
the frames in the candidate's own code and the structure around them. All modes show the code that
failed.

If there is a structure, a model may first be asked to analyse the failure from it: stage
`structure`, with the ordinal of the repair. Without an answer, the repair goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hpcscientist.authoring.edits.forms import Offer
from hpcscientist.authoring.structure import (
    Binding,
    Call,
    Definition,
    LocalStructure,
    Shape,
    local_structure,
    outline,
)
from hpcscientist.authoring.tracebacks.log import Frame, frames, last_error
from hpcscientist.config.settings import CODE, AuthoringSettings, RoleSettings
from hpcscientist.models.prompting.fitting import (
    Prompt,
    PromptPart,
    Window,
    entries,
    of_template,
    read_only_files,
    tail,
)
from hpcscientist.models.prompting.prompts import line, tame
from hpcscientist.models.role_client import UNANSWERED, RoleClient
from hpcscientist.models.role_client import CallPurpose as Asked
from hpcscientist.ports import Model
from hpcscientist.records.authoring import FixTask, StructureReply

RUN = 10_000  # debug rounds of further run N count from N times this
TREE = 2_000_000  # repairs within a tree of versions count from here, beyond any further run
_ANALYSIS, _CAUSE = 3000, 600  # characters
_LINE = 240
_EMPTY = LocalStructure()


@dataclass(frozen=True, slots=True)
class FailureEvidence:
    """What is known of a failure without asking a model."""

    detail: str
    frames: tuple[Frame, ...] = ()
    structure: LocalStructure = _EMPTY


class Debugger:
    """A builder of the prompts from which a model fixes a failed attempt.

    `editable` holds the names of files that edits may change. `role` and `window` belong to
    `model`, which is asked for an analysis if `authoring` says so.
    """

    def __init__(
        self,
        model: Model,
        editable: Sequence[str],
        authoring: AuthoringSettings | None = None,
        role: RoleSettings = CODE,
        window: Window | None = None,
    ) -> None:
        self._model, self._editable, self._role = model, tuple(editable), role
        self._settings = authoring or AuthoringSettings()
        self._window = window or Window(role.context)

    async def prompt(self, task: FixTask) -> Callable[[Offer], Prompt]:
        """Return a debug round's prompt as a function of the offer. Raises EndpointError.

        A prompt that is too long drops its least useful material first: earlier diagnoses, the
        oldest lines of the output, shapes, calls and definitions, the furthest first; then files
        that may not be edited, names, the analysis, and last the frames, outermost first.
        """
        known = await asyncio.to_thread(self.evidence, task)
        analysis = await self._analysis(task, known)
        return lambda offer: of_template(
            "debug",
            (
                entries("earlier", task.earlier),
                tail("log_tail", task.log_tail),
                *_structure_parts(known.structure),
                read_only_files("files", task.files, self._editable),
                _halved("names", _names(known.structure)),
                _halved("analysis", analysis),
                entries("frames", known.frames),
            ),
            idea=task.idea.proposal,
            round=task.round,
            rounds=task.rounds,
            failure_kind=_kind(task),
            detail=known.detail,
            guided=bool(known.frames),
            editable=self._editable,
            offer=offer,
        )

    def evidence(self, task: FixTask) -> FailureEvidence:
        """Return what the debugging mode shows of a failure, read from its output and code."""
        mode, detail = self._settings.debugging, task.outcome.detail
        if mode == "none":
            return FailureEvidence(detail)
        if mode == "structure":
            return FailureEvidence(detail, structure=outline(task.files))
        last = last_error(task.log_tail)
        if last and last not in detail:
            detail = f"{detail}\n{last}"
        own = tuple(frames(task.log_tail, task.files))
        return FailureEvidence(detail, own, local_structure(task.files, own))

    async def _analysis(self, task: FixTask, known: FailureEvidence) -> tuple[str, ...]:
        """Return the lines of a model's analysis of the structure; () if there is none."""
        if not (self._settings.analysis and known.structure):
            return ()
        client = RoleClient(self._model, "code", self._role, task.idea.seed, self._window)
        call = Asked(task.idea.idea_id, task.idea.number, "structure", ordinal_of(task))
        try:
            reply = await client.ask(call, StructureReply, self._question(task, known))
        except UNANSWERED:
            return ()
        cause = line(reply.cause, _CAUSE)
        told = [text.rstrip() for text in tame(reply.analysis[:_ANALYSIS]).splitlines()]
        return tuple(text for text in (f"Cause: {cause}" if cause else "", *told) if text)

    def _question(self, task: FixTask, known: FailureEvidence) -> Prompt:
        """Return the question about the structure, with its definitions' code or else all files."""
        shown = tuple(d for d in known.structure.definitions if d.code)
        files = {} if shown else task.files
        return of_template(
            "structure",
            (
                tail("log_tail", task.log_tail),
                *_structure_parts(known.structure),
                read_only_files("files", files, self._editable),
                _halved("code", shown),
                _halved("names", _names(known.structure)),
                entries("frames", known.frames),
            ),
            title=line(task.idea.proposal.title, _LINE),
            failure_kind=_kind(task),
            detail=known.detail,
            guided=bool(known.frames),
            editable=self._editable,
        )


def ordinal_of(task: FixTask) -> int:
    """Return the ordinal of a repair, which no other repair of its idea has."""
    return TREE + task.node if task.node else task.run * RUN + task.round


def _kind(task: FixTask) -> str:
    return task.outcome.failure.value.replace("_", " ")


def _structure_parts(found: LocalStructure) -> tuple[PromptPart, ...]:
    return (
        _halved("shapes", tuple(map(_shape, found.shapes))),
        _halved("calls", tuple(map(_call, found.calls))),
        _halved("definitions", tuple(map(_definition, found.definitions))),
    )


def _halved(name: str, items: Sequence[object]) -> PromptPart:
    """Return a part that drops the last half of its entries, again and again, down to none."""
    counts = [len(items)]
    while counts[-1] > 0:
        counts.append(counts[-1] // 2)
    return PromptPart(name, len(counts) - 1, lambda step: tuple(items[: counts[step]]))


def _definition(found: Definition) -> str:
    lines = f"{found.first}" if found.first == found.last else f"{found.first}-{found.last}"
    what = "module level" if found.kind == "module" else f"{found.kind} {found.name}"
    shown = f": {found.signature}" if found.signature else ""
    return line(f"{found.file}:{lines} {what}{shown}", _LINE)


def _call(found: Call) -> str:
    return line(
        f"{found.file}:{found.line} {found.caller} calls {found.callee}: {found.code}", _LINE
    )


def _shape(found: Shape) -> str:
    return line(f"{found.file}:{found.line} {found.name} = {found.shape}", _LINE)


def _names(found: LocalStructure) -> tuple[str, ...]:
    return tuple(map(_name, found.names))


def _name(found: Binding) -> str:
    if found.line == 0:
        return line(f"{found.name}: bound nowhere in {found.file}", _LINE)
    return line(f"{found.name}: {found.file}:{found.line} {found.code}", _LINE)
