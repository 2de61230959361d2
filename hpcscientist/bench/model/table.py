"""The output of `hpcsci bench model`: by stage, by step of an idea, beside the control arm."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from statistics import fmean, stdev

from rich.box import SIMPLE_HEAD
from rich.console import Console, RenderableType
from rich.table import Table
from scipy.stats import t as student

from hpcscientist.bench.figure import Figure
from hpcscientist.bench.model.measure import STEPS, CampaignCounts, Pair, StageCost
from hpcscientist.feedback.statistics import CONFIDENCE


def figures(pairs: Sequence[Pair]) -> list[Figure]:
    """Return every number of the tables as a figure; `spread` is the interval's width."""
    return list(_figures(pairs))


def _figures(pairs: Sequence[Pair]) -> Iterator[Figure]:
    for stage in _stages(pairs):
        for name, unit, value in _STAGE_COLUMNS:
            yield _figure(f"{stage}: {name}", unit, _of_stage(pairs, stage, value))
    for step in STEPS:
        of_control = [pair.control.steps[step] for pair in pairs if pair.control is not None]
        beside = fmean(of_control) if of_control else None
        steps = [pair.model.steps[step] for pair in pairs]
        yield _figure(f"ideas {step}", "ideas a campaign", steps, beside)
    yield _figure(_ONLY_KNOBS, "ideas a campaign", *_knob_settings(pairs))
    for name, unit, measured in _COSTS:
        values = [cost for pair in pairs if (cost := measured(pair.model)) is not None]
        if values:
            yield _figure(name, unit, values)
    equal = _at_equal_trials(pairs)
    for place, name in enumerate(("improved", "confirmed")):
        own, other = ([counts[side][place] for counts in equal] for side in (0, 1))
        if own:
            yield _figure(f"{name} at equal trials", "ideas a campaign", own, fmean(other))
    for part in _ablated(pairs):
        for name, unit, measured in _GIVES:
            if values := _given(pairs, part, measured):
                yield _figure(f"{part} gives: {name}", unit, values)


def _knob_settings(pairs: Sequence[Pair]) -> tuple[list[int], float | None]:
    """Return how many of the model's ideas only set knobs, and the control arm's mean."""
    control = [pair.control.knob_settings for pair in pairs if pair.control is not None]
    return [pair.model.knob_settings for pair in pairs], fmean(control) if control else None


def _figure(name: str, unit: str, values: Sequence[float], beside: float | None = None) -> Figure:
    mean, half = fmean(values), half_width(values)
    interval = "" if half is None else f" (95%: {mean - half:.4g} to {mean + half:.4g})"
    return Figure(
        name=name,
        value=mean,
        unit=f"{unit}{interval}",
        compared_with=None if beside is None else f"the control arm {beside:.4g}",
        ratio=mean / beside if beside else None,
        target=None,
        spread=0.0 if half is None else 2 * half,
        runs=len(values),
    )


def half_width(values: Sequence[float]) -> float | None:
    """Return half of the mean's 95 % t interval over campaign seeds; None for one value."""
    if len(values) < 2:
        return None
    factor = float(student.ppf((1 + CONFIDENCE) / 2, len(values) - 1))
    return factor * stdev(values) / math.sqrt(len(values))


_STAGE_COLUMNS: tuple[tuple[str, str, Callable[[StageCost], float]], ...] = (
    ("calls", "a campaign", lambda cost: cost.calls),
    (
        "first try",
        "of questions valid at the first try",
        lambda cost: cost.first_try / max(cost.questions, 1),
    ),
    ("repairs", "a campaign", lambda cost: cost.repairs),
    ("tokens in", "a campaign", lambda cost: cost.prompt),
    ("tokens out", "a campaign", lambda cost: cost.completion),
    ("seconds", "of latency, a campaign", lambda cost: cost.seconds),
    ("cut", "of replies cut at the limit", lambda cost: cost.cut / max(cost.calls, 1)),
)
_ONLY_KNOBS = "ideas whose code only sets knobs"
_NOTHING = StageCost(0, 0, 0, 0, 0, 0, 0.0)


def _per(total: float | None, count: int) -> float | None:
    return None if total is None or not count else total / count


_COSTS: tuple[tuple[str, str, Callable[[CampaignCounts], float | None]], ...] = (
    ("tokens", "a campaign", lambda of: of.tokens),
    ("tokens a scored idea", "tokens", lambda of: _per(of.tokens, of.steps["scored"])),
    ("tokens a confirmed idea", "tokens", lambda of: _per(of.tokens, of.steps["confirmed"])),
    ("seconds", "a campaign", lambda of: of.seconds),
    ("seconds a scored idea", "s", lambda of: _per(of.seconds, of.steps["scored"])),
    ("seconds a confirmed idea", "s", lambda of: _per(of.seconds, of.steps["confirmed"])),
    ("trials", "a campaign", lambda of: of.trials),
)


