"""The reference's trials: what ideas are measured against."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from hpcscientist.campaign.running.trials import TrialRunner
from hpcscientist.campaign.specs import BASELINE_ATTEMPT, SpecFactory
from hpcscientist.campaign.state import CampaignState
from hpcscientist.campaign.steps import Step
from hpcscientist.config.settings import Settings
from hpcscientist.errors import BaselineFailed, MachineTrouble
from hpcscientist.feedback.decision import better_by
from hpcscientist.records.idea import BASELINE_ID
from hpcscientist.records.outcome import MachineFailed, MachineFailure, Scored
from hpcscientist.records.trial import MetricSpec, TrialReport, TrialSpec


def is_piloted(settings: Settings, steps: tuple[Step, ...]) -> bool:
    """Whether the reference has a pilot: where pilots are judged by it."""
    return settings.authoring.hopeless > 0 or "advise" in steps


def hopeless(
    pilot: TrialReport, reference: TrialReport, share: float, metric: MetricSpec
) -> str | None:
    """Say why a scored pilot is not worth its seeds, held against the reference's; None if it is.

    Not worth them is what is worse by more than `share` of the reference's value (0: nothing is).
    """
    if not share:
        return None
    assert isinstance(reference.outcome, Scored)  # else the campaign has ended
    assert isinstance(pilot.outcome, Scored)
    known, value = reference.outcome.metrics[metric.name], pilot.outcome.metrics[metric.name]
    worse = -better_by(value, known, metric)
    if worse <= max(share * abs(known), metric.minimum_effect):
        return None
    return (
        f"hopeless: its pilot has {metric.name} {value:.4g}, the reference's {known:.4g}, "
        f"and authoring.hopeless is {share:g}"
    )


def does_nothing(pilot: TrialReport, reference: TrialReport | None) -> bool:
    """Whether a pilot's predictions are those of the reference with the same seed."""
    return (
        reference is not None
        and reference.predictions_hash is not None
        and reference.predictions_hash == pilot.predictions_hash
    )


@dataclass(slots=True)
class Reference:
    """Runs the reference: at full budget with every seed, once at each step that ideas climb, and
    one pilot where pilots are judged.

    `hopeless`: a pilot that is worse than the reference's by more than this share of it is not
    worth its seeds; 0: every pilot is. `piloted` false leaves the reference's pilot out.
    """

    specs: SpecFactory
    trials: TrialRunner
    state: CampaignState
    hopeless: float
    piloted: bool
    _ran: asyncio.Event = field(default_factory=asyncio.Event)
    _pilot_ran: asyncio.Event = field(default_factory=asyncio.Event)
    _pilot: TrialReport | None = None

    async def run(self) -> None:
        """Run all of them. Raises BaselineFailed, MachineTrouble, DiskFull."""
        async with asyncio.TaskGroup() as group:
            for spec in (*self.specs.baseline(), *self.specs.baseline_steps()):
                group.create_task(self._run(spec))
            if self.piloted:
                group.create_task(self._run_pilot())
        self._ran.set()

    async def ran(self) -> dict[str, dict[int, float]]:
        """Return the values by metric and seed, as soon as every seed has run."""
        await self._ran.wait()
        return {
            metric.name: self.state.scores(BASELINE_ID, BASELINE_ATTEMPT, metric.name)
            for metric in self.specs.recipe.spec.metrics
        }

    async def same(self, pilot: TrialReport) -> bool:
        """Whether a pilot's predictions are the reference's own: then nothing was done."""
        return does_nothing(pilot, await self._of_pilot())

    async def objection(self, pilot: TrialReport) -> str | None:
        """Say why a scored pilot is hopeless, with both figures; None where it is not."""
        own, metric = await self._of_pilot(), self.specs.recipe.spec.primary
        return None if own is None else hopeless(pilot, own, self.hopeless, metric)

    async def pilot_values(self) -> dict[str, float]:
        """Return the values of the reference's pilot by metric; {} where it has none."""
        own = await self._of_pilot()
        if own is None or not isinstance(own.outcome, Scored):
            return {}
        return dict(own.outcome.metrics)

    async def _of_pilot(self) -> TrialReport | None:
        if not self.piloted:
            return None
        await self._pilot_ran.wait()
        return self._pilot

    async def _run_pilot(self) -> None:
        self._pilot = await self._run(self.specs.baseline_pilot())
        self._pilot_ran.set()

    async def _run(self, spec: TrialSpec) -> TrialReport:
        (report,) = await self.trials.run([spec])
        outcome = report.outcome
        if isinstance(outcome, Scored):
            return report
        if outcome.failure is MachineFailure.SCORER:
            raise BaselineFailed(
                f"the recipe's scorer fails at baseline: {outcome.detail}; mend it and try "
                "`hpcsci recipe check --run` on the recipe"
            )
        if isinstance(outcome, MachineFailed):
            raise MachineTrouble(
                f"the baseline could not be run ({outcome.failure.value}): {outcome.detail}; "
                "mend that and run `hpcsci resume`"
            )
        raise BaselineFailed(
            f"the reference code fails at baseline ({outcome.failure.value}): "
            f"{outcome.detail}; mend it and try `hpcsci recipe check --run` on the recipe"
        )
