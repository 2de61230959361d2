"""Compares campaigns side by side: what each found, in total and at equal cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Literal

from hpcscientist.feedback.statistics import wilson
from hpcscientist.judgement.arm_comparison import search_hours, within
from hpcscientist.records.findings import ResultRow, Verdict
from hpcscientist.views.campaign import CampaignView, best_row


@dataclass(frozen=True, slots=True)
class CampaignPart:
    """The results of some ideas of a campaign.

    `share` is the share of ideas that improved, with its 95% interval (Wilson), or None without
    ideas. `best` is the best of them (see `views.campaign.best_row`).
    """

    ideas: int
    improved: int
    share: tuple[float, float, float] | None
    confirmed: int
    hours: float
    tokens: int
    best: ResultRow | None


@dataclass(frozen=True, slots=True)
class Side:
    """One campaign. `curve` is, after each idea: hours spent, improvements, best gain so far.

    A gain is positive if the idea is better, whatever the metric's direction.
    """

    folder: str
    name: str
    model: str
    recipe: str
    state: str
    rule: str
    whole: CampaignPart
    equal: CampaignPart
    curve: tuple[tuple[float, int, float], ...]


@dataclass(frozen=True, slots=True)
class ComparisonView:
    """Campaigns in the given order.

    `hours` is the cost of the campaign that spent least; each side's `equal` covers its first ideas
    within that cost. `differing` are the settings and origins that differ, by name, with one value
    for each campaign. `cautions` say what cannot be compared.
    """

    sides: tuple[Side, ...]
    hours: float
    unit: Literal["CPU-hours", "GPU-hours"]
    metric: str
    differing: Mapping[str, tuple[str, ...]]
    cautions: tuple[str, ...]


def compare(views: Sequence[CampaignView]) -> ComparisonView:
    """Compare campaigns. Hours are those of the search, without baseline and test split."""
    on_gpus = any(view.best.unit == "GPU-hours" for view in views)
    place = 1 if on_gpus else 0
    hours = [
        {idea: used[place] for idea, used in search_hours(view.state).items()} for view in views
    ]
    least = min(
        sum(own.get(row.idea_id, 0.0) for row in _ideas(view))
        for view, own in zip(views, hours, strict=True)
    )
    origins = [_origins(view) for view in views]
    names = list(dict.fromkeys(name for own in origins for name in own))
    return ComparisonView(
        sides=tuple(_side(view, own, least) for view, own in zip(views, hours, strict=True)),
        hours=least,
        unit="GPU-hours" if on_gpus else "CPU-hours",
        metric=views[0].metric.name,
        differing={
            name: tuple(own.get(name, "") for own in origins)
            for name in names
            if len({own.get(name, "") for own in origins}) > 1
        },
        cautions=tuple(_cautions(views)),
    )


def _ideas(view: CampaignView) -> list[ResultRow]:
    """Return the rows of ideas, in order of their numbers."""
    return [row for row in view.rows if row.idea_id in view.state.ideas]


def _side(view: CampaignView, hours: Mapping[str, float], least: float) -> Side:
    rows = _ideas(view)
    took = [hours.get(row.idea_id, 0.0) for row in rows]
    affordable = rows if sum(took) <= least else within(rows, took, least)
    gains = (_gain(row) for row in rows)
    curve = zip(
        accumulate(took),
        accumulate(int(row.finding is Verdict.IMPROVEMENT) for row in rows),
        accumulate(gains, max),
        strict=True,
    )
    return Side(
        folder=view.folder,
        name=view.state.campaign_id,
        model=view.config.model_name,
        recipe=view.config.recipe_name,
        state=str(view.status["state"]),
        rule=view.summary.rule,
        whole=_part(view, rows, hours),
        equal=_part(view, affordable, hours),
        curve=tuple(curve),
    )


def _gain(row: ResultRow) -> float:
    return abs(row.delta or 0.0) if row.finding is Verdict.IMPROVEMENT else 0.0


def _part(
    view: CampaignView, rows: Sequence[ResultRow], hours: Mapping[str, float]
) -> CampaignPart:
    improved = sum(row.finding is Verdict.IMPROVEMENT for row in rows)
    return CampaignPart(
        ideas=len(rows),
        improved=improved,
        share=(improved / len(rows), *wilson(improved, len(rows))) if rows else None,
        confirmed=sum(row.confirmed is True for row in rows),
        hours=sum(hours.get(row.idea_id, 0.0) for row in rows),
        tokens=sum(view.state.tokens.get(row.idea_id, 0) for row in rows),
        best=best_row(rows),
    )


def _origins(view: CampaignView) -> dict[str, str]:
    """Return the model, recipe, data, versions and settings of a campaign's launch, by name."""
    config = view.config
    found = {
        "model": config.model_spec,
        "recipe": f"{config.recipe_name} {config.recipe_hash[:12]}",
        "data": config.data_hash[:12],
        "hpcscientist": f"{config.package_version} {config.package_hash[:12]}",
        "backend": config.backend,
        "isolation": config.isolation.value,
        "slots": str(config.slots),
    }
    return found | _flat(config.settings.model_dump(mode="json"))


def _flat(values: Mapping[str, Any], before: str = "") -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in values.items():
        if before == "" and name in ("model", "run_dir", "paths", "recipe"):
            continue  # listed by `_origins`, or a path
        if isinstance(value, Mapping):
            found |= _flat(value, f"{before}{name}.")
        else:
            found[f"{before}{name}"] = "" if value is None else str(value)
    return found


def _cautions(views: Sequence[CampaignView]) -> list[str]:
    found = []
    if len({(view.metric.name, view.metric.direction) for view in views}) > 1:
        found.append("their metrics differ: gains cannot be compared, only how many ideas improved")
    elif len({view.config.recipe_hash for view in views}) > 1:
        found.append("their recipes differ: each gain is over its own baseline")
    if len({view.config.data_hash for view in views}) > 1:
        found.append("their data differ")
    if len({view.summary.rule for view in views}) > 1:
        found.append("their rules differ: an improvement of one might be none of another")
    if open_ := [view.state.campaign_id for view in views if not view.state.ended]:
        found.append(f"not finished: {', '.join(open_)}")
    if len(views) > 1 and len({view.best.unit for view in views}) > 1:
        found.append("some used GPUs and some did not: equal cost means little here")
    return found