# The gain of a part: the difference between campaigns with and without it, at the same seed.
_GIVES: tuple[tuple[str, str, Callable[[CampaignCounts], float | None]], ...] = (
    ("scored", "ideas a campaign", lambda of: of.steps["scored"]),
    ("improved", "ideas a campaign", lambda of: of.steps["improved"]),
    ("confirmed", "ideas a campaign", lambda of: of.steps["confirmed"]),
    ("tokens", "a campaign", lambda of: of.tokens),
    ("seconds", "a campaign", lambda of: of.seconds),
)


def _ablated(pairs: Sequence[Pair]) -> list[str]:
    return list(dict.fromkeys(part for pair in pairs for part in pair.ablations))


def _given(
    pairs: Sequence[Pair], part: str, measured: Callable[[CampaignCounts], float | None]
) -> list[float]:
    found = []
    for pair in pairs:
        ablation = pair.ablations[part]
        own, other = measured(pair.model), measured(ablation.measured)
        if own is not None and other is not None:
            found.append(other - own if ablation.has_part else own - other)
    return found


def _stages(pairs: Sequence[Pair]) -> list[str]:
    return list(dict.fromkeys(stage for pair in pairs for stage in pair.model.stages))


def _of_stage(
    pairs: Sequence[Pair], stage: str, value: Callable[[StageCost], float]
) -> list[float]:
    return [value(pair.model.stages.get(stage, _NOTHING)) for pair in pairs]


def _at_equal_trials(pairs: Sequence[Pair]) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Return the improved and confirmed ideas of model and control arm, for each pair."""
    found = []
    for pair in pairs:
        if pair.control is not None:
            trials = min(pair.model.trials, pair.control.trials)
            found.append((pair.model.at(trials), pair.control.at(trials)))
    return found


def show(pairs: Sequence[Pair], console: Console) -> None:
    """Print the tables; numbers are means over campaigns, with 95 % intervals."""
    for part in _tables(pairs):
        console.print(part)


def _tables(pairs: Sequence[Pair]) -> Iterator[RenderableType]:
    count = f"means over {len(pairs)} campaign{'s' if len(pairs) > 1 else ''}"
    stages = _table(f"Calls by stage, {count}")
    stages.add_column("stage", no_wrap=True)
    for name, _, _ in _STAGE_COLUMNS:
        stages.add_column(name, justify="right")
    for stage in _stages(pairs):
        cells = (_cell(_of_stage(pairs, stage, value)) for _, _, value in _STAGE_COLUMNS)
        stages.add_row(stage, *cells)
    yield stages
    ideas = _table(f"How far ideas came, {count}", "ideas", "model", "control arm")
    for step in STEPS:
        control = [pair.control.steps[step] for pair in pairs if pair.control is not None]
        own = [pair.model.steps[step] for pair in pairs]
        ideas.add_row(step, _cell(own), _cell(control) if control else "")
    settings, of_control = _knob_settings(pairs)
    ideas.add_row(_ONLY_KNOBS, _cell(settings), "" if of_control is None else _number(of_control))
    equal = _at_equal_trials(pairs)
    for place, name in enumerate(("improved", "confirmed")):
        own, other = ([counts[side][place] for counts in equal] for side in (0, 1))
        if own:
            ideas.add_row(f"{name}, at equal trials", _cell(own), _cell(other))
    yield ideas
    causes = sum((Counter(pair.model.failures) for pair in pairs), Counter[str]())
    if causes:
        failures = _table("Why ideas were not scored, all campaigns", "ideas", "cause")
        for cause, number in causes.most_common():
            failures.add_row(str(number), cause)
        yield failures
    costs = _table(f"What it cost, {count}", "cost", "mean")
    for name, _, measured in _COSTS:
        values = [value for pair in pairs if (value := measured(pair.model)) is not None]
        costs.add_row(name, _cell(values) if values else "none")
    yield costs
    if parts := _ablated(pairs):
        given = _table(f"What each part gives and costs, {count}", "with it, more", "default")
        for name, _, _ in _GIVES:
            given.add_column(name, justify="right")
        for part in parts:
            gains = [_given(pairs, part, measured) for _, _, measured in _GIVES]
            default = "off" if pairs[0].ablations[part].has_part else "on"
            given.add_row(part, default, *(_cell(gain) if gain else "none" for gain in gains))
        yield given


def _table(title: str, *columns: str) -> Table:
    return Table(*columns, title=title, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))


def _cell(values: Sequence[float]) -> str:
    half = half_width(values)
    return _number(fmean(values)) + (f" ±{_number(half)}" if half else "")


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
