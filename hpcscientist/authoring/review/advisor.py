"""The advisor: a model reviews whether the code does what the idea says.

As in AI-Researcher (arXiv 2505.18705, 3.2 and A.5), a reviewer compares code and idea concept by
concept, and must tell a method that is carried out from one that is only pretended. Here each
judgement is structured, its claims are verified (`verdicts.CodeComparison`), and several
independent judgements are merged. What needs no model is added: `red_flags`, and whether the
predictions are the reference's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hpcscientist.authoring.attempts import patch
from hpcscientist.authoring.review.reachability import dead_lines, read
from hpcscientist.authoring.review.red_flags import Sign, find
from hpcscientist.authoring.review.source import shown_lines
from hpcscientist.authoring.review.verdicts import (
    MOST,
    CodeComparison,
    WantedConcept,
    judgement,
    merged,
    pretended,
    profiles,
    wanted,
)
from hpcscientist.config.settings import Settings
from hpcscientist.models.prompting.fitting import (
    Prompt,
    PromptPart,
    from_the_end,
    lines_from_the_end,
    of_template,
    read_only_files,
)
from hpcscientist.models.prompting.prompts import line, tame
from hpcscientist.models.reply_limits import Limit, Limits
from hpcscientist.models.role_client import UNANSWERED, CallPurpose, RoleClient
from hpcscientist.models.stage import TRIES, Calls, Expected, Kind, Means, Sample, Stage
from hpcscientist.records.authoring import Brief
from hpcscientist.records.experiment import CodeReview, ReviewReply
from hpcscientist.records.idea import Idea

if TYPE_CHECKING:
    from hpcscientist.recipe.load import Recipe

ROUND = 100  # ordinals of an attempt's judgements: ROUND * attempt + judge, from 1
_FIELD, _ADVICE = 1500, 600  # characters
_ADVISED, _SIGNS = 3, 5  # pieces of advice, and signs, that the coder gets
_SAME = (
    "The predictions are exactly those of the unchanged reference with the same seed, so nothing "
    "was done: the method must act on the predictions."
)


@dataclass(frozen=True, slots=True)
class _Seen:
    """What is known of an attempt without a model."""

    evidence: CodeComparison
    signs: tuple[Sign, ...]


class Advisor:
    """An advisor; it asks `client` for `judges` judgements of an attempt, or for none without."""

    def __init__(self, client: RoleClient | None, recipe: Recipe, judges: int) -> None:
        self._client, self._judges = client, judges
        self._spec, self._reference = recipe.spec, dict(recipe.reference)

    async def review(
        self, brief: Brief, attempt: int, files: Mapping[str, str], same_as_reference: bool
    ) -> CodeReview:
        """Return the merged judgements of an attempt; see `CodeReview`.

        They are asked for in parallel, stage `advise`, ordinal ROUND * attempt + judge, each with
        its own seed. Those without a usable reply are left out. If none is left, the review is
        not `judged` and says only what needs no model: which signs there are, and whether the
        predictions, or the code as its source proves, are the reference's. Raises EndpointError.
        """
        seen = await asyncio.to_thread(self._look, dict(files))
        concepts = wanted(brief)
        prompt = self._prompt(brief, concepts, files, seen, same_as_reference)
        replies = await self._ask(brief.idea, attempt, prompt, _limits(concepts, files))
        judged = [judgement(reply, concepts, seen.evidence.verify) for reply in replies]
        return CodeReview(
            attempt=attempt,
            checks=merged(judged),
            marks=tuple(sorted(reply.correctness for reply in replies)),
            expected=tuple(sorted(_correctness(reply) for reply in replies)),
            toy=pretended(replies) or any(sign.kind == "unchanged" for sign in seen.signs),
            same_as_reference=same_as_reference,
            judged=bool(replies),
            advice=_advice(replies, seen.signs, same_as_reference),
        )

    def _look(self, files: dict[str, str]) -> _Seen:
        entry, names = self._spec.entry, tuple(metric.name for metric in self._spec.metrics)
        program = read(files, entry)
        idle = dead_lines(program) if program is not None else {}
        evidence = CodeComparison(files, self._reference, idle)
        return _Seen(evidence, find(files, self._reference, entry, names))

    async def _ask(
        self, idea: Idea, attempt: int, prompt: Prompt, limits: Limits
    ) -> list[ReviewReply]:
        if self._client is None:
            return []
        try:
            async with asyncio.TaskGroup() as group:
                asked = [
                    group.create_task(
                        self._judge(self._client, idea, attempt, judge, prompt, limits)
                    )
                    for judge in range(1, self._judges + 1)
                ]
        except ExceptionGroup as failed:
            raise failed.exceptions[0] from None
        return [reply for task in asked if (reply := task.result()) is not None]

    async def _judge(
        self,
        client: RoleClient,
        idea: Idea,
        attempt: int,
        judge: int,
        prompt: Prompt,
        limits: Limits,
    ) -> ReviewReply | None:
        ordinal = ROUND * attempt + judge
        call = CallPurpose(idea.idea_id, idea.number, "advise", ordinal, sample=judge)
        try:
            return await client.ask(call, ReviewReply, prompt, limits)
        except UNANSWERED:
            return None

    def _prompt(
        self,
        brief: Brief,
        concepts: tuple[WantedConcept, ...],
        files: Mapping[str, str],
        seen: _Seen,
        same_as_reference: bool,
    ) -> Prompt:
        """Return the question, with idea, concepts and code.

        One that is too long drops the patch, whose new lines are marked in the code; then formulas
        and code of the concepts, the last first; then files that are as in the reference; and last
        the details of the idea.
        """
        of, diff = brief.idea.proposal, tame(patch(self._reference, files))
        states = {name: self._file_state(name, text) for name, text in sorted(files.items())}
        changed = [name for name, state in states.items() if state != "as in the reference"]
        listed = {name: _numbered(files[name], seen.evidence.new(name)) for name in states}
        return of_template(
            "advise",
            (
                PromptPart("diff", 1, lambda step: "" if step else diff),
                from_the_end("profiles", profiles(brief)),
                read_only_files("files", listed, changed),
                lines_from_the_end("details", tame(of.technical_details).strip()),
            ),
            title=line(of.title, _FIELD),
            method=tame(of.method).strip(),
            plan=_plan_fields(brief),
            concepts=concepts,
            states=states,
            signs=[str(sign) for sign in seen.signs],
            same_as_reference=same_as_reference,
            most=MOST,
        )

    def _file_state(self, name: str, text: str) -> str:
        if name not in self._reference:
            return "new"
        return "as in the reference" if self._reference[name] == text else "changed"


def _numbered(text: str, new: frozenset[int]) -> str:
    """Return a text with its lines numbered; "+" marks those that the reference lacks."""
    shown = shown_lines(text)
    width = len(str(len(shown)))
    return "\n".join(
        f"{number:>{width}}{'+' if number in new else ' '}| {tame(of)}"
        for number, of in enumerate(shown, start=1)
    )


def _plan_fields(brief: Brief) -> tuple[tuple[str, str], ...]:
    """Return how the idea was to be carried out: as planned, or else as proposed."""
    if brief.plan is None:
        return (("As proposed", line(brief.idea.proposal.experiment_plan, _FIELD)),)
    fields = ("model", "training", "testing", "data")
    return tuple((name.capitalize(), line(getattr(brief.plan, name), _FIELD)) for name in fields)


def _advice(replies: list[ReviewReply], signs: tuple[Sign, ...], same_as_reference: bool) -> str:
    """Return the coder's advice, the surest first; the order of the replies has no effect."""
    told = [_SAME] if same_as_reference else []
    told += [f"{sign}." for sign in signs[:_SIGNS]]
    ranked = sorted((_correctness(reply), line(reply.advice, _ADVICE)) for reply in replies)
    told += list(dict.fromkeys(advice for _, advice in ranked if advice))[:_ADVISED]
    return "\n".join(told)


