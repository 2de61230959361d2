"""How far the build of a library has come: bars on a terminal, else a line now and then."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rich.progress import Progress as Bars
    from rich.progress import TaskID

    from hpcscientist.literature.library.indexing import Step

_EVERY_S = 10.0
_REDRAW_S = 0.1


class Progress:
    """Shows steps on stderr while it is entered."""

    def __init__(self) -> None:
        self._bars: Bars | None = None
        self._tasks: dict[str, TaskID] = {}
        self._begun: dict[str, float] = {}
        self._told = self._drawn = time.monotonic()
        self._silent = False

    def __enter__(self) -> Progress:
        """Start drawing, where there is a terminal."""
        if sys.stderr.isatty():
            from rich.console import Console  # noqa: PLC0415 (for terminals only)
            from rich.progress import BarColumn, TextColumn, TimeRemainingColumn  # noqa: PLC0415
            from rich.progress import Progress as Bars  # noqa: PLC0415

            shown = (
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.percentage:>3.0f}%"),
            )
            text = TextColumn("{task.fields[rate]}")
            self._bars = Bars(*shown, text, TimeRemainingColumn(), console=Console(stderr=True))
            self._bars.start()
        return self

    def __exit__(self, *exception: object) -> None:
        """Stop drawing; what is drawn stays."""
        if self._bars is not None:
            self._bars.stop()

    def __call__(self, step: Step) -> None:
        """Show how far a step has come."""
        now = time.monotonic()
        first = step.name not in self._begun
        begun = self._begun.setdefault(step.name, now)
        ended = step.total > 0 and step.done >= step.total
        rate = (
            f"{step.documents:,} documents, {step.documents / max(now - begun, 1e-3):,.0f} a second"
        )
        if self._bars is not None:
            if first or ended or now - self._drawn > _REDRAW_S:
                self._drawn = now
                self._draw(self._bars, step, rate if step.documents else "")
        elif (ended and not first) or now - self._told > _EVERY_S:
            self._told = now
            share = f" {100 * step.done / step.total:.0f} %" if step.total else ""
            self._say(f"{step.name}:{share}{f', {rate}' if step.documents else ''}")

    def _draw(self, bars: Bars, step: Step, rate: str) -> None:
        total = step.total or None
        if step.name not in self._tasks:
            self._tasks[step.name] = bars.add_task(step.name, total=total, rate=rate)
        bars.update(self._tasks[step.name], completed=step.done, total=total, rate=rate)

    def _say(self, line: str) -> None:
        if not self._silent:
            try:
                click.echo(line, err=True)
            except OSError:
                self._silent = True  # whoever read this has gone; the build goes on
