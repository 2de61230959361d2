"""Writes the HTML page that compares several campaigns side by side."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from hpcscientist.files.text import printable
from hpcscientist.report.page import head, json_block, main, notes_list, tail, topline
from hpcscientist.results.export import plain
from hpcscientist.views.comparison import CampaignPart, ComparisonView, Side

VIEWS: Final = (
    ("equal", "Who found more at equal cost?", "Equal cost"),
    ("curves", "How did it come, hour by hour?", "Over cost"),
    ("bests", "How large is the best effect of each?", "Best effects"),
    ("settings", "In what do the campaigns differ?", "Differences"),
)

_PART: Final = ("ideas", "improved", "share", "confirmed", "hours", "tokens")


def comparison_page(view: ComparisonView) -> Iterator[str]:
    """Yield the page, part by part."""
    names = [side.name for side in view.sides]
    yield head(f"Comparison of {', '.join(names)}", "comparison.js")
    leader = max(view.sides, key=lambda side: (side.equal.confirmed, side.equal.improved))
    ties = [side for side in view.sides if _found(side) == _found(leader)]
    found = f"{leader.equal.improved} improvements, {leader.equal.confirmed} of them confirmed"
    lead = f"At {view.hours:.3g} {view.unit} each, "
    lead += (
        f"{leader.name} found most: {found}."
        if len(ties) == 1
        else f"{len(ties)} campaigns found the same: {found}."
    )
    figures = [(side.name, f"{side.equal.improved} of {side.equal.ideas}") for side in view.sides]
    yield topline(
        f"{len(names)} campaigns side by side",
        " · ".join(dict.fromkeys(side.recipe for side in view.sides)),
        lead,
        figures,
    )
    yield main(VIEWS)
    yield notes_list([f"{caution}." for caution in view.cautions])
    yield "</main></div>\n"
    yield json_block("comparison", _data(view))
    yield tail("comparison.js")


def _found(side: Side) -> tuple[int, int]:
    return side.equal.confirmed, side.equal.improved


def _data(view: ComparisonView) -> dict[str, Any]:
    return {
        "unit": view.unit,
        "hours": view.hours,
        "metric": view.metric,
        "sides": [_side(side) for side in view.sides],
        "differing": [[name, list(values)] for name, values in view.differing.items()],
    }


def _side(side: Side) -> dict[str, Any]:
    names = ("folder", "name", "model", "recipe", "state", "rule")
    return {name: printable(getattr(side, name)) for name in names} | {
        "whole": _part(side.whole),
        "equal": _part(side.equal),
        "curve": side.curve,
    }


def _part(part: CampaignPart) -> dict[str, Any]:
    best = plain(part.best) if part.best else None
    return {name: getattr(part, name) for name in _PART} | {"best": best}
