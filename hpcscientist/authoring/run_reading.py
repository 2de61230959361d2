"""The run analyst: a model reads an idea's results and may request a further run.

AI-Researcher (arXiv 2505.18705) has an analyst ask for further experiments twice; The AI
Scientist (arXiv 2408.06292) plans a list of runs and replans after each. This module combines
both: it asks one question per run, and each question shows all results so far, so that every
run is planned from what was measured. Figures come from the trusted scorer. Learning curves come
from generated code, and the prompt says so.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from hpcscientist.authoring import quoted
from hpcscientist.config.extent import RUNS
from hpcscientist.config.settings import Settings
from hpcscientist.models.prompting.fitting import Prompt, entries, from_the_end, of_template
from hpcscientist.models.role_client import UNANSWERED, CallPurpose, RoleClient
from hpcscientist.models.stage import (
    TITLE_SIZE,
    TRIES,
    Calls,
    Expected,
    Kind,
    Means,
    Sample,
    Stage,
    filler,
)
from hpcscientist.records.authoring import Brief
from hpcscientist.records.experiment import AnalysisReply, FurtherRun, RunOutcome

if TYPE_CHECKING:
    from hpcscientist.recipe.load import Recipe
import json
from collections.abc import Iterator
from typing import Any, Final

from hpcscientist.records.experiment import Symptom

# Learning curves from a candidate's progress.jsonl, summarized in figures that are safe to
# quote.
#
# Generated code writes progress.jsonl, so the file may be cut off, damaged, enormous or
# misleading. Nothing in it is trusted. The only text passed on are the names of series, which
# are short and plain; the rest is arithmetic on its numbers.


TAIL = 256 * 1024  # characters or bytes read, from the end
CUT = "[earlier lines are left out]"  # the first line of a text whose beginning was cut off
_OF_THE_END = (
    f"only the end of the file was read: {TAIL // 1024} KiB, and first values and places are of it"
)
_LINE = 4000  # characters of a line; a longer one is skipped
_SERIES, _ON_THE_WAY = 12, 6
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_./@-]{0,39}")


def curve(text: str) -> str:
    """Return a line of figures for each series of a progress.jsonl; "" if there is none.

    A line gives the first and last value, the lowest and highest with their places (counted from
    1), some values in between at equal distances, and how many values were not finite. Values
    inside a nested object are named "outer/inner". If only the end of the file is known, a last
    line says so. Never raises.
    """
    lines = [f"{name}: {_summary(values)}" for name, values in series_of(text).items()]
    if lines and (len(text) > TAIL or text.startswith(CUT)):
        lines.append(_OF_THE_END)
    return "\n".join(lines)


def series_of(text: str) -> dict[str, list[float]]:
    """Return the values of each series of a progress.jsonl by its name, as in `curve`.

    Values may be infinite or NaN.
    """
    series: dict[str, list[float]] = {}
    for entry in _entries(text[-TAIL:]):
        for name, value in _numbers(entry):
            if name in series or len(series) < _SERIES:
                series.setdefault(name, []).append(value)
    return series


def _entries(text: str) -> Iterator[dict[str, Any]]:
    for line in text.split("\n"):
        if not line.strip() or len(line) > _LINE:
            continue
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):  # torn, not JSON, thousands of digits or brackets
            continue
        if isinstance(entry, dict):
            yield entry


def _numbers(entry: dict[str, Any]) -> Iterator[tuple[str, float]]:
    for name, value in entry.items():
        inner = value.items() if isinstance(value, dict) else ()
        for full, found in ((name, value), *((f"{name}/{key}", one) for key, one in inner)):
            if _NAME.fullmatch(full) and (number := _number(found)) is not None:
                yield full, number


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _summary(values: list[float]) -> str:
    finite = [(value, place) for place, value in enumerate(values, 1) if math.isfinite(value)]
    broken = [place for place, value in enumerate(values, 1) if not math.isfinite(value)]
    count = "1 value" if len(values) == 1 else f"{len(values)} values"
    parts = [count]
    if finite:
        low, high = min(finite), max(finite, key=lambda found: (found[0], -found[1]))
        parts.append(f"first {_figure(finite[0][0])}, last {_figure(finite[-1][0])}")
        parts.append(f"lowest {_figure(low[0])} (no. {low[1]})")
        parts.append(f"highest {_figure(high[0])} (no. {high[1]})")
    if len(finite) > _ON_THE_WAY:
        last = len(finite) - 1
        places = [round(last * step / (_ON_THE_WAY - 1)) for step in range(_ON_THE_WAY)]
        parts.append("on the way " + ", ".join(_figure(finite[place][0]) for place in places))
    if broken:
        parts.append(f"not finite: {len(broken)}, the first no. {broken[0]}")
    return "; ".join(parts)


def _figure(value: float) -> str:
    return f"{value:.4g}"


# Symptoms in a learning curve: training stopped too early, overfit, or diverged.
#
# The measures come from early stopping (Prechelt 1998, Neural Networks 11, section 2). The
# generalization loss is how far the last error on held-out data lies above the lowest; the
# training progress is how far the last errors lie above their lowest on average. Curves come from
# generated code and are never trusted: a symptom is a hint for whoever proposes the next idea.

_LEAST: Final = 6  # values; fewer do not make a curve
_STRIP: Final = 5  # Prechelt's k
_OVERFIT: Final = 0.05  # generalization loss, Prechelt's GL 5
_PROGRESS: Final = 0.02  # far above 0.0001, where Prechelt stops

_WORD = re.compile(r"[A-Za-z]+|\d+")
_HELD_OUT: Final = frozenset({"val", "valid", "validation", "dev", "test", "eval", "heldout"})
_ERRORS: Final = frozenset(
    {"loss", "error", "err", "nll", "ce", "mse", "mae", "rmse", "ppl", "perplexity", "objective"}
)
_SHARES: Final = frozenset({"acc", "accuracy", "f1", "auc"})


def symptom(text: str) -> Symptom | None:
    """Return the symptom that a progress.jsonl shows, None if there is none. Never raises.

    Series are recognized by their names: held-out data by "val" or "test", errors by "loss" or
    "error". An accuracy counts as the error 1 - accuracy.
    """
    trained: list[list[float]] = []
    held_out: list[list[float]] = []
    for name, values in series_of(text).items():
        words = {word.lower() for word in _WORD.findall(name)}
        errors = _errors(words, values)
        if errors is not None:
            (held_out if words & _HELD_OUT else trained).append(errors)
    if any(_diverged(errors) for errors in (*trained, *held_out)):
        return "diverged"
    if any(_overfit(held, trained) for held in held_out):
        return "overfit"
    if any(_goes_on(errors) for errors in held_out or trained):
        return "undertrained"
    return None


def _errors(words: set[str], values: list[float]) -> list[float] | None:
    """Return the series as errors, lower being better; None if it is not one or too short."""
    if len(values) < _LEAST:
        return None
    if words & _ERRORS:
        return values
    if words & _SHARES and all(0 <= value <= 1 for value in values):
        return [1 - value for value in values]
    return None


def _diverged(errors: list[float]) -> bool:
    return not math.isfinite(errors[-1]) or errors[-1] > errors[0] > 0


def _overfit(held: list[float], trained: list[list[float]]) -> bool:
    """Return whether held-out errors rose since their lowest while training errors fell."""
    lowest = min(held)
    best = held.index(lowest)
    if not lowest > 0 or held[-1] / lowest - 1 <= _OVERFIT or best == len(held) - 1:
        return False
    return any(errors[-1] < errors[min(best, len(errors) - 1)] for errors in trained)


def _goes_on(errors: list[float]) -> bool:
    """Return whether the last error is the lowest by far: training was still improving."""
    strip = errors[-_STRIP:]
    lowest = min(errors)
    if errors[-1] > lowest or not lowest > 0:
        return False
    return sum(strip) / len(strip) / lowest - 1 > _PROGRESS


_BESIDE = re.compile(r"[\s`'\"“”‘’]+")


class RunAnalyst:
    """An analyst of runs; it asks `client` and requests at most `further_runs` runs per idea."""

    def __init__(self, client: RoleClient, recipe: Recipe, further_runs: int) -> None:
        self._client, self._spec, self._most = client, recipe.spec, further_runs

    async def next(
        self,
        brief: Brief,
        outcomes: tuple[RunOutcome, ...],
        baseline: RunOutcome,
        curves: Mapping[int, str],
        number: int,
    ) -> AnalysisReply | None:
        """Return what the results show and the run to make next; stage `analyse`, by `number`.

        `outcomes` are the idea's runs, the idea itself first. `curves` maps an attempt's number
        to what it wrote to progress.jsonl. `number` counts the questions from 1: one for each
        run that may be requested, and one more that reads the last run and requests none. Returns
        None beyond that, and when there is no usable reply. A request that repeats an earlier run
        is dropped, because its result or failure is already known. Raises EndpointError.
        """
        if not outcomes or number > self._most + 1:
            return None
        idea, left = brief.idea, self._most + 1 - number
        call = CallPurpose(idea.idea_id, idea.number, "analyse", number)
        prompt = self._prompt(brief, outcomes, baseline, curves, left)
        try:
            reply = await self._client.ask(call, AnalysisReply, prompt)
        except UNANSWERED:
            return None
        if reply.run is None or (left and not _repeats(reply.run, outcomes)):
            return reply
        return reply.model_copy(update={"run": None})

    def _prompt(
        self,
        brief: Brief,
        outcomes: Sequence[RunOutcome],
        baseline: RunOutcome,
        curves: Mapping[int, str],
        left: int,
    ) -> Prompt:
        """Return the question; one that is too long drops curves, then the plan, then old runs."""
        plan = brief.plan
        runs = [_described(n, outcome, baseline) for n, outcome in enumerate(outcomes[1:], 1)]
        return of_template(
            "analyse",
            (
                from_the_end("curves", _curves(outcomes, curves)),
                from_the_end("plan", quoted.plan_fields(plan)),
                entries("runs", runs),
            ),
            topic=self._spec.topic,
            metrics=self._spec.metrics,
            budgets=self._spec.budgets,
            idea_fields=quoted.idea_fields(brief.idea.proposal),
            reference=_measured(baseline, None),
            main=_measured(outcomes[0], baseline),
            left=left,
        )


def _described(number: int, outcome: RunOutcome, baseline: RunOutcome) -> dict[str, str]:
    return {
        "name": f"Run {number}, {outcome.kind}: {quoted.entry(outcome.title)}",
        "change": quoted.field(outcome.change),
        "measured": _measured(outcome, baseline),
    }


def _measured(outcome: RunOutcome, baseline: RunOutcome | None) -> str:
    """Return a run's figures in one line, each with its difference from the baseline's."""
    if outcome.failure is not None:
        return f"failed: {quoted.field(outcome.failure)}"
    against = {} if baseline is None else baseline.values
    return (
        "; ".join(
            f"`{name}` {quoted.figures(found)}{_difference(found, against.get(name))}"
            for name, found in outcome.values.items()
        )
        or "no figures"
    )


def _difference(
    found: tuple[float, float | None, int], against: tuple[float, float | None, int] | None
) -> str:
    if against is None or not math.isfinite(found[0] - against[0]):
        return ""
    return f", {found[0] - against[0]:+.3g} against the reference"


def _curves(outcomes: Sequence[RunOutcome], curves: Mapping[int, str]) -> list[dict[str, str]]:
    """Return the curves that are not empty, the idea's own first, each attempt's once."""
    named = dict[int, str]()
    for number, outcome in enumerate(outcomes):
        if outcome.failure is None:
            named.setdefault(outcome.attempt, f"Run {number}" if number else "The idea itself")
    shown = ((name, curve(curves.get(attempt, ""))) for attempt, name in named.items())
    return [{"name": name, "text": text} for name, text in shown if text]


def _repeats(run: FurtherRun, outcomes: Sequence[RunOutcome]) -> bool:
    """Return whether a run was made before: its change has the same letters.

    If an earlier run's change is unknown, its title is compared instead. Similarity is not used,
    because one more word may mean another run; the author also refuses code that it has seen.
    """
    change, title = _bare(run.change), _bare(run.title)
    return any(
        _bare(earlier.change) == change if earlier.change else _bare(earlier.title) == title
        for earlier in outcomes[1:]
    )


def _bare(text: str) -> str:
    """Return a text without white space, case, quotes and final full stops; signs stay."""
    return _BESIDE.sub("", text.casefold()).rstrip(".")


class AnalyseStage(Stage[RunAnalyst]):
    """The stage that reads results and requests further runs, once per run."""

    name = "analyse"
    kinds = (Kind("analyse", "review", AnalysisReply),)

    def applies(self, settings: Settings, has_library: bool) -> bool:
        """Return whether the settings allow further runs."""
        return settings.authoring.further_runs > 0

    def calls(self, expected: Expected) -> Sequence[Calls]:
        """Return how often the stage asks; the last question reads the last run."""
        ideas, runs = expected.settings.ideas, expected.settings.authoring.further_runs
        likely = ideas * min(RUNS, runs)
        return (Calls("analyse", ideas + likely, ideas * (1 + runs) * TRIES),)

    def open(self, means: Means) -> RunAnalyst:
        """Return the analyst."""
        own = means.settings.authoring.further_runs
        return RunAnalyst(means.client("review"), means.recipe, own)

    async def weigh(self, opened: RunAnalyst, sample: Sample) -> None:
        """Ask for a reading of the idea's own results."""
        spec = sample.recipe.spec
        main = RunOutcome(
            attempt=1,
            kind="main",
            title=filler(TITLE_SIZE),
            values={metric.name: (0.0, 0.0, spec.seeds) for metric in spec.metrics},
        )
        await opened.next(sample.brief, (main,), main, {}, 1)


ANALYSE = AnalyseStage()
