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
from hpcscientist.authoring.learning_curves import curve
from hpcscientist.config.extent import RUNS
from hpcscientist.config.settings import Settings
from hpcscientist.models.prompting.fitting import Prompt, entries, from_the_end, of_template
from hpcscientist.models.role_client import UNANSWERED, Call, RoleClient
from hpcscientist.models.sample import TITLE_SIZE, Sample, filler
from hpcscientist.models.stage import TRIES, Calls, Expected, Kind, Means, Stage
from hpcscientist.records.authoring import Brief
from hpcscientist.records.experiment import AnalysisReply, FurtherRun, RunOutcome

if TYPE_CHECKING:
    from hpcscientist.recipe.load import Recipe


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
        call = Call(idea.idea_id, idea.number, "analyse", number)
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
