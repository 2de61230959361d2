"""What was made for an idea so far: its versions' code, and the trials that decided about them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hpcscientist.campaign.pursuit.tryout import Tried
from hpcscientist.records.authoring import Brief, Draft
from hpcscientist.records.experiment import AnalysisReply, CodeReview
from hpcscientist.records.idea import Idea


@dataclass(slots=True)
class Course:
    """By number, the versions that were written, those that were tried with their latest trial, and
    what a reviewer and an analyst found.

    `reference` is the code that first versions are made from.
    """

    brief: Brief
    reference: Mapping[str, str]
    drafts: dict[int, Draft] = field(default_factory=dict)
    tried: dict[int, Tried] = field(default_factory=dict)
    reviews: dict[int, CodeReview] = field(default_factory=dict)
    readings: dict[int, AnalysisReply] = field(default_factory=dict)

    @property
    def idea(self) -> Idea:
        """The idea itself."""
        return self.brief.idea

    def files(self, number: int) -> Mapping[str, str]:
        """Return the code of a version; 0: the reference."""
        return self.drafts[number].files if number else self.reference

    def seen(self, known: int) -> tuple[str, ...]:
        """Return the hashes of the versions tried, up to `known`."""
        numbers = sorted(number for number in self.tried if number <= known)
        return tuple(self.tried[number].attempt.code_hash for number in numbers)
