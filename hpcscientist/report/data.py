"""A campaign's view as JSON values, as the report's page reads them.

Rows of `results` are embedded as `hpcsci results --format json` prints them. What there is much of
(ideas, trials) is laid out by columns, and names that repeat are numbers into a list.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, Final

from hpcscientist.files.text import printable
from hpcscientist.launching.costs.spending import Spending
from hpcscientist.views.campaign import CampaignView
from hpcscientist.views.manuscripts import ManuscriptView
from hpcscientist.views.papers import PaperUse
from hpcscientist.views.provenance import Source
from hpcscientist.views.timeline import TrialSpan, lanes

PACK: Final = 100  # ideas whose cards are unpacked together


def data(
    view: CampaignView,
    papers: Sequence[PaperUse],
    found: Sequence[Source],
    manuscripts: Sequence[ManuscriptView],
) -> dict[str, Any]:
    """Return what the page draws, but for rows and cards, for `as_json`. Times: seconds since the
    launch.
    """
    zero = view.timeline.first or 0.0
    # A running campaign goes on until now, another one until the last thing that happened.
    until = view.read_at if view.is_driven else (view.timeline.last or zero)
    trials, nodes = _trials(view.trials, zero)
    config = view.config
    return {
        "id": view.state.campaign_id,
        "pack": PACK,
        "unit": view.best.unit,
        "span": _rounded(until - zero),
        "version": config.package_version,
        "recipe_hash": config.recipe_hash,
        "data_hash": config.data_hash,
        "metric": {"name": view.metric.name, "direction": view.metric.direction.value},
        "rule": view.summary.rule,
        "only_search": config.model_spec == "search",
        "confirms": config.settings.loop.confirm,
        "figures": figures(view.spending),
        "best": view.best,
        "ideas": _ideas(view),
        "trials": trials,
        "nodes": nodes,
        "failures": view.failures,
        "tokens": view.tokens,
        "stages": view.stages,
        "waiting": view.waiting.model_dump() if view.waiting else None,
        "contest": _contest(view),
        "papers": papers,
        "sources": found,
        "manuscripts": manuscripts,
    }


def figures(spent: Spending) -> dict[str, Any]:
    """Return what was spent in all, as the header shows it."""
    return {
        "cpu_hours": spent.cpu_hours,
        "gpu_hours": spent.gpu_hours,
        "tokens": spent.tokens,
        "serving_gpu_hours": spent.serving_gpu_hours,
        "busy": spent.busy,
        "findings": spent.found.findings,
        "improvements": spent.found.improvements,
        "confirmed": spent.found.confirmed,
    }


def as_json(value: Any) -> Any:
    """Return view models as JSON values, with null in place of numbers that no JSON holds."""
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if is_dataclass(value):
        return {part.name: as_json(getattr(value, part.name)) for part in fields(value)}
    if isinstance(value, Mapping):
        return {name: as_json(inner) for name, inner in value.items()}
    return [as_json(inner) for inner in value]


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _contest(view: CampaignView) -> dict[str, Any] | None:
    if view.contest is None:
        return None
    return {
        "whole": view.contest.whole,
        "equal": view.contest.equal,
        "curves": view.contest.curves,
        "hours": view.contest.hours,
        "words": _sentence(view.contest.lines()[1]),
    }


def _ideas(view: CampaignView) -> dict[str, Any]:
    columns: dict[str, list[Any]] = {
        "id": [idea.idea_id for idea in view.ideas],
        "number": [idea.number for idea in view.ideas],
        # The row has it, where there is one.
        "title": ["" if idea.row else idea.title for idea in view.ideas],
        "arm": [idea.arm for idea in view.ideas],
        "parents": [list(idea.parent_ids) for idea in view.ideas],
        "tokens": [idea.tokens for idea in view.ideas],
        "cpu": [_rounded(idea.cpu_s) for idea in view.ideas],
        "gpu": [_rounded(idea.gpu_s) for idea in view.ideas],
        "attempts": [
            [[a.number, a.parent, a.kind, a.outcome, a.cause] for a in idea.attempts]
            for idea in view.ideas
        ],
    }
    return _packed(columns, {"arm"})


def _trials(
    trials: Sequence[TrialSpan], zero: float
) -> tuple[dict[str, Any], list[tuple[str, int]]]:
    """Return the trials, and each node's name with how many of them ran there side by side."""
    begun = [span for span in trials if span.started is not None]
    lane_of = dict(zip(map(id, begun), lanes(begun), strict=True))
    names = sorted({span.node for span in begun})
    places = {name: place for place, name in enumerate(names)}
    most = dict.fromkeys(names, 1)
    for span in begun:
        most[span.node] = max(most[span.node], lane_of[id(span)] + 1)

    def after(time: float | None) -> float | None:
        return None if time is None else _rounded(time - zero)

    columns: dict[str, list[Any]] = {
        "id": [span.trial_id + (f" run {span.run}" if span.run > 1 else "") for span in trials],
        "idea": [span.idea_id for span in trials],
        "stage": [span.stage.value for span in trials],
        "phase": [span.phase for span in trials],
        "cause": [span.cause for span in trials],
        "node": [places[span.node] if span.started is not None else None for span in trials],
        "lane": [lane_of.get(id(span), 0) for span in trials],
        "queued": [after(span.queued) for span in trials],
        "started": [after(span.started) for span in trials],
        "ended": [after(span.ended) for span in trials],
    }
    packed = _packed(columns, {"idea", "stage", "phase", "cause"})
    return packed, [(printable(name) or "not told yet", most[name]) for name in names]


def _packed(columns: dict[str, list[Any]], repeating: Iterable[str]) -> dict[str, Any]:
    values, names = [], []
    for name, column in columns.items():
        if name in repeating:
            known = list(dict.fromkeys(column))
            place = {text: at for at, text in enumerate(known)}
            values.append([place[text] for text in column])
            names.append(known)
        else:
            values.append(column)
            names.append([])
    return {"columns": list(columns), "values": values, "names": [n or None for n in names]}


def _rounded(seconds: float) -> float:
    return round(seconds, 2)
