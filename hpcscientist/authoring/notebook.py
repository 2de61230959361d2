"""notes.md, the experimental journal of an idea: what was planned, tried, found and concluded.

It is built from records alone. So it can be rewritten after each step, and a resumed campaign
writes it identically. (The AI Scientist, arXiv 2408.06292, has a model keep such notes, and its
papers repeat what the notes get wrong. Here figures come from the trusted scorer, and a model's
statements are quoted as such.)
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

from pydantic import Field

from hpcscientist.authoring import quoted
from hpcscientist.authoring.tree import TreeVersion
from hpcscientist.models.prompting.prompts import line
from hpcscientist.records.base import Record
from hpcscientist.records.experiment import AnalysisReply, CodeReview, ExperimentPlan

# A tree of versions drawn as text, for notes.md.

_KINDS = {"draft": "first version", "debug": "repair", "improve": "improvement"}
_STATES = {
    "broken": "failed",
    "disqualified": "set aside",
    "unwritten": "not written",
    "infra_failed": "failed by the machine",
}


def picture(nodes: Sequence[TreeVersion], best: int | None) -> str:
    """Return a tree with one line per version, drawn below its parent; `best` is marked.

    The text holds nothing that a model or a program has written.
    """
    return "\n".join(["reference", *_below(0, "", nodes, best)])


def _below(
    parent: int, indent: str, nodes: Sequence[TreeVersion], best: int | None
) -> Iterator[str]:
    children = [node for node in nodes if node.parent == parent]
    for place, node in enumerate(children, start=1):
        last = place == len(children)
        mark = ", the best" if node.number == best else ""
        drawn = f"{indent}{'└─' if last else '├─'} {node.number}"
        yield f"{drawn} {_KINDS[node.kind]}: {_came_to(node)}{mark}"
        yield from _below(node.number, f"{indent}{'   ' if last else '│  '}", nodes, best)


def _came_to(node: TreeVersion) -> str:
    return f"{node.value:.5g}" if node.value is not None else _STATES.get(node.state, node.state)


# Texts by models and generated code, escaped for Markdown that people open.
#
# A text becomes one line in which nothing has a meaning to Markdown, GitHub's included: it cannot
# produce a heading, list, table, link, image, formula, mention, HTML or code.

_MARKS = re.compile(r"[\\`*_\[\]<>&~|$#!@{}^]|:(?=//)|(?i:(?<=www)\.)")
_OPENING = re.compile(r"^(?:[-+=:]|[0-9]{1,9}(?=[.)]))")


def plain(text: str, limit: int) -> str:
    """Return a text as one escaped line of at most `limit` characters; a cut one ends in "…"."""
    shown = _MARKS.sub(r"\\\g<0>", line(text, limit))
    opening = _OPENING.match(shown)
    if opening is None:
        return shown
    # Escape a list mark or an underline itself; escape a number by what follows it.
    end = opening.end()
    return f"{shown[:end]}\\{shown[end:]}" if shown[0].isdigit() else f"\\{shown}"


_TITLE, _TEXT = 200, 2000  # characters
_PURPOSES = {
    "draft": "first version",
    "debug": "repair",
    "complete": "completion",
    "improve": "improvement",
}

Values = dict[str, tuple[float, float | None, int]]


class NotedPlan(Record):
    """The plan of an idea; `remark` says why there is none, or what was removed from it."""

    kind: Literal["planned"] = "planned"
    idea_id: str
    title: str
    plan: ExperimentPlan | None = None
    remark: str = ""


class NotedVersion(Record):
    """A version of the code.

    `parent` is the attempt it was made from, 0 for the reference. `run` is the further run it
    belongs to, 0 for the idea itself. `added` and `removed` count lines against the parent, as in
    `changed_lines`.
    """

    kind: Literal["attempt"] = "attempt"
    attempt: int = Field(ge=1)
    purpose: str = "draft"
    parent: int = Field(default=0, ge=0)
    run: int = Field(default=0, ge=0)
    note: str
    added: int = Field(default=0, ge=0)
    removed: int = Field(default=0, ge=0)


class NotedFailure(Record):
    """A version that the author gave up; fields as in `NotedVersion`."""

    kind: Literal["gave_up"] = "gave_up"
    purpose: str
    run: int = Field(default=0, ge=0)
    reason: str


class NotedTree(Record):
    """A tree of versions, compared by their pilots' `metric`; version `best` goes on."""

    kind: Literal["tree"] = "tree"
    metric: str
    nodes: tuple[TreeVersion, ...]
    best: int | None = None


class NotedReview(Record):
    """The advisor's review of an attempt."""

    kind: Literal["review"] = "review"
    review: CodeReview


class NotedTrials(Record):
    """The outcome of an attempt's trials: values by metric, or the failure.

    A value is a mean, a standard deviation (ddof 1) or None, and the number of seeds. `budget` is
    pilot, full, or a step of the recipe.
    """

    kind: Literal["outcome"] = "outcome"
    attempt: int = Field(ge=1)
    budget: str
    values: Values = Field(default={})
    failure: str | None = None


class NotedReading(Record):
    """The analyst's reading of all runs so far; `number` counts readings from 1."""

    kind: Literal["reading"] = "reading"
    number: int = Field(ge=1)
    reply: AnalysisReply


class Concluded(Record):
    """The end of an idea: its attempt and values, if any, and the reason.

    `left`: the idea was left before the full budget, so nothing was scored.
    """

    kind: Literal["end"] = "end"
    status: Literal["scored", "failed"]
    attempt: int | None = None
    values: Values = Field(default={})
    reason: str | None = None
    left: bool = False


Entry = (
    NotedPlan
    | NotedVersion
    | NotedFailure
    | NotedTree
    | NotedReview
    | NotedTrials
    | NotedReading
    | Concluded
)


