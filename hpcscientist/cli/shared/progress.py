"""What a person sees on stderr while a campaign runs: the header, then a line an event."""

from __future__ import annotations

import time
from functools import singledispatchmethod
from typing import TYPE_CHECKING

import click

from hpcscientist.campaign.proposals import campaign_library, earlier
from hpcscientist.cli.shared.costs import in_short
from hpcscientist.cli.shared.status_line import StatusLine
from hpcscientist.config.partitions import described, of_controller
from hpcscientist.execution.sandbox import isolation
from hpcscientist.files.text import one_line, printable
from hpcscientist.history.state import CampaignState
from hpcscientist.history.status import tampering
from hpcscientist.judgement.judging import rule_of
from hpcscientist.launching import embedder_choice
from hpcscientist.launching.costs import estimate as costs
from hpcscientist.launching.costs.estimate import seeds_said
from hpcscientist.papers import lacking
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
from hpcscientist.records.idea import BASELINE_ID
from hpcscientist.records.outcome import Scored
from hpcscientist.records.trial import Stage

if TYPE_CHECKING:
    from hpcscientist.launching.launch_plan import LaunchPlan


def header(checked: LaunchPlan) -> None:
    """Say what will be run, with what, where, and what is not protected."""
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
        "papers": lacking.statement(),
        "run dir": str(checked.run_dir),
    }
    more = [*(("served", line) for line in checked.layout), *(("note", n) for n in place.notes)]
    for name, text in [*lines.items(), *more]:
        if text:
            click.echo(f"{name:8} {printable(text)}", err=True)


def _unproposed(checked: LaunchPlan) -> str:
    """Say how many of the ideas a playbook lacks."""
    lacking = len(checked.unproposed)
    if not lacking:
        return ""
    return (
        f"; the playbook holds {len(checked.proposals or ())} ideas and lacks {lacking} of these: "
        "ask for fewer, or give another --model"
    )


def _steps(checked: LaunchPlan) -> str:
    """Say which budgets ideas climb below the full one."""
    return "".join(f"{step.name} {step.seconds:g} s, " for step in checked.climbed)


def _fresh(checked: LaunchPlan) -> str:
    """Say what is run of an improvement once more."""
    return f", improvements x {checked.confirm_seeds} more on the test split" * bool(
        checked.confirm_seeds
    )


def _submission(checked: LaunchPlan) -> str:
    """Say with which profile and under which names trials are submitted."""
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


class Progress:
    """Writes a line for each event worth a line.

    On a terminal the last line says where the campaign is and is drawn anew; trials have no lines
    of their own there. Use it as a context manager where that line is to be drawn.
    """

    def __init__(self, line: StatusLine | None = None) -> None:
        self._start = time.monotonic()
        self._silent = False
        self._line = line
        self._told = ""

    def __enter__(self) -> Progress:
        if self._line is not None:
            self._line.begin()
        return self

    def __exit__(self, *_: object) -> None:
        if self._line is not None:
            self._line.end()

    def __call__(self, event: Event, state: CampaignState) -> None:
        """Show an event with the state after it."""
        if self._silent:
            return
        if self._line is not None:
            self._line.update(event, state)
            if isinstance(event, IdeaProposed | TrialEnded):  # counted in the line
                return
        text = self._describe(event, state)
        if text:
            elapsed = time.monotonic() - self._start
            running = state.count_trials("running")
            self._echo(f"[{elapsed:6.1f} s, {running} running] {one_line(printable(text), None)}")

    def tell(self, text: str) -> None:
        """Print what concerns a job or served models, line by line.

        What is told again is told anew only where nothing is drawn: there it is in the line.
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
            self._silent = True  # whoever read the progress has gone; the campaign goes on

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
        return f"tampering: {tampering([event])}"

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
