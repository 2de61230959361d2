"""What each part of the loop is good for: campaigns with all of it, and with one part left out.

The ablations of the papers (Dolphin's tables 3, 5 and 6: feedback, ranking, debugging; the bank;
AI-Researcher's advisor) on one recipe. Every arm runs a campaign with each of the same seeds, so
that arms are compared pair by pair.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks.campaigns.measuring import Ran, run, spread
from hpcscientist.bench.figure import Figure
from hpcscientist.config.settings import Settings
from hpcscientist.errors import UsageError
from hpcscientist.feedback.statistics import compare, wilson
from hpcscientist.ports import Tell

WHOLE = "whole"
# What is changed in the settings, by section; "" is the top.
ARMS: Mapping[str, Mapping[str, Mapping[str, object]]] = {
    WHOLE: {},
    "no-feedback": {"loop": {"feedback": False}},
    "no-ranking": {"literature": {"ranking": False}},
    "no-bank": {"loop": {"independence": False}},
    "no-debugging": {"loop": {"debug_rounds": 0}},
    "no-advisor": {"authoring": {"advice_rounds": 0}},
    "search": {"": {"model": "search", "control": 0.0}},
}
RECORDED = (
    "replies are recorded: feedback, ranking and bank cannot change what is proposed, so "
    "arms without them tell nothing of a model"
)

# What is counted, a name and how a campaign tells it.
_COUNTS: tuple[tuple[str, str, Callable[[Ran], float]], ...] = (
    ("scored", "ideas a campaign", lambda ran: ran.scored),
    ("improvements", "ideas a campaign", lambda ran: ran.improvements),
    ("confirmed", "ideas a campaign", lambda ran: ran.confirmed),
    ("trials", "a campaign", lambda ran: ran.trials),
    ("tokens", "a campaign", lambda ran: ran.tokens),
)


@dataclass(frozen=True, slots=True)
class Options:
    """What is to be compared: `arms` beside the whole loop, each with `repeats` seeds."""

    folder: Path
    settings: Settings = field(default_factory=Settings)
    arms: tuple[str, ...] = tuple(ARMS)
    repeats: int = 3


@dataclass(frozen=True, slots=True)
class Compared:
    """An arm minus the whole loop, by seed: mean difference and its 95 % interval."""

    delta: float
    low: float | None
    high: float | None


def settings_of(arm: str, settings: Settings, seed: int) -> Settings:
    """Return an arm's settings with a seed. Raises UsageError for an arm that is none."""
    if arm not in ARMS:
        raise UsageError(f"there is no arm {arm!r}, but {', '.join(ARMS)}")
    changed: dict[str, Any] = {"seed": seed}
    for section, values in ARMS[arm].items():
        if section:
            changed[section] = getattr(settings, section).model_copy(update=dict(values))
        else:
            changed |= values
    return settings.model_copy(update=changed)


def measure(options: Options, tell: Tell) -> dict[str, dict[int, Ran]]:
    """Run every arm with every seed; by arm, then by seed. The whole loop comes first.

    Arms take turns, so that what else the machine does falls on all alike.
    """
    arms = (WHOLE, *(arm for arm in options.arms if arm != WHOLE))
    first = options.settings.seed
    found: dict[str, dict[int, Ran]] = {arm: {} for arm in arms}
    # All are checked before the first is run.
    wanted = {
        (arm, seed): settings_of(arm, options.settings, seed)
        for seed in range(first, first + options.repeats)
        for arm in arms
    }
    for (arm, seed), settings in wanted.items():
        found[arm][seed] = run(f"{arm}-{seed}", settings, options.folder, tell)
    return found


def figures(found: Mapping[str, Mapping[int, Ran]]) -> list[Figure]:
    """Return the figures of every arm; `spread` is the largest minus the smallest campaign."""
    return [figure for arm, runs in found.items() for figure in _of_arm(arm, runs, found[WHOLE])]


def _of_arm(arm: str, runs: Mapping[int, Ran], whole: Mapping[int, Ran]) -> Iterator[Figure]:
    for name, unit, count in _COUNTS:
        values = {seed: float(count(ran)) for seed, ran in runs.items()}
        beside = {seed: float(count(ran)) for seed, ran in whole.items()}
        value, other = fmean(values.values()), fmean(beside.values())
        yield Figure(
            name=f"{name}, {arm}",
            value=value,
            unit=unit if arm == WHOLE else f"{unit} ({_words(minus(values, beside))})",
            compared_with=None if arm == WHOLE else f"the whole loop {other:.4g}",
            ratio=value / other if arm != WHOLE and other else None,
            target=None,
            spread=spread(list(values.values())),
            runs=len(values),
        )
    yield _share(arm, runs)


def _share(arm: str, runs: Mapping[int, Ran]) -> Figure:
    """The share of the ideas let in that improved, with Wilson's interval over all campaigns."""
    improved = sum(ran.improvements for ran in runs.values())
    ideas = sum(ran.ideas for ran in runs.values())
    low, high = wilson(improved, ideas) if ideas else (0.0, 1.0)
    return Figure(
        name=f"improved, {arm}",
        value=improved / ideas if ideas else 0.0,
        unit=f"of {ideas} ideas (95%: {low:.3f} to {high:.3f})",
        compared_with=None,
        ratio=None,
        target=None,
        spread=high - low,
        runs=len(runs),
    )


def minus(values: Mapping[int, float], beside: Mapping[int, float]) -> Compared:
    """Return an arm minus the whole loop, paired by the campaigns' seeds."""
    found = compare(beside, values)
    return Compared(found.delta, found.ci_low, found.ci_high)


def _words(compared: Compared) -> str:
    if compared.low is None or compared.high is None:
        return f"difference {compared.delta:+.3g}"
    return f"difference {compared.delta:+.3g}, 95%: {compared.low:+.3g} to {compared.high:+.3g}"


def table(found: Mapping[str, Mapping[int, Ran]]) -> str:
    """Return the comparison for people: a row an arm, differences from the whole loop in words."""
    rows = [("arm", "campaigns", *(name for name, _, _ in _COUNTS), "improved of let in")]
    for arm, runs in found.items():
        means = (fmean(count(ran) for ran in runs.values()) for _, _, count in _COUNTS)
        share = _share(arm, runs)
        rows.append(
            (arm, str(len(runs)), *(f"{mean:,.4g}" for mean in means), f"{share.value:.2f}")
        )
    lines = _aligned(rows)
    for arm, runs in found.items():
        if arm != WHOLE:
            lines.append(f"{arm} minus {WHOLE}: {_differences(runs, found[WHOLE])}")
    return "\n".join(lines)


def _differences(runs: Mapping[int, Ran], whole: Mapping[int, Ran]) -> str:
    said = []
    for name, _, count in _COUNTS:
        values = {seed: float(count(ran)) for seed, ran in runs.items()}
        beside = {seed: float(count(ran)) for seed, ran in whole.items()}
        said.append(f"{name} {_words(minus(values, beside)).removeprefix('difference ')}")
    return "; ".join(said)


def _aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
