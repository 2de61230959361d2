"""What a person sees on stderr while a campaign runs: the header, then a line an event."""

from __future__ import annotations

import time
from functools import singledispatchmethod
from typing import TYPE_CHECKING

import click

from hpcscientist.campaign.state import CampaignState
from hpcscientist.execution import isolation
from hpcscientist.files.text import one_line, printable
from hpcscientist.records.events import (
    DriverStarted,
    Event,
    IdeaEnded,
    IdeaProposed,
    NoteTaken,
    TrialEnded,
)
from hpcscientist.records.outcome import Scored
from hpcscientist.records.trial import Stage

if TYPE_CHECKING:
    from hpcscientist.campaign.launch import LaunchPlan


def header(plan: LaunchPlan) -> None:
    """Say what will be run, with what, where, and what is not protected."""
    spec, settings = plan.recipe.spec, plan.settings
    budgets = spec.budgets
    flow = f"{settings.rounds} rounds" if settings.rounds else "steady state"
    model = plan.model_spec
    if plan.model_assumed:
        model += " (no --model given: the recorded replies of the quickstart recipe)"
    lines = {
        "recipe": f"{spec.name}: {spec.topic.title}",
        "model": model,
        "ideas": f"{settings.ideas}, {flow}, {plan.in_flight} in flight",
        "trials": f"at most {plan.trials_at_most}; {plan.slots} at once on this machine; "
        f"pilot {budgets.pilot.seconds:g} s, full {budgets.full.seconds:g} s x {spec.seeds} seeds",
        "sandbox": isolation.statement(plan.isolation),
        "run dir": str(plan.run_dir),
    }
    for name, text in lines.items():
        click.echo(f"{name:8} {text}", err=True)


class Progress:
    """Writes a line for each event worth a line."""

    def __init__(self) -> None:
        self._start = time.monotonic()
        self._silent = False

    def __call__(self, event: Event, state: CampaignState) -> None:
        """Show an event with the state after it."""
        text = "" if self._silent else self._describe(event, state)
        if text:
            elapsed = time.monotonic() - self._start
            running = state.count_trials("running")
            line = f"[{elapsed:6.1f} s, {running} running] {one_line(printable(text), None)}"
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
