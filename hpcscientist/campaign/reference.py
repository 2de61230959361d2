"""The reference's trials: what ideas are measured against."""

from __future__ import annotations

from hpcscientist.campaign.specs import BASELINE_ATTEMPT, trial_name
from hpcscientist.config.settings import Settings
from hpcscientist.config.steps import Step
from hpcscientist.feedback.decision import better_by
from hpcscientist.history.state import CampaignState
from hpcscientist.recipe.schema import RecipeSpec
from hpcscientist.records.idea import BASELINE_ID
from hpcscientist.records.outcome import Scored
from hpcscientist.records.trial import MetricSpec, Stage, TrialReport


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
    assert isinstance(reference.outcome, Scored)
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


def values(state: CampaignState, spec: RecipeSpec) -> dict[str, dict[int, float]]:
    """Return the reference's values on validation by metric and seed, as far as they are known."""
    return {
        metric.name: state.scores(BASELINE_ID, BASELINE_ATTEMPT, metric.name)
        for metric in spec.metrics
    }


def pilot_values(state: CampaignState) -> dict[str, float]:
    """Return the values of the reference's pilot by metric; {} where it has none."""
    trial = state.trials.get(trial_name(BASELINE_ID, BASELINE_ATTEMPT, Stage.PILOT, 0))
    report = None if trial is None else trial.report
    if report is None or not isinstance(report.outcome, Scored):
        return {}
    return dict(report.outcome.metrics)
