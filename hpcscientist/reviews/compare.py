"""`hpcsci compare`: compares two papers with any number of judges (AI-Researcher, arXiv 2505.18705,
A.7 and A.8).

Each judge compares several times, every other time with the papers in the other order. A rating of
the first paper runs from -3 to 3. The model is asked for 1 to 7, so that the expectation is known
if the server returns log-probabilities.
"""

from __future__ import annotations

import asyncio
import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import ClassVar, Final

from pydantic import Field

from hpcscientist.config.settings import Settings
from hpcscientist.errors import ReplyError
from hpcscientist.feedback.statistics import wilson
from hpcscientist.files.atomic import write_json, write_text
from hpcscientist.files.rundir import ReviewPaths
from hpcscientist.files.text import one_line
from hpcscientist.literature.material import together
from hpcscientist.models.prompting.fitting import of_template
from hpcscientist.models.role_client import UNANSWERED, CallPurpose, RoleClient, Roles
from hpcscientist.ports import Tell
from hpcscientist.records.base import Prose, Record, Scored
from hpcscientist.records.reviews import (
    AspectResult,
    JudgeResult,
    Mark,
    Measure,
    PaperComparison,
    Sample,
)
from hpcscientist.reviews import page
from hpcscientist.reviews.paper import PaperText
from hpcscientist.reviews.reading import Ask, PaperReader, Shown, Subject
from hpcscientist.reviews.review import held, key_of, number_of
from hpcscientist.reviews.reviewer import judge_client, open_judge, t_interval

ASPECTS: Final = (
    ("innovation", "How new and original its contributions are, beside the other paper's."),
    ("rigor", "How sound and complete its theory and methods are."),
    ("validation", "How well its experiments are designed, and how far they support its claims."),
    ("overall", "Which paper contributes more to science, all in all."),
)
COMPARABLE: Final = -1  # the lowest rating at which the first paper counts as comparable
_MIDDLE: Final = 4  # on the scale of 1 to 7: neither is better
_SECOND: Final = 500  # ordinals of notes on the second paper, after those on the first

Seven = Field(ge=1, le=7)


class CompareReply(Scored):
    """The reply schema of stage `compare`."""

    highest: ClassVar[int] = 7
    reason: Prose = Field(min_length=1)
    innovation: int = Seven
    rigor: int = Seven
    validation: int = Seven
    overall: int = Seven


@dataclass(frozen=True, slots=True)
class ComparisonOptions:
    """Options of a comparison. `judges` are SPECs; (): only the settings' reviewer."""

    settings: Settings
    out: Path
    judges: tuple[str, ...] = ()
    samples: int = 16
    temperature: float = 1.0
    paths: tuple[Path, ...] = ()
    tell: Tell = field(default=lambda _: None)


class ComparisonRequest(Record):
    """`asked.json`: the request of a comparison."""

    version: int = 1
    first: str
    second: str
    sha256: tuple[str, str]
    judges: tuple[str, ...]
    temperature: float
    seed: int


def compare(first: PaperText, second: PaperText, wanted: ComparisonOptions) -> PaperComparison:
    """Compare two papers, or resume a comparison that was interrupted.

    Raises ModelError, UsageError, CampaignBusy, DiskFull, RunDirectoryError.
    """
    specs = wanted.judges or ("",)
    judges = [open_judge(wanted.settings, spec, wanted.paths) for spec in specs]
    asked = ComparisonRequest(
        first=first.name,
        second=second.name,
        sha256=(first.sha256, second.sha256),
        judges=tuple(roles.name for roles in judges),
        temperature=wanted.temperature,
        seed=wanted.settings.seed,
    )
    name = f"{first.name}-beside-{second.name}"
    paths = ReviewPaths(wanted.out / f"{name[:80]}-{key_of(asked.model_dump_json())}")
    paths.root.mkdir(parents=True, exist_ok=True)
    with held(paths):
        write_json(paths.asked, json.loads(asked.model_dump_json()))
        results = asyncio.run(_all(judges, first, second, wanted, paths))
        made = PaperComparison(
            comparison_id=paths.root.name,
            first=first.name,
            second=second.name,
            sha256=asked.sha256,
            judges=tuple(results),
            aspects=over_judges(results),
            findings={first.name: first.findings, f"{second.name} ": second.findings}
            if first.name == second.name
            else {first.name: first.findings, second.name: second.findings},
        )
        write_json(paths.comparison, json.loads(made.model_dump_json()))
        write_text(paths.page, page.of_comparison(made))
        wanted.tell(f"compared, {paths.comparison}")
    return made


async def _all(
    judges: Sequence[Roles],
    first: PaperText,
    second: PaperText,
    wanted: ComparisonOptions,
    paths: ReviewPaths,
) -> list[JudgeResult]:
    try:
        tasks = [
            partial(_judge, roles, first, second, wanted, paths.judge(number))
            for number, roles in enumerate(judges, start=1)
        ]
        return list(await together(tasks))
    finally:
        for roles in judges:
            await roles.close()


