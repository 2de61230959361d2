"""Progress on stderr while a campaign runs: a header, one line per event, and a status line."""

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
from functools import singledispatchmethod
from typing import TYPE_CHECKING, Final

import click
from rich.cells import cell_len, set_cell_size

from hpcscientist.campaign.proposals import campaign_library, earlier
from hpcscientist.cli.shared.costs import in_short
from hpcscientist.config.partitions import described, of_controller
from hpcscientist.errors import HpcsciError
from hpcscientist.execution.sandbox import isolation
from hpcscientist.files.rundir import RunPaths
from hpcscientist.files.text import one_line, printable
from hpcscientist.history import frozen
from hpcscientist.history.state import CampaignState
from hpcscientist.history.status import tampering_notice
from hpcscientist.judgement.findings import rule_of
from hpcscientist.launching import embedder_choice
from hpcscientist.launching.costs import estimate as costs
from hpcscientist.launching.costs.estimate import seeds_said
from hpcscientist.models.serving.lease import is_over, plane_state
from hpcscientist.models.serving.order import ServingPaths
from hpcscientist.papers.typesetting import engine
from hpcscientist.recipe.folder_copy import LaunchedRecipe
from hpcscientist.records.events import (
    DriverStarted,
    Event,
    IdeaEnded,
    IdeaProposed,
    NoteTaken,
    ProposalsExhausted,
    SplitSpent,
    TamperingFound,
    TrialEnded,
)
from hpcscientist.records.idea import BASELINE_ATTEMPT, BASELINE_ID
from hpcscientist.records.trial import Direction, MetricSpec, Scored, Stage

if TYPE_CHECKING:
    from hpcscientist.launching.launch_plan import LaunchPlan


# The status line: `launch` and `resume` redraw it on a terminal.

_EVERY_S: Final = 1.0
_WIDE: Final = 110  # columns
_CLEAR: Final = "\r\x1b[K"


def status_line(paths: RunPaths) -> StatusLine | None:
    """Return a campaign's status line; None if stderr is not a terminal that can redraw it."""
    if not sys.stderr.isatty() or os.environ.get("TERM", "") in ("", "dumb"):
        return None
    try:
        config = frozen.read(paths)
        metric = LaunchedRecipe(paths.recipe, config.recipe_hash).load().spec.primary
    except HpcsciError:
        return None  # the driver reports what is wrong
    return StatusLine(config.settings.ideas, metric, ServingPaths(paths.serving))


@dataclass
class StatusLine:
    """The status line, redrawn once a second and after each printed line.

    `planned` is the number of ideas that the campaign asks for.
    """

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
        """Start to draw the line."""
        self._thread = threading.Thread(target=self._run, daemon=True, name="status line")
        # As in `files.lock`: only the main thread handles signals.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            self._thread.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def end(self) -> None:
        """Stop drawing and erase the line."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()
        self._write(_CLEAR)

    def above(self, text: str) -> None:
        """Print a line above the status line, cut to the terminal's width.

        `results --verbose` shows full reasons.
        """
        with self._turn:
            self._write(f"{_CLEAR}{fitted((text,), _columns())}\n")
            self._draw()

    def update(self, event: Event, state: CampaignState) -> None:
        """Record an event and the state after it."""
        if isinstance(event, IdeaEnded):
            self._rank(event, state)
        self._state = state

    def _rank(self, event: IdeaEnded, state: CampaignState) -> None:
        """Update the best idea by mean score; improvements are judged later, over all ideas."""
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
            with contextlib.suppress(RuntimeError):  # the state changed meanwhile: draw next time
                short = _columns() < _WIDE
                self._parts = parts(self.planned, self._state, self._best, short=short)
        elapsed = clock(time.monotonic() - self._start)
        loading = self._engine()
        shown = fitted((elapsed, *((loading,) if loading else ()), *self._parts), _columns())
        self._write(f"{_CLEAR}{shown}")

    def _engine(self) -> str:
        """Return what the model servers wait for, and for how long; "" once they answer."""
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
            self._gone = True  # the terminal was closed; the campaign continues


def parts(
    planned: int, state: CampaignState, best: tuple[float, str] | None, *, short: bool = False
) -> tuple[str, ...]:
    """Return the parts of the status line, the most important first."""
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
    """Return the parts that fit into a terminal's width; cut the first if it is too long."""
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


def header(checked: LaunchPlan) -> None:
    """Print what will run, with which model, where, at what cost, and how it is isolated."""
    spec, settings = checked.recipe.spec, checked.settings
    budgets = spec.budgets
    flow = f"{settings.rounds} rounds" if settings.rounds else "steady state"
    model = checked.model_spec
    if checked.model_assumed:
        model += " (no --model given: the recorded replies of the quickstart recipe)"
    place = checked.placement
    at_once = "in the queue or running at once" if place.backend == "slurm" else "at once here"
    lines = {
        "recipe": f"{spec.name}: {spec.topic.title}",
        "model": model,
        "ideas": f"{settings.ideas}, {flow}, {place.in_flight} in flight{_unproposed(checked)}",
        "trials": f"at most {checked.trials_at_most}; {place.slots} {at_once}; "
        f"pilot {budgets.pilot.seconds:g} s, {_steps(checked)}full {budgets.full.seconds:g} s x "
        f"{seeds_said(settings.loop, spec.seeds)}{_fresh(checked)}",
        "findings": str(rule_of(settings)),
        "cost": in_short(costs.estimate(checked)),
        "backend": f"{place.backend}: {place.where.why}{_submission(checked)}",
        "sandbox": isolation.statement(place.isolation, place.site.host),
        "image": place.image or "",
        "library": campaign_library.statement(settings, checked.recipe) if checked.steps else "",
        "ideas by": ", ".join(["propose", *checked.steps]) if checked.steps else "",
        "likeness": embedder_choice.statement(checked.embedder, elsewhere=bool(settings.nodes)),
        "bank": earlier.statement(checked.earlier),
        "nodes": costs.not_asked_for(checked),
        "idle": costs.idle(checked),
        "papers": engine.missing_statement(),
        "run dir": str(checked.run_dir),
    }
    more = [*(("served", line) for line in checked.layout), *(("note", n) for n in place.notes)]
    for name, text in [*lines.items(), *more]:
        if text:
            click.echo(f"{name:8} {printable(text)}", err=True)