def render(entries: Sequence[Entry]) -> str:
    """Return the journal as Markdown, one section per entry, in the order given.

    Trials and reviews of the latest attempt come below it; those of others name their attempt.
    """
    first = next((entry for entry in entries if isinstance(entry, NotedPlan)), None)
    title = "Notes" if first is None else f"{plain(first.idea_id, _TITLE)}: {_text(first.title)}"
    blocks = [f"# {title}"]
    latest: int | None = None
    for entry in entries:
        if isinstance(entry, NotedVersion):
            latest = entry.attempt
        blocks += _section(entry, latest)
    return "\n\n".join(blocks) + "\n"


def changed_lines(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[int, int]:
    """Return how many lines a diff between two sets of files adds and removes."""
    added = removed = 0
    for name in {*before, *after}:
        old, new = before.get(name, ""), after.get(name, "")
        if old != new:
            matcher = difflib.SequenceMatcher(None, _lines(old), _lines(new))
            for tag, first, last, start, stop in matcher.get_opcodes():
                if tag != "equal":
                    removed, added = removed + last - first, added + stop - start
    return added, removed


def _section(entry: Entry, latest: int | None) -> list[str]:
    match entry:
        case NotedPlan():
            blocks = _planned(entry)
        case NotedVersion():
            blocks = _written(entry)
        case NotedFailure():
            blocks = [f"## No {_purpose(entry.purpose, entry.run)}", _said(entry.reason)]
        case NotedTree():
            blocks = _grown(entry)
        case NotedReview():
            blocks = [f"### Review{_of(entry.review.attempt, latest)}", *_reviewed(entry.review)]
        case NotedTrials():
            known = {"pilot": "Pilot", "full": "Full run"}
            head = known.get(entry.budget) or f"Budget {plain(entry.budget, _TITLE)}"
            blocks = [f"### {head}{_of(entry.attempt, latest)}", _measured(entry)]
        case NotedReading():
            blocks = _read(entry)
        case Concluded():
            blocks = _concluded(entry)
    return blocks


def _planned(entry: NotedPlan) -> list[str]:
    fields = [f"{name}: {_text(text)}" for name, text in quoted.plan_fields(entry.plan)]
    body = [_bullets(fields)] if fields else ["There is none."]
    return ["## Plan", *body, *([_said(entry.remark)] if entry.remark.strip() else [])]


def _written(entry: NotedVersion) -> list[str]:
    origin = f"attempt {entry.parent}" if entry.parent else "the reference"
    return [
        f"## Attempt {entry.attempt}: {_purpose(entry.purpose, entry.run)}",
        f"Made from {origin}: {_count(entry.added)} added, {entry.removed} removed.",
        _said(entry.note),
    ]


def _grown(entry: NotedTree) -> list[str]:
    chosen = f"Attempt {entry.best} goes on." if entry.best is not None else "None of them works."
    drawn = picture(entry.nodes, entry.best)
    return ["## Tree", f"By {_text(entry.metric)} of the pilot. {chosen}", f"```text\n{drawn}\n```"]


def _reviewed(review: CodeReview) -> list[str]:
    lines = [_text(quoted.finding(check)) for check in review.checks]
    if review.toy:
        lines.append("The method is only pretended, or simplified away.")
    if review.same_as_reference:
        lines.append("The predictions are those of the unchanged reference: nothing was done.")
    if review.marks:
        lines.append(f"Correctness, 1 to 5: {', '.join(map(str, review.marks))}")
    if review.advice.strip():
        lines.append(f"Advice: {_text(review.advice)}")
    if not review.judged:
        return ["No judgement could be had.", *([_bullets(lines)] if lines else [])]
    return [_bullets(lines)] if lines else ["Nothing was found."]


def _measured(entry: NotedTrials) -> str:
    if entry.failure is not None:
        return f"Failed: {_text(entry.failure)}"
    return _values(entry.values)


def _read(entry: NotedReading) -> list[str]:
    blocks = [f"## Reading {entry.number}", _said(entry.reply.reading)]
    run = entry.reply.run
    if run is None:
        return [*blocks, "No further run is asked for."]
    asked = (f"Question: {_text(run.purpose)}", f"Change: {_text(run.change)}")
    return [*blocks, f"Next, a run of kind {run.kind}: {_text(run.title)}", _bullets(asked)]


def _concluded(entry: Concluded) -> list[str]:
    of = "" if entry.attempt is None else f", attempt {entry.attempt}"
    became = "was scored" if entry.status == "scored" else "failed"
    if entry.left:
        became = "was left undecided below the full budget"
    blocks = ["## In the end", f"The idea {became}{of}."]
    if entry.values:
        blocks.append(_values(entry.values))
    return [*blocks, *([_said(entry.reason)] if entry.reason else [])]


def _values(values: Values) -> str:
    return _bullets(
        f"{_text(name)}: {quoted.figures(found)}" for name, found in values.items()
    ) or ("No figures.")


def _of(attempt: int, latest: int | None) -> str:
    return "" if attempt == latest else f" of attempt {attempt}"


def _purpose(purpose: str, run: int) -> str:
    shown = _PURPOSES.get(purpose) or plain(purpose, _TITLE)
    return f"{shown}, further run {run}" if run else shown


def _count(lines: int) -> str:
    return "1 line" if lines == 1 else f"{lines} lines"


def _said(text: str) -> str:
    """Return what a model or a program said, as a Markdown quotation."""
    return f"> {_text(text) or '…'}"


def _text(text: str) -> str:
    return plain(text, _TEXT)


def _bullets(lines: Iterable[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def _lines(text: str) -> list[str]:
    return text.removesuffix("\n").split("\n") if text else []
