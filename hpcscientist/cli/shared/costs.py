"""Text about costs: what a campaign may cost, and what it has cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hpcscientist.launching.costs.estimate import AllocationEstimate, LaunchEstimate
    from hpcscientist.launching.costs.spending import Spending


def in_short(found: LaunchEstimate) -> str:
    """Return the estimate as one line for the header of a launch."""
    said = f"experiments at most {_both(found.cpu_hours_at_most, found.gpu_hours_at_most)}"
    if found.roles:
        read = sum(role.prompt for role in found.roles)
        written = sum(role.completion_at_most for role in found.roles)
        said += f"; tokens about {read:,} read, at most {written:,} written"
    if found.allocation is not None:
        said += f"; {_job(found.allocation)}"
    return said


def details(found: LaunchEstimate) -> list[str]:
    """Return the estimate as the lines of a dry run; each number is called a bound or a guess."""
    low, high = found.trials
    spread = f"{low:,}" if low == high else f"{low:,} to {high:,}"
    lines = [
        f"trials: guess {spread}, bound {found.trials_at_most:,}; reruns after machine failures "
        "come on top",
        f"experiments: guess {_both(found.cpu_hours, found.gpu_hours)}, bound "
        f"{_both(found.cpu_hours_at_most, found.gpu_hours_at_most)}; scoring comes on top",
    ]
    lines += [
        f"tokens of {role.role}: guess {role.prompt:,} read in {role.calls:,} calls; written: "
        f"bound {role.completion:,} in these, {role.completion_at_most:,} in {role.calls_at_most:,}"
        " calls, the most there can be"
        for role in found.roles
    ]
    if not found.roles:
        lines.append("tokens: none; no model is asked")
    job = found.allocation
    if job is not None:
        lines.append(
            f"{_job(job)}: a bound of one job; where that is not enough another one goes on, "
            f"bound {job.jobs_at_most:,} jobs"
        )
        lines += [
            f"duration: guess {_hours(job.trial_hours)} h of trials alone, if none of them waits "
            "in the queue",
            f"{_name(job)}: guess {_hours(job.pace_node_hours)} node-hours, "
            f"{_hours(job.pace_gpu_hours)} GPU-hours in that time; more where models are slower, "
            "or trials wait",
        ]
    return lines


def footer(found: Spending) -> list[str]:
    """Return what a campaign has cost, as one line per role, kind of machine and kind of result."""
    lines = []
    for role in found.roles:
        counted = ", partly estimated" if role.estimated else ""
        lines.append(
            f"{role.role}: {role.prompt:,} tokens read, {role.completion:,} written in "
            f"{role.calls:,} call{'s' * (role.calls != 1)}{counted}{_by_stage(role.stages)}"
        )
    lines.append(f"experiments: {_both(found.cpu_hours, found.gpu_hours)}")
    if found.serving_gpu_hours is not None and found.serving_node_hours is not None:
        least = "at least " if found.unended else ""
        said = (
            f"serving: {least}{_hours(found.serving_gpu_hours)} GPU-hours, "
            f"{least}{_hours(found.serving_node_hours)} node-hours"
        )
        if found.busy is not None:
            said += f"; a request was in flight {found.busy:.0%} of the time"
        if found.unended:
            said += "; its end is not recorded, so it counts until the last event before"
        lines.append(said)
    came = found.found
    lines.append(_per("finding", found, came.findings))
    if came.findings:
        lines.append(_per("improvement", found, came.improvements))
    if came.improvements and came.confirmed is not None:
        lines.append(_per("confirmed improvement", found, came.confirmed))
    return lines


def _by_stage(stages: Mapping[str, int]) -> str:
    """Return the tokens of each stage, the costliest first; "" if there is only one stage."""
    if len(stages) < 2:
        return ""
    ordered = sorted(stages.items(), key=lambda entry: -entry[1])
    return f" ({', '.join(f'{stage} {tokens:,}' for stage, tokens in ordered)})"


def _per(what: str, found: Spending, count: int) -> str:
    """Return the average cost of one of `count` findings or improvements."""
    if not count:
        return f"per {what}: there is none"
    tokens = found.tokens / count
    said = f"{tokens:,.0f} tokens, {_both(found.cpu_hours / count, found.gpu_hours / count)}"
    if found.serving_gpu_hours is not None:
        said += f", {_hours(found.serving_gpu_hours / count)} GPU-hours of serving"
    return f"per {what} ({count}): {said}"


def _job(job: AllocationEstimate) -> str:
    return (
        f"{_name(job)} at most {_hours(job.node_hours)} node-hours, {_hours(job.gpu_hours)} "
        "GPU-hours a job"
    )


def _name(job: AllocationEstimate) -> str:
    return "serving" if job.served else "the driving job"


def _both(cpu_hours: float, gpu_hours: float) -> str:
    return f"{_hours(cpu_hours)} CPU-hours, {_hours(gpu_hours)} GPU-hours"


def _hours(hours: float) -> str:
    """Return hours with three significant digits; from 100 on as a whole number."""
    return f"{hours:,.0f}" if hours >= 100 else f"{hours:.3g}"
