"""The analyst of runs: reads what was measured, and may ask for a further run.

AI-Researcher (arXiv 2505.18705) has an analyst ask for further experiments twice; The AI
Scientist (arXiv 2408.06292) plans a list of runs and plans it anew after each. Both are here: one
question a run, and each sees all that was measured before it, so that every run is planned from
what was seen. Figures are those of the trusted scorer; learning curves come from generated code
and are shown as such.
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
    """Reads an idea's results; `client` is the model that judges, `further_runs` the most runs."""

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

        `outcomes` are the idea's runs, the idea itself first; `curves` hold what an attempt wrote
        to progress.jsonl, by its number. `number` counts the questions from 1: one for each run
        that may be asked for, and one more that reads the last of them and asks for none; beyond
        that, and where there is no usable reply, there is no answer. A run that is asked for
        again is left out: its result stands already, or its failure. Raises EndpointError.
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
        """Ask what the results show; too long, it goes without curves, then without old runs."""
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
    """Return a run's figures in one line, with what each differs from the reference's by."""
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
    """Return the curves that hold anything, the idea's own first, each attempt's once."""
    named = dict[int, str]()
    for number, outcome in enumerate(outcomes):
        if outcome.failure is None:
            named.setdefault(outcome.attempt, f"Run {number}" if number else "The idea itself")
    shown = ((name, curve(curves.get(attempt, ""))) for attempt, name in named.items())
    return [{"name": name, "text": text} for name, text in shown if text]


def _repeats(run: FurtherRun, outcomes: Sequence[RunOutcome]) -> bool:
    """Whether a run was made before: its change says the same, letter for letter.

    Of a run whose change is not known the title must do. One word more may be another run, so
    nothing is compared by likeness; and an author refuses code that it has seen.
    """
    change, title = _bare(run.change), _bare(run.title)
    return any(
        _bare(earlier.change) == change if earlier.change else _bare(earlier.title) == title
        for earlier in outcomes[1:]
    )


def _bare(text: str) -> str:
    """Return a text without blanks, case, quotes and full stops at its end; signs stay."""
    return _BESIDE.sub("", text.casefold()).rstrip(".")


class AnalyseStage(Stage[RunAnalyst]):
    """Readings of results and further runs, once a run."""

    name = "analyse"
    kinds = (Kind("analyse", "review", AnalysisReply),)

    def applies(self, settings: Settings, has_library: bool) -> bool:
        """Return whether there are further runs."""
        return settings.authoring.further_runs > 0

    def calls(self, expected: Expected) -> Sequence[Calls]:
        """Return how often it asks: the last question reads the last run."""
        ideas, runs = expected.settings.ideas, expected.settings.authoring.further_runs
        likely = ideas * min(RUNS, runs)
        return (Calls("analyse", ideas + likely, ideas * (1 + runs) * TRIES),)

    def open(self, means: Means) -> RunAnalyst:
        """Return who reads results."""
        own = means.settings.authoring.further_runs
        return RunAnalyst(means.client("review"), means.recipe, own)

    async def weigh(self, opened: RunAnalyst, sample: Sample) -> None:
        """Read the results of the idea itself."""
        spec = sample.recipe.spec
        main = RunOutcome(
            attempt=1,
            kind="main",
            title=filler(TITLE_SIZE),
            values={metric.name: (0.0, 0.0, spec.seeds) for metric in spec.metrics},
        )
        await opened.next(sample.brief, (main,), main, {}, 1)


ANALYSE = AnalyseStage()
