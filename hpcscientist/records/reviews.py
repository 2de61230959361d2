"""Reviews and comparisons of papers, as written to disk and printed as JSON."""

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
    """A text in a paper that was withheld from reviewers: one that only machines read, or one
    that instructs reviewers. `quote` is that text, shortened; `page` counts from 1.
    """

    place: Place
    quote: str
    instructs: bool
    page: int | None = None
    why: str = ""


class Mark(Record):
    """One score of one reviewer: the sampled value, and the expected value if the server reported
    the probability of each value.
    """

    sampled: int
    expected: float | None = None

    @property
    def value(self) -> float:
        """The expected value if known, else the sampled one."""
        return float(self.sampled) if self.expected is None else self.expected


class MemberReview(Record):
    """One reviewer's review after its last reflection.

    `rounds` counts its replies; `settled`: reflection ended because the reviewer was done.
    `texts`, `lists`, `choices` and `marks` hold its answers by the form's fields.
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
    or if their values are equal. `value` uses expected values if every reviewer has one.
    """

    value: float
    sampled: float
    expected: float | None
    deviation: float | None
    interval: Interval | None
    count: int


class Measure(Record):
    """A measured value with its 95% interval; None if there is no data for it."""

    value: float | None
    interval: Interval | None = None
    count: int = 0


class Calibrated(Record):
    """A review's calibrated probability and decision, with the error on held-out papers.

    `applied` is false if the calibration used another form, model or number of reviews; `note`
    names the difference.
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
    """The cost of the model calls. `seconds` is the models' total time."""

    replies: int = 0
    repairs: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    estimated: bool = False
    seconds: float = 0.0


class Before(Record):
    """The overall score of an earlier version of a paper, by the same form and models.

    `gain` is now minus before, with Welch's 95% interval over reviewers. Revising a paper to please
    a reviewer raises its scores, so a gain does not measure quality.
    """

    review_id: str
    overall: float
    gain: Measure


class Review(Record):
    """`review.json`. `parts` is the number of parts in which the paper was read; 1: as a whole.

    `decision` follows from the mean of the form's overall score and its threshold; `chair` is the
    area chair's review. `lost` says why reviewers are missing.
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

    `marks` are from -3 to 3, positive if the first paper is better, in either order.
    """

    number: int = Field(ge=1)
    swapped: bool
    marks: dict[str, Mark]
    reason: str


class AspectResult(Record):
    """The result for one aspect, over a judge's samples or over judges.

    `comparable` is the share of samples of at least -1. `consistency` is the share of swapped
    pairs that agree on which paper is better, or that neither is. `position` is how much better a
    paper is rated because it is shown first. Results over judges are means of each judge's results.
    """

    rating: Measure
    expected: Measure
    comparable: Measure
    consistency: Measure
    position: Measure


class JudgeResult(Record):
    """One judge's comparison of two papers."""

    judge: str
    models: tuple[str, ...]
    samples: tuple[Sample, ...]
    lost: tuple[str, ...] = ()
    aspects: dict[str, AspectResult]
    effort: Effort = Effort()


class PaperComparison(Record):
    """`comparison.json`: two papers, compared by one or more judges."""

    version: Literal[1] = 1
    comparison_id: str
    first: str
    second: str
    sha256: tuple[str, str]
    judges: tuple[JudgeResult, ...]
    aspects: dict[str, AspectResult]
    findings: dict[str, tuple[Finding, ...]] = Field(default={})
