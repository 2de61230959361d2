"""Draws the live view of a campaign; a terminal of 80 columns and 24 lines suffices."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from hpcscientist.files.text import one_line, printable
from hpcscientist.history.status import waiting_line
from hpcscientist.report.table import duration, effect, worked
from hpcscientist.views.live import Snapshot

_LABEL: Final = 9
_FIXED: Final = 11  # lines that are always shown


def screen(shot: Snapshot, columns: int, lines: int) -> RenderableType:
    """Return a snapshot, laid out for a terminal of this size."""
    left = max(3, lines - _FIXED - bool(shot.waiting) - bool(shot.plane) - bool(shot.note))
    failures = list(shot.failures)[::-1][: max(1, left // 3)]
    running = shot.running[: max(1, left - len(failures))]
    more = len(shot.running) - len(running)
    parts: list[RenderableType] = [
        _title(shot, columns),
        Text(""),
        *_facts(shot, columns),
        _rule(f"running: {len(shot.running)}" + (f" ({more} more)" if more > 0 else ""), columns),
        _running(shot, len(running), columns),
        _rule("last failures", columns),
    ]
    if failures:
        parts += [
            _cut(f"{f.trial_id} {f.cause.replace('_', ' ')}: {f.detail}", columns) for f in failures
        ]
    else:
        parts.append(Text("none so far", style="dim"))
    return Group(*parts)


def _title(shot: Snapshot, columns: int) -> Text:
    when = duration(shot.elapsed_s)
    if shot.end_s is not None:
        when += f", end in about {duration(shot.end_s)}"
    text = Text(shot.campaign_id, style="bold")
    text.append(f"  {shot.state}  {when}", style="")
    text.truncate(columns, overflow="ellipsis")
    return text


def _facts(shot: Snapshot, columns: int) -> Iterable[Text]:
    ideas = shot.ideas
    ended = sum(ideas[kind] for kind in ("scored", "failed", "rejected"))
    by_state = [f"{ideas[k]} {k}" for k in ("open", "scored", "failed", "rejected") if ideas[k]]
    yield _fact(
        "ideas",
        f"{_bar(ended, shot.planned)} {ended}/{shot.planned}  {', '.join(by_state)}",
        columns,
    )
    yield _fact("found", f"{shot.improved} improved, {shot.confirmed} confirmed", columns)
    trials = shot.trials
    waits = (
        "" if shot.oldest_wait_s is None else f", the longest for {duration(shot.oldest_wait_s)}"
    )
    yield _fact(
        "trials",
        f"{trials['running']} running, {trials['queued']} queued{waits}, "
        f"{trials['scored']} scored, {trials['failed']} failed",
        columns,
    )
    if shot.waiting is not None:
        yield _fact(
            "queue", waiting_line(shot.waiting).removeprefix("array tasks that wait, by "), columns
        )
    pace = f", {shot.tokens_a_second:.0f} written a second" if shot.tokens_a_second else ""
    yield _fact("tokens", f"{shot.tokens:,}{pace}; {shot.model}", columns)
    if shot.plane and shot.plane != "ready":
        yield _fact("models", shot.plane, columns)
    yield _fact("used", f"CPU {worked(shot.cpu_hours)}, GPU {worked(shot.gpu_hours)}", columns)
    yield _fact("best", _best(shot), columns)
    if shot.note:
        yield _fact("note", shot.note, columns)


def _best(shot: Snapshot) -> str:
    if shot.best is None:
        return "no improvement on the baseline so far"
    c = shot.best.comparison
    held = {True: "confirmed", False: "not confirmed", None: "not confirmed yet"}
    gain = effect(c.delta, c.ci_low, c.ci_high)
    return (
        f"{shot.best.idea_id} {shot.metric} {c.mean:.4g}, {gain}, {held[shot.best.confirmed]}: "
        f"{shot.best.title}"
    )


def _running(shot: Snapshot, count: int, columns: int) -> RenderableType:
    if not shot.running:
        return Text("nothing", style="dim")
    grid = Table.grid(padding=(0, 2, 0, 0))
    for _ in range(2):
        grid.add_column(no_wrap=True, overflow="ellipsis")
    grid.add_column(no_wrap=True, justify="right")
    for trial in shot.running[:count]:
        grid.add_row(
            Text(trial.trial_id),
            Text(one_line(trial.node, 24) or "–"),
            Text(f"{duration(trial.since_s)} of {duration(trial.limit_s)}"),
        )
    return grid


def _bar(done: int, of: int, width: int = 20) -> str:
    """Return a progress bar in ASCII, which any terminal and any screen reader can show."""
    full = round(width * min(1.0, done / of)) if of else 0
    return f"[{'#' * full}{'.' * (width - full)}]"


def _fact(name: str, text: str, columns: int) -> Text:
    line = Text(f"{name:{_LABEL}}", style="dim")
    line.append(one_line(printable(text), None), style="not dim")
    line.truncate(columns, overflow="ellipsis")
    return line


def _rule(name: str, columns: int) -> Text:
    return Text(f"-- {name} ".ljust(min(columns, 79), "-"), style="dim")


def _cut(text: str, columns: int) -> Text:
    line = Text(one_line(printable(text), None))
    line.truncate(columns, overflow="ellipsis")
    return line
