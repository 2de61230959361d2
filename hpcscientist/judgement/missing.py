"""Results that the journal knows and the result files lack, or tell otherwise.

A result that is written and not journalled yet is none of them: a campaign that runs has such.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hpcscientist.history.state import CampaignState
from hpcscientist.records.idea import BASELINE_ATTEMPT, BASELINE_ID
from hpcscientist.results.aggregate import Overview


@dataclass(frozen=True, slots=True)
class Missing:
    """By idea, how many scored trials of the journal have no result file with that value."""

    validation: Mapping[str, int]
    test: Mapping[str, int]

    def finding(self, idea_id: str) -> bool:
        """Whether an idea can have no finding: its results, or the baseline's, are missing."""
        return bool(self.validation.get(idea_id) or self.validation.get(BASELINE_ID))

    def confirmation(self, idea_id: str) -> bool:
        """The same of its confirmation on the test split."""
        return bool(self.test.get(idea_id) or self.test.get(BASELINE_ID))

    @property
    def count(self) -> int:
        """How many trials they are."""
        return sum(self.validation.values()) + sum(self.test.values())

    @property
    def warning(self) -> str:
        """What a reader must know of it; "" where nothing is missing."""
        if not self.count:
            return ""
        what = "their ideas have no finding"
        if self.validation.get(BASELINE_ID):
            what = "the baseline's are among them, so no idea has a finding"
        elif self.test.get(BASELINE_ID):
            what += "; the baseline's on the test split are among them, so nothing is confirmed"
        return (
            f"{self.count} results of scored trials are gone or were changed since they were "
            f"journalled; {what}; `hpcsci resume` writes them again"
        )


def missing(state: CampaignState, found: Overview, metric: str) -> Missing:
    """Hold the result files against the journal, for the baseline and ideas that have ended."""
    standing = [(BASELINE_ID, BASELINE_ATTEMPT)]
    standing += [
        (i.idea_id, i.ended.attempt) for i in state.in_order() if i.ended and i.ended.attempt
    ]
    return Missing(
        validation={
            idea_id: len(
                state.scores(idea_id, attempt, metric).items()
                - found.validation.of(idea_id, attempt).items()
            )
            for idea_id, attempt in standing
        },
        test={
            idea_id: len(
                state.test_scores(idea_id, attempt, metric).items()
                - found.test.of(idea_id, attempt).items()
            )
            for idea_id, attempt in state.confirming
        },
    )
