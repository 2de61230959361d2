"""The baseline's trials: before any idea's seeds, and again later as `baseline_drift` asks."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from hpcscientist.conduct import actions
from hpcscientist.conduct.actions import Stop
from hpcscientist.conduct.agenda import Agenda
from hpcscientist.conduct.rules import Rules
from hpcscientist.config.settings import Settings
from hpcscientist.history.state import CampaignState
from hpcscientist.judgement import baseline_drift
from hpcscientist.recipe.schema import RecipeSpec
from hpcscientist.records.idea import BASELINE_ATTEMPT, BASELINE_ID
from hpcscientist.records.objective import Objective, better_by
from hpcscientist.records.trial import (
    IdeaFailed,
    MachineFailed,
    MachineFailure,
    MetricSpec,
    Scored,
    Stage,
    TrialReport,
    trial_name,
)


def trials(rules: Rules) -> Iterator[tuple[Stage, int]]:
    """Yield the stage and index of each baseline trial that ideas are measured against."""
    for index in range(rules.seeds):
        yield Stage.BASELINE, index
    for index, _ in enumerate(rules.budgets):
        yield Stage.STEP, index
    if rules.judging.piloted:
        yield Stage.PILOT, 0


def has_run(state: CampaignState, rules: Rules) -> bool:
    """Return whether all baseline trials were scored."""
    names = (trial_name(BASELINE_ID, BASELINE_ATTEMPT, *which) for which in trials(rules))
    found = (state.trials.get(name) for name in names)
    return all(trial is not None and trial.phase == "scored" for trial in found)


def want(wanted: Agenda) -> bool:
    """Add the baseline's trials that are due; return whether the baseline has already run.

    A baseline failure stops the campaign.
    """
    state, rules = wanted.state, wanted.rules
    if not has_run(state, rules):
        for stage, index in trials(rules):
            wanted.run(BASELINE_ID, BASELINE_ATTEMPT, stage, index, actions.REFERENCE)
            stop = _stop(wanted, trial_name(BASELINE_ID, BASELINE_ATTEMPT, stage, index))
            if stop is not None:
                wanted.add(stop)
        return False
    for trial_id in state.progress.reference:  # reruns under way
        trial = state.trials[trial_id]
        if trial.attempt > BASELINE_ATTEMPT:
            wanted.run(BASELINE_ID, trial.attempt, Stage.BASELINE, 0, actions.REFERENCE)
    if rules.settings.loop.noisy == "stop":
        _want_steady(wanted)
    return True


def _want_steady(wanted: Agenda) -> None:
    state, rules, memory = wanted.state, wanted.rules, wanted.memory
    stops = memory.recall(BASELINE_ID, (state.of_reference,))
    if stops is None:
        why = baseline_drift.too_noisy(
            state, rules.objective.primary, rules.published, rules.settings
        )
        stops = (Stop("noisy", why),) if why else ()
        memory.keep(BASELINE_ID, (state.of_reference,), stops)
    wanted.found.extend(stops)


def want_again(wanted: Agenda, number: int) -> None:
    """Add the baseline rerun that accompanies this idea's seeds, if there is one."""
    rerun = baseline_drift.rerun_with(wanted.rules.settings, number)
    if not rerun:
        return
    attempt = BASELINE_ATTEMPT + rerun
    if trial_name(BASELINE_ID, attempt, Stage.BASELINE, 0) not in wanted.state.trials:
        wanted.run(BASELINE_ID, attempt, Stage.BASELINE, 0, actions.REFERENCE)


def _stop(wanted: Agenda, name: str) -> Stop | None:
    """Return the stop that a failed baseline trial causes, None if it causes none."""
    trial = wanted.state.trials.get(name)
    if trial is None or trial.phase != "failed":
        return None
    if trial.infra_failed and not wanted.is_used_up(trial):
        return None
    report = trial.report
    assert report is not None  # it has ended
    return _failed(report)


def _failed(report: TrialReport) -> Stop | None:
    outcome = report.outcome
    if isinstance(outcome, Scored):
        return None
    said = f"{outcome.failure.value}): {outcome.detail}"
    if outcome.failure is MachineFailure.SCORER:
        return scorer_fails(f"at baseline: {outcome.detail}")
    if isinstance(outcome, MachineFailed):
        return Stop(
            "machine",
            f"the baseline could not be run ({said}; fix that and run `hpcsci resume`",
        )
    return Stop(
        "baseline",
        f"the reference code fails at baseline ({said}; {fix_of(outcome)} and try "
        "`hpcsci recipe check --run` on the recipe",
    )


def scorer_fails(where: str) -> Stop:
    """Return the stop for a scorer that fails before the baseline was ever scored."""
    return Stop(
        "baseline",
        f"the recipe's scorer fails {where}; fix it and try `hpcsci recipe check --run` on the "
        "recipe",
    )


def fix_of(failed: IdeaFailed) -> str:
    """Return what to do about reference code that fails."""
    if failed.detail.startswith("ModuleNotFoundError"):
        return "install that where trials run, give an --image with it, or correct the import,"
    return "fix it"


def is_piloted(settings: Settings, stages: Collection[str], objective: Objective) -> bool:
    """Return whether the baseline runs a pilot, which it does if pilots are compared with it."""
    return settings.authoring.hopeless > 0 or "advise" in stages or bool(objective.tolerances)


def hopeless(
    pilot: TrialReport, reference: TrialReport, share: float, metric: MetricSpec
) -> str | None:
    """Return why a version is not worth measuring, given its scored pilot; None if it is.

    It is not if its pilot is worse than the baseline's by more than `share` of the baseline's
    value. `share` 0 disables the check.
    """
    if not share:
        return None
    assert isinstance(reference.outcome, Scored)
    assert isinstance(pilot.outcome, Scored)
    known, value = reference.outcome.value(metric.name), pilot.outcome.value(metric.name)
    worse = -better_by(value, known, metric)
    if worse <= max(share * abs(known), metric.minimum_effect):
        return None
    return (
        f"hopeless: its pilot has {metric.name} {value:.4g}, the reference's {known:.4g}, "
        f"and authoring.hopeless is {share:g}"
    )


def does_nothing(pilot: TrialReport, reference: TrialReport | None) -> bool:
    """Return whether a pilot's predictions equal the baseline's with the same seed."""
    return (
        reference is not None
        and reference.predictions_hash is not None
        and reference.predictions_hash == pilot.predictions_hash
    )


def values(state: CampaignState, spec: RecipeSpec) -> dict[str, dict[int, float]]:
    """Return the baseline's known validation values, by metric and seed."""
    return {
        metric.name: state.scores(BASELINE_ID, BASELINE_ATTEMPT, metric.name)
        for metric in spec.metrics
    }


def pilot_values(state: CampaignState) -> dict[str, float]:
    """Return the metrics of the baseline's pilot, {} if it has no scored pilot."""
    trial = state.trials.get(trial_name(BASELINE_ID, BASELINE_ATTEMPT, Stage.PILOT, 0))
    report = None if trial is None else trial.report
    if report is None or not isinstance(report.outcome, Scored):
        return {}
    return dict(report.outcome.metrics)