async def _judge(
    roles: Roles, first: PaperText, second: PaperText, wanted: ComparisonOptions, paths: ReviewPaths
) -> JudgeResult:
    await roles.probe()
    paths.root.mkdir(parents=True, exist_ok=True)
    at = judge_client(roles, paths, wanted.settings, wanted.temperature)
    subject = Subject(first.name, number_of(first.name))
    shown = await _shown(at.client, subject, first, second, paths)
    numbers = range(1, wanted.samples + 1)
    found = await together([partial(_sample, at.client, subject, shown, n) for n in numbers])
    samples = [one for one in found if isinstance(one, Sample)]
    lost = [one for one in found if isinstance(one, str)]
    if not samples:
        raise ReplyError(f"{roles.name}: no comparison could be used: {lost[0]}")
    return JudgeResult(
        judge=roles.name,
        models=at.tally.models,
        samples=tuple(samples),
        lost=tuple(lost),
        aspects={name: result(samples, name) for name, _ in ASPECTS},
        effort=at.tally.effort,
    )


async def _shown(
    client: RoleClient, subject: Subject, first: PaperText, second: PaperText, paths: ReviewPaths
) -> tuple[Shown, Shown]:
    """Return both papers as they fit into one prompt; the longer one is read by parts first."""
    both = {1: Shown(first.text), 2: Shown(second.text)}
    order = (1, 2) if len(first.text) >= len(second.text) else (2, 1)
    for number in order:
        other = both[3 - number]

        def ask(shown: Shown, number: int = number, other: Shown = other) -> Ask:
            beside = shown if other.parts == 1 else other  # half of the room is for the other
            return _ask(*((shown, beside) if number == 1 else (beside, shown)))

        if await client.fits(*_ask(both[1], both[2])):
            break
        paper = first if number == 1 else second
        record = paths.root / f"reading-{number}.json"
        reader = PaperReader(client, subject, record, 1 if number == 1 else 1 + _SECOND)
        both[number] = await reader.shown(paper, ask)
    return both[1], both[2]


def _ask(first: Shown, second: Shown) -> Ask:
    prompt = of_template(
        "compare",
        (),
        first=first.text,
        second=second.text,
        first_parts=first.parts,
        second_parts=second.parts,
        aspects=ASPECTS,
    )
    return CompareReply, prompt


async def _sample(
    client: RoleClient, subject: Subject, shown: tuple[Shown, Shown], number: int
) -> Sample | str:
    """Return one comparison; even numbers show the papers in the other order."""
    swapped = number % 2 == 0
    _, prompt = _ask(*(shown[::-1] if swapped else shown))
    # Both samples of a pair share a seed, so that they differ only in the order.
    call = CallPurpose(subject.name, subject.number, "compare", number, sample=(number + 1) // 2)
    try:
        reply = await client.ask(call, CompareReply, prompt)
    except UNANSWERED as error:
        return one_line(f"sample {number}: {error}")
    return Sample(
        number=number,
        swapped=swapped,
        marks={name: _mark(reply, name, swapped) for name, _ in ASPECTS},
        reason=reply.reason,
    )


def _mark(reply: CompareReply, name: str, swapped: bool) -> Mark:
    sign = -1 if swapped else 1
    odds = reply.odds(name)
    kept = odds.within(1, reply.highest) if odds is not None else None
    return Mark(
        sampled=sign * (getattr(reply, name) - _MIDDLE),
        expected=None if kept is None else sign * (kept.mean - _MIDDLE),
    )


def result(samples: Sequence[Sample], aspect: str) -> AspectResult:
    """Return the result of a judge's samples in one aspect.

    Means are over swapped pairs, so that both orders weigh the same. A sample without its pair only
    counts in the comparable share. The intervals are about this judge and these two papers: they
    say what more samples would give.
    """
    by_number = {sample.number: sample for sample in samples}
    pairs = [
        (by_number[n].marks[aspect], by_number[n + 1].marks[aspect])
        for n in sorted(by_number)
        if n % 2 and n + 1 in by_number
    ]
    marks = [sample.marks[aspect] for sample in samples]
    sampled = [(one.sampled + other.sampled) / 2 for one, other in pairs]
    expected = [
        (one.expected + other.expected) / 2
        for one, other in pairs
        if one.expected is not None and other.expected is not None
    ]
    alike = sum(_sign(one.sampled) == _sign(other.sampled) for one, other in pairs)
    gains = [(one.value - other.value) / 2 for one, other in pairs]
    near = sum(mark.sampled >= COMPARABLE for mark in marks)
    return AspectResult(
        rating=mean(sampled),
        expected=mean(expected) if len(expected) == len(pairs) else Measure(value=None),
        comparable=Measure(
            value=near / len(marks), interval=wilson(near, len(marks)), count=len(marks)
        ),
        consistency=Measure(
            value=alike / len(pairs), interval=wilson(alike, len(pairs)), count=len(pairs)
        )
        if pairs
        else Measure(value=None),
        position=mean(gains),
    )


def over_judges(results: Sequence[JudgeResult]) -> dict[str, AspectResult]:
    """Return each aspect over judges: means of the judges' results, with t intervals.

    The intervals treat the judges as the sample.
    """
    return {
        name: AspectResult(
            **{
                kind: mean(
                    [
                        value
                        for judge in results
                        if (value := getattr(judge.aspects[name], kind).value) is not None
                    ]
                )
                for kind in AspectResult.model_fields
            }
        )
        for name, _ in ASPECTS
    }


def mean(values: Sequence[float]) -> Measure:
    """Return a mean with its t interval; its value is None if there are no values."""
    if not values:
        return Measure(value=None)
    return Measure(value=statistics.fmean(values), interval=t_interval(values), count=len(values))


def _sign(value: float) -> int:
    return (value > 0) - (value < 0)