def _correctness(reply: ReviewReply) -> float:
    """Return a judgement's mark: its expectation if that is known."""
    return reply.expectation("correctness") or reply.correctness


def _limits(concepts: Sequence[WantedConcept], files: Iterable[str]) -> Limits:
    """Return limits that allow one check of each concept, in existing files."""
    names = tuple(dict.fromkeys(concept.name for concept in concepts))
    return {
        "checks": Limit(least=len(names), most=len(names)),
        "checks.concept": Limit(values=names),
        "checks.file": Limit(values=tuple(files)),
    }


class AdviseStage(Stage[Advisor]):
    """The stage that reviews code, once per version that runs."""

    name = "advise"
    kinds = (Kind("advise", "review", ReviewReply),)

    def applies(self, settings: Settings, has_library: bool) -> bool:
        """Return whether code is reviewed."""
        return settings.authoring.advice_rounds > 0

    def calls(self, expected: Expected) -> Sequence[Calls]:
        """Return how often the stage asks: for a first review, and again each time its findings
        went back. A version that was fixed after all seeds were asked for is reviewed again.
        """
        settings, authoring = expected.settings, expected.settings.authoring
        rounds, reviews = authoring.advice_rounds, settings.ideas * authoring.judges
        most = 1 + rounds + settings.loop.debug_rounds
        return (Calls("advise", reviews * (1 + min(1, rounds)), reviews * most * TRIES),)

    def open(self, means: Means) -> Advisor:
        """Return the advisor."""
        return Advisor(means.client("review"), means.recipe, means.settings.authoring.judges)

    async def weigh(self, opened: Advisor, sample: Sample) -> None:
        """Ask for a review of the reference as if it were an idea's code."""
        await opened.review(sample.brief, 1, sample.recipe.reference, False)


ADVISE = AdviseStage()
