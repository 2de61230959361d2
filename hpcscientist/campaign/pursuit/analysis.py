"""Further runs of a scored idea: what was measured goes to an analyst, who may ask for another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hpcscientist.campaign.once import once
from hpcscientist.campaign.pursuit.course import Arrived, Dropped, End, Failed, Spoilt
from hpcscientist.campaign.pursuit.diary import Diary, figures, summed_up
from hpcscientist.campaign.pursuit.tryout import Tried, Tryout
from hpcscientist.campaign.specs import BASELINE_ATTEMPT
from hpcscientist.files.text import one_line
from hpcscientist.records.authoring import Brief
from hpcscientist.records.experiment import AnalysisReply, FurtherRun, RunOutcome

if TYPE_CHECKING:
    from hpcscientist.authoring.reading import RunAnalyst


class _Unanswered(Exception):
    """There is no usable reply."""


@dataclass(slots=True)
class Analysis:
    """The runs of one idea so far, and who reads them."""

    analyst: RunAnalyst
    tryout: Tryout
    diary: Diary
    brief: Brief
    main: Tried
    _outcomes: list[RunOutcome] = field(default_factory=list)

    async def next(
        self, baseline: Mapping[str, Mapping[int, float]], number: int
    ) -> FurtherRun | None:
        """Return the run that is asked for next, None if none is. Raises EndpointError.

        `baseline` holds the reference's values by metric and seed; `number` counts from 1.
        """
        if not self._outcomes:
            title = self.brief.idea.proposal.title
            self._outcomes.append(self._measured("main", title, self.main))
        reference = RunOutcome(
            attempt=BASELINE_ATTEMPT,
            kind="main",
            title="the reference",
            values={metric: summed_up(values) for metric, values in baseline.items() if values},
        )
        curves = {
            outcome.attempt: self._curve(outcome.attempt)
            for outcome in self._outcomes
            if outcome.failure is None
        }

        async def read() -> AnalysisReply:
            reply = await self.analyst.next(
                self.brief, tuple(self._outcomes), reference, curves, number
            )
            if reply is None:
                raise _Unanswered
            return reply

        path = self.tryout.paths.idea(self.brief.idea.idea_id).reading(number)
        try:
            reply = await once(path, AnalysisReply, read)
        except _Unanswered:
            return None
        self.diary.read(number, reply)
        return reply.run

    def add(self, run: FurtherRun, end: End) -> None:
        """Take in what became of a run."""
        match end:
            case Arrived():
                self._outcomes.append(self._measured(run.kind, run.title, end.tried, run.change))
                return
            case Dropped():
                failure = end.why
            case Failed():
                failure = end.reason(1)
            case Spoilt():
                failure = f"machine failed ({end.outcome.failure.value})"
        self._outcomes.append(
            RunOutcome(
                attempt=self.main.attempt.number,
                kind=run.kind,
                title=run.title,
                change=run.change,
                failure=one_line(failure),
            )
        )

    def _measured(self, kind: str, title: str, tried: Tried, change: str = "") -> RunOutcome:
        attempt = tried.attempt
        return RunOutcome.model_validate(
            {
                "attempt": attempt.number,
                "kind": kind,
                "title": title,
                "change": change,
                "values": figures(self.tryout, attempt.idea_id, attempt.number),
            }
        )

    def _curve(self, attempt: int) -> str:
        """The learning curve of an attempt's first seed."""
        full = self.tryout.state.full.get((self.brief.idea.idea_id, attempt), {})
        return self.tryout.curve(min(full)) if full else ""
