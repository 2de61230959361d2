"""The line that `launch` and `resume` draw anew on a terminal: where the campaign is."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import click
from rich.cells import cell_len, set_cell_size

from hpcscientist.errors import HpcsciError
from hpcscientist.files.rundir import RunPaths
from hpcscientist.files.text import one_line, printable
from hpcscientist.history import frozen
from hpcscientist.history.state import CampaignState
from hpcscientist.models.serving.news import is_over, plane_state
from hpcscientist.models.serving.paths import ServingPaths
from hpcscientist.recipe.launched import LaunchedRecipe
from hpcscientist.records.events import Event, IdeaEnded
from hpcscientist.records.idea import BASELINE_ATTEMPT, BASELINE_ID
from hpcscientist.records.trial import Direction, MetricSpec

_EVERY_S: Final = 1.0
_WIDE: Final = 110  # columns
_CLEAR: Final = "\r\x1b[K"


def status_line(paths: RunPaths) -> StatusLine | None:
    """Return the line of a campaign; None where stderr is no terminal that can draw one."""
    if not sys.stderr.isatty() or os.environ.get("TERM", "") in ("", "dumb"):
        return None
    try:
        config = frozen.read(paths)
        metric = LaunchedRecipe(paths.recipe, config.recipe_hash).load().spec.primary
    except HpcsciError:
        return None  # whoever drives the campaign says what is wrong
    return StatusLine(config.settings.ideas, metric, ServingPaths(paths.serving))


@dataclass
class StatusLine:
    """Draws the line once a second and after events. `planned`: how many ideas are asked for."""

    planned: int
    metric: MetricSpec
    serving: ServingPaths
    _start: float = field(default_factory=time.monotonic)
    _state: CampaignState | None = None
    _parts: tuple[str, ...] = ()
    _best: tuple[float, str] | None = None
    _gone: bool = False
    _turn: threading.RLock = field(default_factory=threading.RLock)
    _over: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None
    _loading: tuple[str, float] = ("", 0.0)

    def begin(self) -> None:
        """Draw it from now on."""
        self._thread = threading.Thread(target=self._run, daemon=True, name="status line")
        # As in `files.lock`: signals are the main thread's.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            self._thread.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def end(self) -> None:
        """Take it away."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()
        self._write(_CLEAR)

    def above(self, text: str) -> None:
        """Print a line above it, cut to the terminal: `results --verbose` tells reasons whole."""
        with self._turn:
            self._write(f"{_CLEAR}{fitted((text,), _columns())}\n")
            self._draw()

    def update(self, event: Event, state: CampaignState) -> None:
        """Take note of an event, with the state after it."""
        if isinstance(event, IdeaEnded):
            self._rank(event, state)
        self._state = state

    def _rank(self, event: IdeaEnded, state: CampaignState) -> None:
        """Whether it leads by its mean: who improved is judged later, with all the others."""
        baseline = state.scores(BASELINE_ID, BASELINE_ATTEMPT, self.metric.name)
        if event.status != "scored" or event.attempt is None or not baseline:
            return
        values = state.scores(event.idea_id, event.attempt, self.metric.name)
        if len(values) < len(baseline):
            return
        delta = sum(values.values()) / len(values) - sum(baseline.values()) / len(baseline)
        sign = 1 if self.metric.direction is Direction.MAXIMIZE else -1
        if self._best is None or sign * delta > sign * self._best[0]:
            self._best = delta, event.idea_id

    def _run(self) -> None:
        while not self._over.wait(_EVERY_S):
            with self._turn:
                self._draw()

    def _draw(self) -> None:
        if self._over.is_set():
            return
        if self._state is not None:
            with contextlib.suppress(RuntimeError):  # it grows meanwhile: the next look will do
                short = _columns() < _WIDE
                self._parts = parts(self.planned, self._state, self._best, short=short)
        elapsed = clock(time.monotonic() - self._start)
        loading = self._engine()
        shown = fitted((elapsed, *((loading,) if loading else ()), *self._parts), _columns())
        self._write(f"{_CLEAR}{shown}")

    def _engine(self) -> str:
        """What the model servers wait for, and for how long; "" once they answer."""
        state = plane_state(self.serving)
        if not state or is_over(state):
            return ""
        now = time.monotonic()
        if state != self._loading[0]:
            self._loading = state, now
        does = printable(state.partition("; its log is ")[0])
        return f"{one_line(does, 60)}, {clock(now - self._loading[1])}"

    def _write(self, text: str) -> None:
        if self._gone:
            return
        try:
            click.echo(text, err=True, nl=False)
            with contextlib.suppress(AttributeError):
                sys.stderr.flush()
        except OSError:
            self._gone = True  # the terminal was closed; the campaign goes on


def parts(
    planned: int, state: CampaignState, best: tuple[float, str] | None, *, short: bool = False
) -> tuple[str, ...]:
    """Return what there is to say of a campaign, the most important first."""
    counts: Mapping[str, int] = {
        "scored": state.count_ideas("scored"),
        "failed": state.count_ideas("failed"),
        "rejected": state.count_ideas("rejected"),
    }
    ended = sum(counts.values())
    by_state = {"open": len(state.ideas) - ended} | ({} if short else dict(counts))
    said = ", ".join(f"{count} {name}" for name, count in by_state.items() if count)
    queued = state.count_trials("queued")
    trials = "" if short else "trials "
    tokens = state.prompt_tokens + state.completion_tokens
    return (
        f"{ended}/{planned} ideas" + (f" ({said})" if said else ""),
        f"{trials}{state.count_trials('running')} running" + (f", {queued} queued" * bool(queued)),
        f"best {best[1]} {best[0]:+.3g}" if best else "",
        f"{tokens:,} tokens" if tokens else "",
    )


def fitted(said: tuple[str, ...], columns: int) -> str:
    """Return the parts that fit into a terminal's width; the first is cut if it must be."""
    line = ""
    for part in filter(None, said):
        longer = f"{line} | {part}" if line else part
        if not line or cell_len(longer) <= columns:
            line = longer
    return line if cell_len(line) <= columns else set_cell_size(line, columns)


def clock(seconds: float) -> str:
    """Return a time as 2:14 or 1:02:14."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _columns() -> int:
    return shutil.get_terminal_size().columns - 1  # the last column wraps on some terminals