def _unproposed(checked: LaunchPlan) -> str:
    """Return a note on how many of the ideas the playbook lacks; "" if none."""
    lacking = len(checked.unproposed)
    if not lacking:
        return ""
    return (
        f"; the playbook holds {len(checked.proposals or ())} ideas and lacks {lacking} of these: "
        "ask for fewer, or give another --model"
    )


def _steps(checked: LaunchPlan) -> str:
    """Return the budget steps between pilot and full, with their seconds."""
    return "".join(f"{step.name} {step.seconds:g} s, " for step in checked.climbed)


def _fresh(checked: LaunchPlan) -> str:
    """Return a note on the confirmation runs of improvements; "" without confirmation."""
    return f", improvements x {checked.confirm_seeds} more on the test split" * bool(
        checked.confirm_seeds
    )


def _submission(checked: LaunchPlan) -> str:
    """Return the site profile and the Slurm options with which trials are submitted."""
    place = checked.placement
    if place.backend == "local":
        return ""
    said = f"; site {place.site.name or checked.settings.site or 'profile: none given'}"
    for name in ("cluster", "account", "partition", "qos", "constraint"):
        value = getattr(place.site.slurm, name)
        said += f", {name} {value}" if value else ""
    if checked.settings.nodes:
        said += f"; driven by a job in {described(of_controller(place.site))}"
    return said


class ProgressPrinter:
    """A printer of progress: one line per important event.

    With a status line (on a terminal), proposals and trials get no lines of their own. Use it as a
    context manager to draw that line.
    """

    def __init__(self, line: StatusLine | None = None) -> None:
        self._start = time.monotonic()
        self._silent = False
        self._line = line
        self._told = ""

    def __enter__(self) -> ProgressPrinter:
        if self._line is not None:
            self._line.begin()
        return self

    def __exit__(self, *_: object) -> None:
        if self._line is not None:
            self._line.end()

    def __call__(self, event: Event, state: CampaignState) -> None:
        """Print an event, given the state after it."""
        if self._silent:
            return
        if self._line is not None:
            self._line.update(event, state)
            if isinstance(event, IdeaProposed | TrialEnded):  # the status line counts them
                return
        text = self._describe(event, state)
        if text:
            elapsed = time.monotonic() - self._start
            running = state.count_trials("running")
            self._echo(f"[{elapsed:6.1f} s, {running} running] {one_line(printable(text), None)}")

    def tell(self, text: str) -> None:
        """Print a message about a job or served models, line by line.

        With a status line, a repeated message is not printed again: the status line shows it.
        """
        news = text.partition(": ")[2]
        if self._line is not None and news and news == self._told:
            return
        self._told = news
        for line in text.splitlines():
            self._echo(printable(line))

    def _echo(self, line: str) -> None:
        if self._line is not None:
            self._line.above(line)
            return
        try:
            click.echo(line, err=True)
        except OSError:
            self._silent = True  # the reader of stderr is gone; the campaign continues

    @singledispatchmethod
    def _describe(self, event: Event, state: CampaignState) -> str:
        return ""

    @_describe.register
    def _(self, event: DriverStarted, state: CampaignState) -> str:
        return "resumed" if event.generation > 1 else "started"

    @_describe.register
    def _(self, event: IdeaProposed, state: CampaignState) -> str:
        return f"{event.idea_id} proposed: {event.title}"

    @_describe.register
    def _(self, event: NoteTaken, state: CampaignState) -> str:
        return f"note: {event.text}"

    @_describe.register
    def _(self, event: TamperingFound, state: CampaignState) -> str:
        return f"tampering: {tampering_notice([event])}"

    @_describe.register
    def _(self, event: ProposalsExhausted, state: CampaignState) -> str:
        return f"note: {event.reason}" if state.exhausted == event.number else ""

    @_describe.register
    def _(self, event: SplitSpent, state: CampaignState) -> str:
        seeds = f"{len(event.seeds)} fresh seeds on the test split"
        if event.idea_id == BASELINE_ID:
            return f"an idea improved: the baseline runs {seeds}"
        return f"{event.idea_id} improved: {seeds}"

    @_describe.register
    def _(self, event: TrialEnded, state: CampaignState) -> str:
        trial = state.trials[event.report.trial_id]
        outcome = event.report.outcome
        if not isinstance(outcome, Scored):
            return f"{event.report.trial_id} {outcome.failure.value}: {outcome.detail}"
        if trial.stage is Stage.PILOT:
            return f"{event.report.trial_id} runs"
        values = ", ".join(f"{name} {value:.4g}" for name, value in outcome.metrics.items())
        return f"{event.report.trial_id} {values}"

    @_describe.register
    def _(self, event: IdeaEnded, state: CampaignState) -> str:
        reason = f": {event.reason}" if event.reason else ""
        return f"{event.idea_id} {event.status}{reason}"
