"""A small library in memory, and models that answer by what their prompt says."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from hpcscientist.config.settings import IDEATION, REVIEW, LiteratureSettings
from hpcscientist.errors import ReplyError
from hpcscientist.literature.ranking import Ranker, ordinals, stems
from hpcscientist.literature.survey import Surveyor
from hpcscientist.models.prompting.fitting import Window
from hpcscientist.models.role_client import RoleClient
from hpcscientist.recipe.schema import Topic
from hpcscientist.records.literature import (
    Formula,
    FormulaHit,
    Hit,
    Paper,
    SearchBy,
    Symbol,
    SymbolHit,
)
from hpcscientist.records.model_calls import ModelReply, ModelRequest

TOPIC = Topic(
    title="Point cloud classification",
    description="Name the object that a cloud of points shows.",
    inputs="a cloud of points",
    outputs="one class for the cloud",
    attributes=("supervised",),
)
ATTRIBUTES = {"inputs": "a point cloud", "outputs": "a class label", "other": ["supervised"]}
RANK = {"topic": 9, "attributes": 9, "reason": "The same task."}


def paper(number: int, title: str, abstract: str = "", **more: Any) -> Paper:
    return Paper(
        paper_id=f"arxiv:{number}", title=title, abstract=abstract, year=2020,
        source="arxiv", origin=f"dump.jsonl:{number}", **more,
    )  # fmt: skip


def rank_of(paper: int | str) -> str:
    """The key of the call that judges a paper, by its number here or its id."""
    name = f"arxiv:{paper}" if isinstance(paper, int) else paper
    return f"rank/{ordinals([name])[name]}"


CLOUDS = (
    paper(1, "PointNet", "Point cloud classification with shared layers."),
    paper(2, "VoxelBoxes", "Detection of boxes in a point cloud."),
    paper(3, "CurveNet", "Classification of a point cloud by walks along its surface."),
    paper(4, "Completer", "Completion of a partial point cloud."),
    paper(5, "Tea", "On the brewing of tea."),
)


class Shelf:
    """Papers and code in memory, found by the stems they share with a query."""

    fingerprint = "shelf"

    def __init__(self, papers: Sequence[Paper] = (), symbols: Sequence[Symbol] = ()) -> None:
        self.papers, self.code = list(papers), list(symbols)
        self.asked: list[str] = []

    def __len__(self) -> int:
        return len(self.papers)

    def search(self, query: str, limit: int = 10, by: SearchBy = "both") -> tuple[Hit, ...]:
        self.asked.append(query)
        found = _best(query, self.papers, lambda p: f"{p.title} {p.abstract}", limit)
        return tuple(
            Hit(
                paper_id=p.paper_id, title=p.title, abstract=p.abstract, year=p.year,
                origin=p.origin, score=float(score),
            )
            for score, p in found
        )  # fmt: skip

    def paper(self, paper_id: str) -> Paper | None:
        return next((p for p in self.papers if p.paper_id == paper_id), None)

    def formulas(self, query: str, limit: int = 10) -> tuple[FormulaHit, ...]:
        every = [(p, n, f) for p in self.papers for n, f in enumerate(p.formulas, start=1)]
        found = _best(query, every, lambda e: f"{e[0].title} {e[2].context}", limit)
        return tuple(
            FormulaHit(
                formula_id=f"{p.paper_id}#f{n}", paper_id=p.paper_id, title=p.title, formula=f
            )
            for _, (p, n, f) in found
        )

    def symbols(self, query: str, limit: int = 10) -> tuple[SymbolHit, ...]:
        found = _best(query, self.code, lambda s: f"{s.name} {s.docstring}", limit)
        return tuple(SymbolHit(symbol=symbol, score=float(score)) for score, symbol in found)


_stems = cache(stems)


def _best(query: str, items: Sequence[Any], text: Callable[[Any], str], limit: int) -> list[Any]:
    words = stems(query)
    scored = [(len(words & _stems(text(item))), place) for place, item in enumerate(items)]
    ranked = sorted((-score, place) for score, place in scored if score)
    return [(-score, items[place]) for score, place in ranked[:limit]]


class ScriptedModel:
    """Answers a stage by a function of the request, or by a fixed reply.

    `order` numbers the calls that are under way at once: the smaller the number, the earlier
    the answer, so that replies come in any order that a test wants.
    """

    name = "scripted"

    def __init__(
        self, script: Mapping[str, Any], order: Callable[[str], int] | None = None
    ) -> None:
        self.script, self.order = dict(script), order
        self.asked: list[ModelRequest] = []
        self.under_way = self.most = 0

    async def probe(self) -> None:
        pass

    async def complete(self, request: ModelRequest) -> ModelReply:
        self.asked.append(request)
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            for _ in range(1 + (self.order(request.key) if self.order else 0)):
                await asyncio.sleep(0)
        finally:
            self.under_way -= 1
        said = self.script.get(request.stage, "I would rather not.")
        reply = said(request) if callable(said) else said
        if isinstance(reply, Exception):
            raise reply
        return ModelReply(
            text=reply if isinstance(reply, str) else json.dumps(reply), model=self.name,
            prompt_tokens=1, completion_tokens=1, tokens_estimated=True, latency_s=0.0,
        )  # fmt: skip

    async def close(self) -> None:
        pass

    def keys(self) -> list[str]:
        return [request.key for request in self.asked]

    def prompt(self, key: str) -> str:
        (request,) = [request for request in self.asked if request.key == key]
        return request.messages[0].content


def material(request: ModelRequest) -> str:
    """What a rank prompt fences: title and abstract of its paper."""
    return request.messages[0].content.partition("## The paper")[2].partition("## How to")[0]


def by_subject(request: ModelRequest) -> dict[str, Any]:
    """Scores as a careful reader would give them to the papers of CLOUDS."""
    text = material(request).casefold()
    topic = 9 if "point cloud" in text else 2
    return {
        "topic": topic,
        "attributes": 9 if "classification" in text else 3,
        "reason": "By what it returns.",
    }


SCRIPT: dict[str, Any] = {
    "attributes": ATTRIBUTES,
    "queries": {"queries": ["point cloud", "tea"]},
    "rank": by_subject,
}


def surveyor(
    model: Any,
    library: Any,
    settings: LiteratureSettings | None = None,
    ranker: Ranker | None = None,
    context: int = 0,
) -> Surveyor:
    return Surveyor(
        RoleClient(model, "ideation", IDEATION, 7, Window(context)),
        RoleClient(model, "review", REVIEW, 7, Window(context)),
        library,
        settings or LiteratureSettings(),
        ranker,
    )


def refused(_: ModelRequest) -> Exception:
    return ReplyError("refused")


def formula(text: str, context: str) -> Formula:
    return Formula(text=text, context=context)


def symbol(name: str, docstring: str = "", code: str = "pass", file: str = "net.py") -> Symbol:
    return Symbol(
        repository="ref", file=file, first_line=3, last_line=9, name=name, kind="function",
        signature=f"def {name}()", docstring=docstring, code=code,
    )  # fmt: skip
