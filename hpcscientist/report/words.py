"""Words about a campaign that several renderers share: the headline, effects and durations."""

from __future__ import annotations

from collections.abc import Sequence

from hpcscientist.files.text import one_line, printable
from hpcscientist.records.findings import ResultRow
from hpcscientist.views.campaign import best_row

_TITLE = 60  # characters


def headline(rows: Sequence[ResultRow], next_command: str) -> str:
    """Return the best idea with its gain, and the command to run next."""
    return f"{best_words(rows)}; next: {next_command}"


def best_words(rows: Sequence[ResultRow]) -> str:
    """Return which idea is best, its gain, and whether the gain was confirmed."""
    best = best_row(rows)
    if best is None:
        return "no idea improved on the baseline"
    named = f"{best.idea_id} ({one_line(printable(best.title), _TITLE)}), {best.metric}"
    if best.confirmed:
        gain = effect(best.test_delta, best.test_ci_low, best.test_ci_high)
        return f"best confirmed: {named} {gain} on the test split"
    gain = effect(best.delta, best.ci_low, best.ci_high)
    return f"nothing is confirmed; best on validation: {named} {gain}"


def effect(delta: float | None, low: float | None, high: float | None) -> str:
    """Return a difference as text, with its interval if there is one."""
    if delta is None:
        return "was not measured"
    return f"{delta:+.3g}" + (f" [{low:+.3g}, {high:+.3g}]" if None not in (low, high) else "")


def duration(seconds: float) -> str:
    """Return a duration as text, in its two largest units."""
    whole = max(0, round(seconds))
    days, hours, minutes = whole // 86_400, whole // 3600 % 24, whole // 60 % 60
    if days:
        return f"{days} d {hours} h"
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {whole % 60} s" if minutes else f"{whole} s"


def worked(hours: float) -> str:
    """Return processor time as text: below one hour in minutes and seconds, else in hours."""
    return duration(hours * 3600) if hours < 1 else f"{hours:,.4g} h"
