"""Reviews and comparisons of papers, as they are written to disk and printed as JSON."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from hpcscientist.records.base import Record

Place = Literal[
    "text", "hidden text", "metadata", "annotation", "bookmark", "comment", "source", "encoded text"
]
Decision = Literal["accept", "reject"]
Interval = tuple[float, float]


class Finding(Record):
    """Something in a paper that its reviewer was not shown: a text for machines alone, or one
    that tells a reviewer what to do. `quote` is that text, shortened; `page` counts from 1.
    """

    place: Place
    quote: str
    instructs: bool
    page: int | None = None
    why: str = ""


class Mark(Record):
    """One score of one reviewer: what was sampled, and the expectation over the scale where the
    server told how likely each value was.
    """

    sampled: int
    expected: float | None = None

    @property
    def value(self) -> float:
        """The expectation where it is known."""
        return float(self.sampled) if self.expected is None else self.expected


class MemberReview(Record):
    """One reviewer's review after its last reflection.

    `rounds` counts its replies; `settled`: it ended because the reviewer had nothing to change.
    `texts`, `lists`, `choices` and `marks` are its answers by the form's fields.
    """

    member: int = Field(ge=1)
    rounds: int = Field(ge=1)
    settled: bool
    texts: dict[str, str] = Field(default={})
    lists: dict[str, tuple[str, ...]] = Field(default={})
    choices: dict[str, str] = Field(default={})
    marks: dict[str, Mark] = Field(default={})


class Spread(Record):
    """A score over all reviewers: means, and the standard deviation (ddof 1) of one review.

    `interval` is the 95% t interval of the mean of `value`; None with fewer than two reviewers,
    or where they do not differ. `value` is by expectation where every reviewer has one.
    """

    value: float
    sampled: float
    expected: float | None
    deviation: float | None
    interval: Interval | None
    count: int


class Measure(Record):
    """A measured figure with its 95% interval; None where there is nothing to take it from."""

    value: float | None
    interval: Interval | None = None
    count: int = 0


class Calibrated(Record):
    """What a calibration makes of a review, and how far it errs on papers held out.

    `applied` false: it was made with another form, model or number of reviews, which `note` names.
    """

    applied: bool
    note: str
    probability: float | None = None
    decision: Decision | None = None
    threshold: float | None = None
    labelled: str = ""
    papers: int = 0
    measures: dict[str, Measure] = Field(default={})


class Effort(Record):
    """What was asked of the models. Seconds are theirs, added up."""

    replies: int = 0
    repairs: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    estimated: bool = False
    seconds: float = 0.0


class Before(Record):
    """The overall score of an earlier version of a paper, by the same form and models.

    `gain` is now minus before, with Welch's 95% interval over reviewers. Who revises for a reviewer
    raises its scores, so a gain is no measure of quality.
    """

    review_id: str
    overall: float
    gain: Measure


class Review(Record):
    """`review.json`. `parts`: into how many parts the paper was read, 1: as a whole.

    `decision` follows from the mean of the form's overall score and its threshold; `chair` is what
    the area chair decided. `lost` says why reviewers are missing.
    """

    version: Literal[1] = 1
    review_id: str
    paper: str
    title: str
    paper_sha256: str
    form: str
    form_sha256: str
    models: tuple[str, ...]
    ensemble: int
    reflections: int
    temperature: float
    examples: int
    parts: int
    members: tuple[MemberReview, ...]
    lost: tuple[str, ...] = ()
    spread: dict[str, Spread]
    overall: str
    threshold: float
    decision: Decision
    chair: MemberReview | None = None
    calibrated: Calibrated
    findings: tuple[Finding, ...] = ()
    troubles: tuple[str, ...] = ()
    effort: Effort = Effort()
    before: Before | None = None


class Sample(Record):
    """One comparison by a judge. `swapped`: the second paper was shown first.

    `marks` are from -3 to 3, positive where the first paper is better, whatever the order.
    """

    number: int = Field(ge=1)
    swapped: bool
    marks: dict[str, Mark]
    reason: str


class AspectResult(Record):
    """One aspect over a judge's samples, or over judges.

    `comparable` is the share of samples of at least -1. `consistency` is the share of swapped
    pairs that agree on which paper is better, or that neither is; `position` how much better a
    paper seems for being shown first. Over judges, means are of the judges' own.
    """

    rating: Measure
    expected: Measure
    comparable: Measure
    consistency: Measure
    position: Measure


class JudgeResult(Record):
    """What one model made of two papers."""

    judge: str
    models: tuple[str, ...]
    samples: tuple[Sample, ...]
    lost: tuple[str, ...] = ()
    aspects: dict[str, AspectResult]
    effort: Effort = Effort()


class PaperComparison(Record):
    """`comparison.json`: two papers, compared by some judges."""

    version: Literal[1] = 1
    comparison_id: str
    first: str
    second: str
    sha256: tuple[str, str]
    judges: tuple[JudgeResult, ...]
    aspects: dict[str, AspectResult]
    findings: dict[str, tuple[Finding, ...]] = Field(default={})
