"""Estimates what a launch may cost, from the recipe's budgets and the lengths of real prompts.

A bound holds for any ideas. A guess assumes, as far as the campaign has these steps: each idea's
first version fails its pilot once and is fixed, or its tree grows to full size; a reviewer's
findings go back to the coder once; each idea has two further runs; one idea in five is an
improvement that is confirmed. How many seeds ideas get is a guess, too. Neither includes reruns
after machine failures, or the scoring of trials, which comes on top of a budget.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor

from hpcscientist.campaign import stages
from hpcscientist.config.extent import drawn_of
from hpcscientist.config.settings import LoopSettings
from hpcscientist.feedback.effort import Schedule, most_seeds, schedule_of
from hpcscientist.launching.costs.weighing import weigh
from hpcscientist.launching.jobs.dispatch import nodes_of
from hpcscientist.launching.launch_plan import LaunchPlan
from hpcscientist.models.open import parse_spec, role_specs
from hpcscientist.models.stage import Calls, Expected
from hpcscientist.records.base import Record
from hpcscientist.records.model_calls import Role

# How many seeds ideas get, and how far they climb, estimated before the launch.


@dataclass(frozen=True, slots=True)
class Seeding:
    """The seeds of one attempt of every idea, summed over all ideas.

    `least` and `most` are bounds if every idea is scored. `likely` is a guess, and so is `whole`:
    how many ideas are not given up before their last seed, and so have further runs. `on_steps`
    guesses how many ideas reach each step below the full budget; `least_steps` is the lower bound
    of their trials there.
    """

    least: int
    likely: int
    most: int
    whole: int
    on_steps: tuple[int, ...] = ()
    least_steps: int = 0


def seeding(loop: LoopSettings, seeds: int, ideas: int, steps: int = 0) -> Seeding:
    """Return the seeds of ideas, from the recipe's number of `seeds` and of `steps` to climb.

    Guesses: a sequential test uses the recipe's number of seeds, which it is built around; of the
    ideas that reach a rung, as many go on as if they arrived in random order.
    """
    schedule, most = schedule_of(loop, seeds), most_seeds(loop, seeds)
    if schedule is None:
        return Seeding(ideas * seeds, ideas * seeds, ideas * seeds, ideas)
    first = schedule.looks[0]
    if loop.allocation == "sequential":
        return Seeding(ideas * first, ideas * min(seeds, most), ideas * most, ideas)
    unranked = min(ideas, ceil(loop.halving) - 1)
    on_steps, come = [], float(ideas)
    for _ in range(steps):
        on_steps.append(round(come))
        come = _going_on(come, loop.halving)
    likely, whole = _climb(schedule, loop.halving, come)
    arrive = unranked if steps else ideas  # at the full budget, at the least
    least = arrive * first + unranked * (most - first)
    least_steps = ideas + unranked * (steps - 1) if steps else 0
    return Seeding(least, likely, ideas * most, whole, tuple(on_steps), least_steps)


def seeds_said(loop: LoopSettings, seeds: int) -> str:
    """Return how many seeds an idea gets, in words."""
    schedule = schedule_of(loop, seeds)
    if schedule is None:
        return f"{seeds} seeds"
    first, most = schedule.looks[0], schedule.at_most
    spread = f"{most}" if first == most else f"{first} to {most}"
    return f"{spread} seeds ({loop.allocation})"


def _climb(schedule: Schedule, rate: float, come: float) -> tuple[int, int]:
    """Return a guess of the ideas' seeds on a ladder of rungs, and of how many reach its end."""
    total, below = 0.0, 0
    for rung in schedule.looks:
        if below:
            come = _going_on(come, rate)
        total += come * (rung - below)
        below = rung
    return round(total), round(come)


def _going_on(come: float, rate: float) -> float:
    """Return a guess of how many of the ideas that reach a rung go on from it."""
    return sum(_share(number, rate) for number in range(1, round(come) + 1))


def _share(number: int, rate: float) -> float:
    """Return the probability that the idea that reaches a rung as this number goes on."""
    return 1.0 if number < rate else floor(number / rate) / number


