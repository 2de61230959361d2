"""`hpcsci bench review --planted`: measures which planted errors a model finds, and its false
alarms.

An error is found if the model quotes the sentence that contains it, whatever kind it names. An
alarm on the sentence in the same place of the clean twin counts against it. Both are reported by
kind, and separately for the checks that need no model.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, Literal

from pydantic import Field

from hpcscientist.errors import UsageError
from hpcscientist.feedback.statistics import wilson
from hpcscientist.files.atomic import write_json
from hpcscientist.files.rundir import ReviewPaths
from hpcscientist.literature.material import together
from hpcscientist.models.prompting.fitting import of_template
from hpcscientist.models.role_client import UNANSWERED, CallPurpose
from hpcscientist.records.base import Prose, Record
from hpcscientist.records.reviews import Measure
from hpcscientist.reviews import paper
from hpcscientist.reviews.page import measure as shown
from hpcscientist.reviews.paper import PaperText
from hpcscientist.reviews.planted.errors import PLANTERS, Planted, plant
from hpcscientist.reviews.reading import Ask, PaperReader, Shown, Subject
from hpcscientist.reviews.review import ReviewOptions, held, key_of
from hpcscientist.reviews.reviewer import judge_client, open_judge

# Checks of a paper's text that need no model: contradictions and citations without a source.


_NUMBER = re.compile(r"(?<![\w-])[+-]?\d+(?:[.,]\d+)*%?")  # not in names such as idea-0001
_CLAUSE = re.compile(r"[^.;:!?\n]+(?:\.\d+[^.;:!?\n]*)*")
_CITED = re.compile(r"\[(\d{1,3}(?:\s*[,;]\s*\d{1,3})*)\]")
_HEADING = re.compile(r"^## .*(?:references|bibliography).*$", re.I | re.M)
_ENTRY = re.compile(r"^\s*\[(\d{1,3})\]", re.M)
_WORDS = 6  # fewest equal words: shorter clauses say too little ("against 0.9 of the baseline")


def alarms(text: str) -> list[str]:
    """Return the passages that contradict others, or cite an unlisted source."""
    return [*dict.fromkeys([*_contradictions(text), *_unlisted(text)])]


def _contradictions(text: str) -> Iterator[str]:
    """Yield clauses that differ only in their numbers."""
    told: dict[str, dict[tuple[str, ...], str]] = defaultdict(dict)
    for clause in _CLAUSE.findall(text):
        for part in clause.split(", "):
            numbers = tuple(_NUMBER.findall(part))
            words = " ".join(_NUMBER.sub("#", part).lower().split())
            if numbers and len(words.split()) - len(numbers) >= _WORDS:
                told[words].setdefault(numbers, " ".join(part.split()))
    for of in told.values():
        if len(of) > 1:
            yield from of.values()


def _unlisted(text: str) -> Iterator[str]:
    heading = list(_HEADING.finditer(text))
    if not heading:
        return
    body, listed = text[: heading[-1].start()], text[heading[-1].end() :]
    known = set(_ENTRY.findall(listed))
    for clause in _CLAUSE.findall(body):
        cited = {n for found in _CITED.findall(clause) for n in re.findall(r"\d+", found)}
        if known and cited - known:
            yield " ".join(clause.split())


_HOME: Final = Path(__file__).resolve().parent / "papers"
_OVERLAP: Final = 0.6  # least share of the shorter text's words
_LEAST: Final = 4  # fewest words of a quote
Kind = Literal[
    "swapped numbers", "dropped seeds", "leaked test", "wrong baseline", "missing ablation",
    "overclaim", "invented citation", "other",
]  # fmt: skip


class ErrorFound(Record):
    """An error that a model names; part of a reply."""

    kind: Kind
    quote: Prose = Field(min_length=1, description="The sentence that has it, word for word.")
    why: Prose = Field(min_length=1)


class ErrorsReply(Record):
    """The reply schema of stage `errors`."""

    errors: tuple[ErrorFound, ...] = ()


class Outcome(Record):
    """The result for one planted error: found, named by its kind, and alarms on the clean twin."""

    paper: str
    kind: str
    found: bool
    named: bool
    false_alarm: bool
    alarms_on_twin: int


class Rates(Record):
    """Shares of outcomes. `strict`: found, and no alarm on the change in the twin."""

    recall: Measure
    named: Measure
    strict: Measure
    false_alarms: Measure
    alarms_a_twin: float


class PlantedReport(Record):
    """What was found, by a model and without one. `lost` names errors without a usable reply."""

    models: tuple[str, ...]
    papers: tuple[str, ...]
    model: dict[str, Rates]
    without_model: dict[str, Rates]
    outcomes: tuple[Outcome, ...]
    lost: tuple[str, ...] = ()


def measure(places: Sequence[Path], wanted: ReviewOptions, limit: int = 0) -> PlantedReport:
    """Plant errors in papers and measure which a model finds; resume an interrupted run.

    Without papers, use this package's. Raises UsageError, ModelError, OSError.
    """
    papers = [paper.read(place) for place in places or sorted(_HOME.glob("*.md"))]
    planted = [one for of in papers for one in plant(of)]
    planted = planted[: limit or None]
    if not planted:
        raise UsageError("no error can be planted: the papers have no sections that could hold one")
    found, models, lost = asyncio.run(_asked(planted, wanted))
    named = tuple(dict.fromkeys(one.paper for one in planted))
    plain = [_outcome(one, _plain(one.broken), _plain(one.clean)) for one in planted]
    return PlantedReport(
        models=models,
        papers=named,
        model=_by_kind(found),
        without_model=_by_kind(plain),
        outcomes=tuple(found),
        lost=tuple(lost),
    )


@dataclass(frozen=True, slots=True)
class _Alarm:
    kind: str
    quote: str


async def _asked(
    planted: Sequence[Planted], wanted: ReviewOptions
) -> tuple[list[Outcome], tuple[str, ...], list[str]]:
    roles = open_judge(wanted.settings, wanted.model, ())
    told = "\0".join([roles.name, str(wanted.temperature), str(wanted.settings.seed)])
    paths = ReviewPaths(wanted.out / f"planted-{key_of(told)}")
    paths.root.mkdir(parents=True, exist_ok=True)
    try:
        await roles.probe()
        with held(paths):
            at = judge_client(roles, paths, wanted.settings, wanted.temperature)

            async def alarms(text: str) -> list[_Alarm] | None:
                ordinal = int(hashlib.sha256(text.encode()).hexdigest()[:7], 16) + 1
                subject = Subject("planted", 0)
                of = PaperText("planted", "", paper.of_text("planted", text).sections, "")
                record = paths.root / f"reading-{ordinal}.json"
                shown_as = await PaperReader(at.client, subject, record, ordinal).shown(of, _ask)
                call = CallPurpose(subject.name, subject.number, "errors", ordinal)
                try:
                    reply = await at.client.ask(call, ErrorsReply, _ask(shown_as)[1])
                except UNANSWERED:
                    return None
                return [_Alarm(error.kind, error.quote) for error in reply.errors]

            texts = list(dict.fromkeys(t for one in planted for t in (one.broken, one.clean)))
            answers = await together([partial(alarms, text) for text in texts])
    finally:
        await roles.close()
    by_text = dict(zip(texts, answers, strict=True))
    found, lost = list[Outcome](), list[str]()
    for one in planted:
        broken, clean = by_text[one.broken], by_text[one.clean]
        if broken is None or clean is None:
            lost.append(f"{one.paper}, {one.kind}")
        else:
            found.append(_outcome(one, broken, clean))
    write_json(paths.root / "planted.json", [o.model_dump(mode="json") for o in found])
    return found, at.tally.models, lost


def _ask(of: Shown) -> Ask:
    return ErrorsReply, of_template("errors", (), paper=of.text, count=of.parts)


def _plain(text: str) -> list[_Alarm]:
    return [_Alarm("other", quote) for quote in alarms(text)]


def _outcome(one: Planted, broken: Sequence[_Alarm], clean: Sequence[_Alarm]) -> Outcome:
    hits = [alarm for alarm in broken if overlaps(alarm.quote, one.error)]
    return Outcome(
        paper=one.paper,
        kind=one.kind,
        found=bool(hits),
        named=any(alarm.kind == one.kind for alarm in hits),
        false_alarm=any(overlaps(alarm.quote, one.change) for alarm in clean),
        alarms_on_twin=len(clean),
    )


def overlaps(quote: str, sentence: str) -> bool:
    """Return whether a quote matches a sentence: most words of the shorter are in the other, in
    order.
    """
    one, other = _words(quote), _words(sentence)
    shorter, longer = sorted((one, other), key=len)
    if len(shorter) < _LEAST:
        return False
    at = shared = 0
    for word in shorter:
        if word in longer[at:]:
            at = longer.index(word, at) + 1
            shared += 1
    return shared >= _OVERLAP * len(shorter)


def _words(text: str) -> list[str]:
    return re.findall(r"[a-z]+|\d+(?:[.,]\d+)*", text.lower())


def _by_kind(outcomes: Sequence[Outcome]) -> dict[str, Rates]:
    groups: Mapping[str, list[Outcome]] = {
        kind: [o for o in outcomes if o.kind == kind] for kind in PLANTERS
    }
    return {kind: _rates(of) for kind, of in {**groups, "all": list(outcomes)}.items() if of}


def _rates(of: Sequence[Outcome]) -> Rates:
    def share(holds: Callable[[Outcome], bool]) -> Measure:
        count = sum(map(holds, of))
        return Measure(value=count / len(of), interval=wilson(count, len(of)), count=len(of))

    return Rates(
        recall=share(lambda o: o.found),
        named=share(lambda o: o.named),
        strict=share(lambda o: o.found and not o.false_alarm),
        false_alarms=share(lambda o: o.false_alarm),
        alarms_a_twin=sum(o.alarms_on_twin for o in of) / len(of),
    )


def lines(report: PlantedReport) -> Iterator[str]:
    """Yield the report as text: a row for each kind, with a model and without one."""
    yield f"{', '.join(report.models)}; errors planted in {', '.join(report.papers)}"
    for title, group in (("by the model", report.model), ("without a model", report.without_model)):
        yield f"{title:20}{'found':20}{'called right':20}{'found, twin quiet':20}alarms a twin"
        for kind, of in group.items():
            cells = "".join(f"{shown(cell):20}" for cell in (of.recall, of.named, of.strict))
            yield f"{kind:20}{cells}{of.alarms_a_twin:.2f}"
    for text in report.lost:
        yield f"lost: {text}"
