"""Writes an idea's notes.md again after every step, from everything that happened so far."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean, stdev
from typing import Literal

from hpcscientist.authoring import notebook
from hpcscientist.campaign.integrity import make_way
from hpcscientist.campaign.pursuit.attempt_store import AttemptStore
from hpcscientist.campaign.pursuit.attempt_store import AttemptTrial as Trial
from hpcscientist.campaign.pursuit.idea_context import IdeaContext
from hpcscientist.conduct.strategy.steps import Version
from hpcscientist.conduct.strategy.strategy_replay import (
    Grown,
    NotWritten,
    PilotedVersion,
    Remark,
    Reviewed,
    Run,
    Understood,
)
from hpcscientist.files.atomic import write_text
from hpcscientist.records.authoring import Brief
from hpcscientist.records.trial import Scored, Stage, trial_name

Values = dict[str, tuple[float, float | None, int]]


@dataclass(slots=True)
class NotesWriter:
    """The notes of one idea. A driver that resumes makes them again from the records."""

    attempt_store: AttemptStore
    brief: Brief
    _entries: list[notebook.Entry] = field(default_factory=list)
    _told: int = 0

    def planned(self, remark: str = "") -> None:
        """Note the idea's plan; `remark` says what is missing in it."""
        idea = self.brief.idea
        self._note(
            notebook.NotedPlan(
                idea_id=idea.idea_id,
                title=idea.proposal.title,
                plan=self.brief.plan,
                remark=remark,
            )
        )

    def tell(self, context: IdeaContext, told: Sequence[Remark]) -> None:
        """Note what happened since the last call; `told` is everything so far, in order."""
        for remark in told[self._told :]:
            match remark:
                case PilotedVersion(version):
                    self._tried(context, version)
                case NotWritten(kind, run, reason):
                    self._note(notebook.NotedFailure(purpose=kind, run=run, reason=reason))
                case Grown(nodes, best):
                    metric = self.attempt_store.specs.recipe.spec.primary.name
                    self._note(notebook.NotedTree(metric=metric, nodes=nodes, best=best))
                case Reviewed(number):
                    self._note(notebook.NotedReview(review=context.review(number)))
                case Run(number):
                    self._ran(context, number)
                case Understood(number):
                    reply = context.reading(number)
                    if reply is not None:
                        self._note(notebook.NotedReading(number=number, reply=reply))
        self._told = len(told)

    def _tried(self, context: IdeaContext, version: Version) -> None:
        tried = context.piloted(version.number)
        added, removed = notebook.changed_lines(context.files(version.parent), tried.draft.files)
        self._entries.append(
            notebook.NotedVersion(
                attempt=version.number,
                purpose=version.kind,
                parent=version.parent,
                run=version.run,
                note=tried.draft.note,
                added=added,
                removed=removed,
            )
        )
        self._measured(tried, "pilot", _once(tried))

    def _ran(self, context: IdeaContext, number: int) -> None:
        """Note a version's value at each step that it reached, and on its seeds if any ran."""
        tried, state, idea_id = (
            context.tried(number),
            self.attempt_store.state,
            self.brief.idea.idea_id,
        )
        for index, step in enumerate(self.attempt_store.specs.steps):
            trial = state.trials.get(trial_name(idea_id, number, Stage.STEP, index))
            report = trial.report if trial is not None else None
            if report is not None:
                there = replace(tried, report=report)
                self._measured(there, step.name, _once(there))
        if (idea_id, number) in state.full:
            self._measured(tried, "full", self._figures(number))

    def concluded(
        self, status: Literal["scored", "failed"], attempt: int | None, reason: str | None
    ) -> None:
        """Note the idea's end, its final attempt and that attempt's values."""
        values = {} if attempt is None else self._figures(attempt)
        left = status == "scored" and not values
        self._entries.append(
            notebook.Concluded(
                status=status, attempt=attempt, values=values, reason=reason, left=left
            )
        )
        self._write(durable=True)  # the last write, so a crash must not leave a partial file

    def _measured(self, tried: Trial, budget: str, values: Values) -> None:
        outcome = tried.outcome
        failure = None
        if not isinstance(outcome, Scored):
            failure = f"{outcome.failure.value}: {outcome.detail}"
        number = tried.attempt.number
        self._note(
            notebook.NotedTrials(attempt=number, budget=budget, values=values, failure=failure)
        )

    def _figures(self, attempt: int) -> Values:
        return figures(self.attempt_store, self.brief.idea.idea_id, attempt)

    def _note(self, entry: notebook.Entry) -> None:
        self._entries.append(entry)
        self._write(durable=False)  # a driver that resumes writes it again

    def _write(self, *, durable: bool) -> None:
        paths = self.attempt_store.paths
        path = make_way(paths, paths.idea(self.brief.idea.idea_id).notes)
        write_text(path, notebook.render(self._entries), durable=durable, listed=False)


def _once(tried: Trial) -> Values:
    """Return the values of one trial, by metric."""
    return {name: (value, None, 1) for name, value in tried.values.items()}


def figures(attempt_store: AttemptStore, idea_id: str, attempt: int) -> Values:
    """Return an attempt's values by metric: mean, standard deviation (ddof 1), seeds."""
    found = {
        metric.name: attempt_store.state.scores(idea_id, attempt, metric.name)
        for metric in attempt_store.specs.recipe.spec.metrics
    }
    return {name: summed_up(values) for name, values in found.items() if values}


def summed_up(values: Mapping[int, float]) -> tuple[float, float | None, int]:
    """Return mean, standard deviation (ddof 1, None for one seed) and number of seeds."""
    found = [values[seed] for seed in sorted(values)]
    return fmean(found), stdev(found) if len(found) > 1 else None, len(found)