SECONDS_PER_HOUR = 3600.0
IMPROVED = 0.2  # guess: the share of ideas whose improvement is confirmed


class RoleEstimate(Record):
    """The tokens of one role.

    Guesses: `calls`, and `prompt` for them, from rendered prompts. Bounds: `completion` for
    `calls`, and `completion_at_most` for `calls_at_most`, if each reply is as long as allowed.
    """

    role: str
    calls: int
    calls_at_most: int
    prompt: int
    completion: int
    completion_at_most: int


class AllocationEstimate(Record):
    """The job that drives the campaign. `gpus`: per node; `served`: its nodes serve models.

    Bounds for one job: `node_hours`, `gpu_hours`. If the campaign takes longer, another job
    continues, with `jobs_at_most` in all. Guesses: `trial_hours`, how long trials take if none
    waits, and `pace_…`, the hours of the nodes in that time; with fast models there is no more.
    """

    nodes: int
    gpus: int
    served: bool
    node_hours: float
    gpu_hours: float
    jobs_at_most: int
    trial_hours: float
    pace_node_hours: float
    pace_gpu_hours: float


class LaunchEstimate(Record):
    """What a launch may cost: trials, hours of run time, tokens by role.

    Guesses: `trials` (from, to), and `cpu_hours` and `gpu_hours` if the larger number of trials
    spend their whole budgets. Bounds: `…_at_most`. `allocation` is None if no job drives.
    """

    trials: tuple[int, int]
    trials_at_most: int
    cpu_hours: float
    gpu_hours: float
    cpu_hours_at_most: float
    gpu_hours_at_most: float
    roles: tuple[RoleEstimate, ...]
    allocation: AllocationEstimate | None


def estimate(checked: LaunchPlan) -> LaunchEstimate:
    """Return what a launch may cost. Asks neither a model nor Slurm, and writes nothing."""
    spec, ideas = checked.recipe.spec, checked.settings.ideas
    tried = checked.versions
    fixes, runs = tried.fixes, tried.runs
    advised = min(1, checked.settings.authoring.advice_rounds) if "advise" in checked.steps else 0
    own = checked.reference_pilots
    given = seeding(checked.settings.loop, spec.seeds, ideas, len(checked.climbed))
    baseline = checked.seeds_at_most
    least = own + ideas + baseline + given.least + checked.reruns
    least += len(checked.climbed) + given.least_steps
    pilots = own + given.whole * runs
    pilots += ideas * (tried.first + fixes + tried.improvements + advised)
    full = baseline + given.likely + given.whole * runs * checked.further_seeds + checked.reruns
    full += checked.confirm_seeds * (1 + ceil(ideas * IMPROVED))
    on_steps = [1 + came for came in given.on_steps]  # the baseline is on each
    seconds = _seconds(checked, pilots, on_steps, full)
    pilots_at_most = own + ideas * checked.attempts_at_most
    on_each = checked.step_trials_at_most
    full_at_most = checked.trials_at_most - pilots_at_most - on_each * len(checked.climbed)
    at_most = _seconds(checked, pilots_at_most, [on_each] * len(checked.climbed), full_at_most)
    cpus, gpus = spec.resources.cpus, spec.resources.gpus
    return LaunchEstimate(
        trials=(least, pilots + sum(on_steps) + full),
        trials_at_most=checked.trials_at_most,
        cpu_hours=seconds * cpus / SECONDS_PER_HOUR,
        gpu_hours=seconds * gpus / SECONDS_PER_HOUR,
        cpu_hours_at_most=at_most * cpus / SECONDS_PER_HOUR,
        gpu_hours_at_most=at_most * gpus / SECONDS_PER_HOUR,
        roles=_roles(checked),
        allocation=_allocation(checked, seconds),
    )


def _seconds(checked: LaunchPlan, pilots: int, on_steps: Sequence[int], full: int) -> float:
    budgets = checked.recipe.spec.budgets
    climbed = sum(n * step.seconds for n, step in zip(on_steps, checked.climbed, strict=True))
    return pilots * budgets.pilot.seconds + climbed + full * budgets.full.seconds


