"""An idea's notes.md, written again at every step from what happened so far."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean, stdev
from typing import Literal

from hpcscientist.authoring.notes import (
    Concluded,
    Entry,
    Grown,
    Measured,
    NotWritten,
    Planned,
    Read,
    Reviewed,
    Written,
    changed_lines,
    render,
)
from hpcscientist.authoring.tree import Node
from hpcscientist.campaign.pursuit.course import Leg
from hpcscientist.campaign.pursuit.tryout import Tried, Tryout
from hpcscientist.files.atomic import write_text
from hpcscientist.records.authoring import Brief, GaveUp
from hpcscientist.records.experiment import AnalysisReply, CodeReview
from hpcscientist.records.outcome import Scored

Values = dict[str, tuple[float, float | None, int]]


@dataclass(slots=True)
class Diary:
    """The journal of one idea. What a resumed driver finds out again, it writes again."""

    tryout: Tryout
    brief: Brief
    _entries: list[Entry] = field(default_factory=list)

    def planned(self, remark: str = "") -> None:
        """Note how the idea is to be carried out; `remark` says what is lacking in that."""
        idea = self.brief.idea
        self._note(
            Planned(
                idea_id=idea.idea_id,
                title=idea.proposal.title,
                plan=self.brief.plan,
                remark=remark,
            )
        )

    def tried(self, leg: Leg, tried: Tried, before: Mapping[str, str]) -> None:
        """Note a version and its pilot; `before` are the files it was made from."""
        added, removed = changed_lines(before, tried.draft.files)
        self._entries.append(
            Written(
                attempt=tried.attempt.number,
                purpose=tried.kind,
                parent=leg.parent,
                run=leg.run,
                note=tried.draft.note,
                added=added,
                removed=removed,
            )
        )
        self._measured(tried, "pilot", _once(tried))

    def gave_up(self, leg: Leg, gave_up: GaveUp) -> None:
        """Note that there is no other version, and why."""
        self._note(NotWritten(purpose=leg.kind, run=leg.run, reason=gave_up.reason))

    def grown(self, nodes: Sequence[Node], best: int | None) -> None:
        """Note how a tree of versions has grown, and which of them goes on."""
        metric = self.tryout.specs.recipe.spec.primary.name
        self._note(Grown(metric=metric, nodes=tuple(nodes), best=best))

    def reviewed(self, review: CodeReview) -> None:
        """Note what a reviewer found."""
        self._note(Reviewed(review=review))

    def ran(self, tried: Tried) -> None:
        """Note what each step gave that it came to, and all seeds if it came so far."""
        number, state = tried.attempt.number, self.tryout.state
        for index, step in enumerate(self.tryout.specs.steps):
            spec = self.tryout.specs.step(self.brief.idea, tried.attempt, index)
            trial = state.trials.get(spec.trial_id)
            report = trial.report if trial is not None else None
            if report is not None:
                there = replace(tried, report=report)
                self._measured(there, step.name, _once(there))
        if (self.brief.idea.idea_id, number) in state.full:
            self._measured(tried, "full", self._figures(number))

    def read(self, number: int, reply: AnalysisReply) -> None:
        """Note what an analyst made of the runs."""
        self._note(Read(number=number, reply=reply))

    def concluded(
        self, status: Literal["scored", "failed"], attempt: int | None, reason: str | None
    ) -> None:
        """Note what stands in the end, and its values."""
        values = {} if attempt is None else self._figures(attempt)
        left = status == "scored" and not values
        self._note(
            Concluded(status=status, attempt=attempt, values=values, reason=reason, left=left)
        )

    def _measured(self, tried: Tried, budget: str, values: Values) -> None:
        outcome = tried.outcome
        failure = None
        if not isinstance(outcome, Scored):
            failure = f"{outcome.failure.value}: {outcome.detail}"
        number = tried.attempt.number
        self._note(Measured(attempt=number, budget=budget, values=values, failure=failure))

    def _figures(self, attempt: int) -> Values:
        return figures(self.tryout, self.brief.idea.idea_id, attempt)

    def _note(self, entry: Entry) -> None:
        self._entries.append(entry)
        path = self.tryout.paths.idea(self.brief.idea.idea_id).notes
        write_text(path, render(self._entries))


def _once(tried: Tried) -> Values:
    """What one trial gave."""
    return {name: (value, None, 1) for name, value in tried.values.items()}


def figures(tryout: Tryout, idea_id: str, attempt: int) -> Values:
    """Return an attempt's values by metric: mean, standard deviation (ddof 1), seeds."""
    found = {
        metric.name: tryout.state.scores(idea_id, attempt, metric.name)
        for metric in tryout.specs.recipe.spec.metrics
    }
    return {name: summed_up(values) for name, values in found.items() if values}


def summed_up(values: Mapping[int, float]) -> tuple[float, float | None, int]:
    """Return mean, standard deviation (ddof 1, None for one seed) and number of seeds."""
    found = [values[seed] for seed in sorted(values)]
    return fmean(found), stdev(found) if len(found) > 1 else None, len(found)
