"""A small campaign's facts, a small library and a model that writes by a script."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hpcscientist.config.settings import PapersSettings, RoleSettings
from hpcscientist.models.role_client import RoleClient
from hpcscientist.papers.writing.advice import ABSTRACT_ADVICE, SectionAdvice, advice_on
from hpcscientist.papers.writing.brief import PaperBrief
from hpcscientist.papers.writing.drafts import FigureOffer
from hpcscientist.papers.writing.writer import Build, Check, Writer, WrittenManuscript
from hpcscientist.ports import Model
from hpcscientist.records.facts import (
    Fact,
    FactIdea,
    FactKind,
    FactMetric,
    FactSheet,
    Scope,
    Statistic,
)
from hpcscientist.records.findings import Verdict
from hpcscientist.records.literature import Hit, Paper, SearchBy
from hpcscientist.records.manuscript import (
    Defect,
    DefectCode,
    Manuscript,
    Number,
    PaperScope,
    Place,
    Text,
    lines,
    walk,
)
from hpcscientist.records.model_calls import ModelReply, ModelRequest
from hpcscientist.records.trial import Direction, Split

IDEA = "idea-0001"


def fact(name: str, value: float, text: str, kind: FactKind, **scope: Any) -> Fact:
    label = re.sub(r"\W?\d+", "", name).replace(".", " ")
    return Fact(id=name, label=label, kind=kind, value=value, text=text,
                scope=Scope(**scope))  # fmt: skip


def _measured(idea: str, split: Split, statistic: Statistic, value: float, **scope: Any) -> Fact:
    kind = {Statistic.INTERVAL: FactKind.INTERVAL, Statistic.P_ADJUSTED: FactKind.P_VALUE}
    name = f"{idea}.{split}.accuracy.{statistic}"
    return fact(name, value, str(value), kind.get(statistic, FactKind.METRIC), idea=idea,
                split=split, metric="accuracy", statistic=statistic, **scope)  # fmt: skip


STATISTICS = (
    Statistic.MEAN,
    Statistic.DELTA,
    Statistic.INTERVAL,
    Statistic.P_ADJUSTED,
    Statistic.SD,
)
SHEET = FactSheet(
    campaign_id="digits-00000000",
    recipe="digits",
    metrics=(FactMetric(name="accuracy", direction=Direction.MAXIMIZE, share=True),),
    ideas=(
        FactIdea(idea_id="baseline", title="The reference", status="baseline"),
        FactIdea(idea_id=IDEA, title="Momentum", status="scored", verdict=Verdict.IMPROVEMENT,
                 confirmed=True, attempt=1),
        FactIdea(idea_id="idea-0002", title="Strong decay", status="scored",
                 verdict=Verdict.DECLINE, attempt=1),
        FactIdea(idea_id="idea-0003", title="Elastic nets", status="failed", reason="timeout"),
    ),
    names=("CIFAR-100",),
    facts=(
        *(_measured(i, split, s, v)
          for i, v in ((IDEA, 0.97), ("baseline", 0.93), ("idea-0002", 0.9))
          for split in (Split.VALIDATION, Split.TEST)
          for s in STATISTICS),
        _measured(IDEA, Split.TEST, Statistic.BEST, 0.98),
        fact("campaign.ideas.proposed", 3, "3", FactKind.COUNT, of="proposed"),
        fact("campaign.ideas.failed", 1, "1", FactKind.COUNT, of="failed"),
        fact("recipe.data.train.rows", 997, "997", FactKind.SIZE, of="train"),
        fact(f"{IDEA}.MOMENTUM", 0.9, "0.9", FactKind.HYPERPARAMETER, idea=IDEA),
    ),
)  # fmt: skip

PAPERS = (
    Paper(paper_id="title:aa", title="On momentum", authors=("Sutskever, Ilya", "Martens, James"),
          year=2013, source="bibtex", origin="refs.bib:1",
          abstract="Momentum trains deep networks well. The velocity accumulates consistent "
                   "gradient directions of earlier steps."),
    Paper(paper_id="doi:10.1/x", title="Weight decay", authors=("Anders Krogh",), year=1991,
          source="bibtex", origin="refs.bib:9",
          abstract="A penalty on the squared weights suppresses what the data do not determine."),
    Paper(paper_id="title:cc", title="Without a word", source="bibtex", origin="refs.bib:20"),
)  # fmt: skip


class Shelf:
    """A library of three papers; every search finds those that share a word, in their order."""

    fingerprint = "shelf"

    def __init__(self, papers: Sequence[Paper] = PAPERS) -> None:
        self.papers = papers
        self.queries: list[str] = []

    def __len__(self) -> int:
        return len(self.papers)

    def search(self, query: str, limit: int = 10, by: SearchBy = "both") -> tuple[Hit, ...]:
        self.queries.append(query)
        words = set(re.findall(r"\w{4,}", query.lower()))
        found = [p for p in self.papers if words & set(re.findall(r"\w{4,}", p.title.lower()))]
        return tuple(
            Hit(paper_id=p.paper_id, title=p.title, abstract=p.abstract, year=p.year,
                origin=p.origin, score=1.0) for p in found[:limit]
        )  # fmt: skip

    def paper(self, paper_id: str) -> Paper | None:
        return next((p for p in self.papers if p.paper_id == paper_id), None)

    def formulas(self, query: str, limit: int = 10) -> tuple[()]:
        return ()

    def symbols(self, query: str, limit: int = 10) -> tuple[()]:
        return ()


BRIEF = PaperBrief(
    subject=IDEA, number=1, scope=PaperScope(campaign_id=SHEET.campaign_id, ideas=(IDEA,)),
    title="Momentum", topic="Tell digits apart.", fields=(("Method", "A velocity."),),
    query="Momentum. A velocity.", papers=("title:aa",),
)  # fmt: skip
FIGURES = (FigureOffer("forest", "effects with intervals", "Effects of all ideas."),)


class _Wanted:
    def __init__(self, name: str) -> None:
        self.id, self.title, self.advice = name, name.replace("-", " ").capitalize(), ""


NAMES = ("introduction", "related-work", "method", "results", "limitations")
SECTIONS = advice_on(tuple(map(_Wanted, NAMES)), 0)
EVERY = (*SECTIONS, ABSTRACT_ADVICE)
NUMBERS = {section.id: section.number for section in EVERY}


def advice(name: str) -> SectionAdvice:
    return next(section for section in SECTIONS if section.id == name)


def walls(manuscript: Manuscript) -> list[Defect]:
    """The two simplest walls: no digit is typed, and every number is a fact."""
    known = SHEET.by_id
    found = list[Defect]()
    for place, line in lines(manuscript):
        for part in walk(line):
            if isinstance(part, Text) and (digits := re.search(r"\d[\d.]*", part.text)):
                found.append(_defect(DefectCode.TYPED_NUMBER, place, digits[0]))
            if isinstance(part, Number):
                found += [
                    _defect(DefectCode.UNKNOWN_FACT, place, name)
                    for name in part.ref.ids
                    if name not in known
                ]
    return found


def _defect(code: DefectCode, place: Place, found: str) -> Defect:
    return Defect(code=code, place=place, found=found, fix="write the id of a fact")


TEXTS = {
    "introduction": "The accuracy of idea-one is {idea-0001.test.accuracy.mean} on test.",
    "related-work": "A velocity gathers gradient directions [@sutskever2013#2]. It is old.",
    "method": "The velocity keeps {idea-0001.MOMENTUM} of itself.",
    "results": "The effect is {idea-0001.test.accuracy.delta}, see [#forest].",
    "limitations": "One of the ideas failed.",
    "abstract": "The effect on test is {idea-0001.test.accuracy.delta}.",
}
OUTLINE = {
    "title": "A velocity for small networks",
    "contribution": "Momentum helps.",
    "sections": [
        {"section": name, "points": [f"About {name}."],
         "figures": ["forest"] if name == "results" else []}
        for name in NAMES
    ],
}  # fmt: skip
Answers = Mapping[str, Any]


def section(text: str, **captions: str) -> dict[str, Any]:
    return {
        "paragraphs": [text],
        "captions": [{"figure": f, "caption": c} for f, c in captions.items()],
    }


def usual(request: ModelRequest) -> dict[str, Any]:
    """What a good writer replies."""
    name = next((n for n, number in NUMBERS.items() if number == request.ordinal // 100), "")
    match request.stage:
        case "outline":
            return OUTLINE
        case "related":
            keep = [{"evidence": "sutskever2013#2", "section": "related-work", "use": "velocity"}]
            return {"keep": keep if request.ordinal == 1 else [], "query": "weight decay",
                    "done": request.ordinal > 1}  # fmt: skip
        case "checklist":
            questions = next(a for a in EVERY if a.number == request.ordinal).checklist
            return {"answers": [{"question": q.id, "met": True} for q in questions]}
        case "whole":
            return {"remarks": []}
        case _:
            return section(TEXTS[name])


class Script:
    """A model that answers by a function of the request, and remembers what it was asked."""

    name = "script"

    def __init__(self, *answers: Callable[[ModelRequest], dict[str, Any] | str | None]) -> None:
        self.answers = answers
        self.asked: list[ModelRequest] = []

    async def probe(self) -> None: ...

    async def close(self) -> None: ...

    async def complete(self, request: ModelRequest) -> ModelReply:
        self.asked.append(request)
        found = (answer(request) for answer in (*self.answers, usual))
        value = next(answer for answer in found if answer is not None)
        text = value if isinstance(value, str) else json.dumps(value)
        return ModelReply(text=text, model=self.name, prompt_tokens=10, completion_tokens=5,
                          tokens_estimated=False, latency_s=0.0)  # fmt: skip

    def calls(self, stage: str = "") -> list[str]:
        return [request.key for request in self.asked if stage in ("", request.stage)]


def only(key: str, reply: Any) -> Callable[[ModelRequest], Any]:
    """Answer one call by its key."""
    return lambda request: reply if request.key == key else None


def writer(
    model: Model,
    check: Check = walls,
    build: Build | None = None,
    *,
    library: Any = None,
    brief: PaperBrief = BRIEF,
    told: list[str] | None = None,
    context: int = 0,
    **settings: Any,
) -> Writer:
    """Whoever writes the small campaign's paper, by a model."""
    role = RoleSettings(temperature=0.4, context=context, max_tokens=600)
    heard = [] if told is None else told
    return Writer(
        client=RoleClient(model, "writing", role, 7),
        judge=RoleClient(model, "review", role, 7),
        brief=brief,
        sheet=SHEET,
        library=Shelf() if library is None else library,
        sections=SECTIONS,
        figures=FIGURES,
        check=check,
        settings=PapersSettings(**settings),
        build=build,
        tell=heard.append,
    )


def written(
    model: Model, check: Check = walls, build: Build | None = None, **more: Any
) -> WrittenManuscript:
    """Have a model write the small campaign's paper."""
    return asyncio.run(writer(model, check, build, **more).write())