def _roles(checked: LaunchPlan) -> tuple[RoleEstimate, ...]:
    """Return the estimates of the roles that ask a model; others ask none."""
    settings = checked.settings
    asking = [role for role, spec in _specs(checked).items() if _asks(spec)]
    if not asking:
        return ()
    weights = weigh(checked.recipe, settings, checked.steps)
    asked = settings.ideas - drawn_of(settings.ideas, settings.control)  # without the control arm's
    own = settings.model_copy(update={"ideas": asked})
    expected = calls(Expected(own, checked.steps, checked.versions))
    kinds, found = stages.kinds(), []
    for role in asking:
        asks = [entry for entry in expected if kinds[entry.kind].role == role]
        allowed = settings.role(role).max_tokens
        count, most = sum(entry.guess for entry in asks), sum(entry.most for entry in asks)
        if asks:
            found.append(
                RoleEstimate(
                    role=role,
                    calls=count,
                    calls_at_most=most,
                    prompt=sum(entry.guess * weights.get(entry.kind, 0) for entry in asks),
                    completion=count * allowed,
                    completion_at_most=most * allowed,
                )
            )
    return tuple(found)


def calls(expected: Expected) -> tuple[Calls, ...]:
    """Return the expected calls of all stages of a campaign."""
    return tuple(
        calls
        for stage in stages.stages()
        if not stage.optional or stage.name in expected.stages
        for calls in stage.calls(expected)
    )


def _allocation(checked: LaunchPlan, trial_s: float) -> AllocationEstimate | None:
    own = checked.placement.site.controller
    nodes = nodes_of(checked.settings, _specs(checked))
    if not nodes:
        return None
    node_hours = nodes * own.minutes / 60
    trial_hours = trial_s / max(1, checked.inside or checked.placement.slots) / SECONDS_PER_HOUR
    return AllocationEstimate(
        nodes=nodes,
        gpus=own.gpus,
        served=_serves(checked),
        node_hours=node_hours,
        gpu_hours=node_hours * own.gpus,
        jobs_at_most=own.max_links,
        trial_hours=trial_hours,
        pace_node_hours=nodes * trial_hours,
        pace_gpu_hours=nodes * own.gpus * trial_hours,
    )


def idle(checked: LaunchPlan) -> str:
    """Return which of the controller job's nodes or GPUs are idle, and when; "" if none are."""
    gpus = checked.placement.site.controller.gpus
    nodes = nodes_of(checked.settings, _specs(checked))
    if not nodes:
        return ""
    what = f"{nodes} x {gpus} GPUs" if gpus else f"{nodes} node{'s' * (nodes > 1)}"
    inside = checked.settings.serving.trials_inside
    if not _serves(checked):
        if inside:
            return f"{what}: no model is served on them, trials run there"
        if not gpus:
            return ""  # it only drives, as intended
        return f"{what}: no model is served on them, and trials queue elsewhere"
    if inside:
        return f"{what} serve models; trials run on what that leaves of them"
    wanted = checked.recipe.spec.resources.gpus
    hint = "; serving.trials_inside runs trials there" if wanted and gpus else ""
    return f"{what} serve models and wait while trials queue elsewhere{hint}"


def not_asked_for(checked: LaunchPlan) -> str:
    """Return why the controller job asks for fewer nodes than `--nodes`; "" if it does not."""
    wanted, nodes = checked.settings.nodes, nodes_of(checked.settings, _specs(checked))
    if nodes == wanted:
        return ""
    return (
        f"{nodes} of {wanted} for the job that drives: no model is served on the others, and "
        "trials are jobs of their own; --model vllm:PATH serves one there, "
        "serving.trials_inside = true runs trials there"
    )


def _asks(spec: str) -> bool:
    return parse_spec(spec).kind not in ("playbook", "search")


def _serves(checked: LaunchPlan) -> bool:
    """Return whether the campaign itself serves any role's model."""
    return any(parse_spec(spec).kind == "vllm" for spec in _specs(checked).values())


def _specs(checked: LaunchPlan) -> dict[Role, str]:
    """Return the SPEC of each role's model; empty for the control arm."""
    return (
        {}
        if checked.model_spec == "search"
        else role_specs(checked.settings, checked.model_spec, stages.roles())
    )
