"""Completeness and correctness of a campaign's code, as Scientist-Bench defines them.

The definitions are from AI-Researcher (arXiv 2505.18705, 4.1). Completeness is the share of ideas
whose code ends as resolved: in the paper, when the agent says so and its code runs within its
budget; here, when an attempt was scored and no review found it incomplete. Correctness is the mean
mark, 1 to 5, over several independent judgements of the code. The paper gives both as bare numbers.
Here each has a 95% interval, the number of judgements, and their spread.

Intervals. Completeness: Wilson's score interval (Wilson 1927, Journal of the American Statistical
Association 22), which is honest for few ideas and near 0 and 1, where the usual one has no width.
Correctness: judgements of one idea are not independent draws, so the standard error is taken over
ideas (the sandwich of Liang & Zeger 1986, Biometrika 73, with ideas as clusters and the factor
k / (k - 1)) and Student's t with k - 1 degrees of freedom. If all ideas have equally many
judgements, it is the t interval of the ideas' means.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Annotated

from pydantic import Field

from hpcscientist.feedback.statistics import CONFIDENCE, wilson
from hpcscientist.history.entities import IdeaState
from hpcscientist.history.state import CampaignState
from hpcscientist.records.base import Record

_LOWEST, _HIGHEST = 1.0, 5.0  # marks


class IdeaEnd(Record):
    """The end of one idea. `resolved`: it has an attempt that was scored and complete.

    `marks` are the correctness marks of the final attempt, or of the last judged attempt if the
    final one was not judged; their expected values if these are known.
    """

    idea_id: str
    resolved: bool
    marks: tuple[Annotated[float, Field(ge=1, le=5)], ...] = ()


class Quality(Record):
    """Completeness (0 to 1) and correctness (1 to 5) over the ideas of a campaign.

    `unjudged` of the resolved ideas have no judgement: no reviewer said that they were complete.
    Means and intervals (95%) are None without data; the interval of correctness also with fewer
    than two judged ideas, and if these do not differ at all. `spread` is the standard deviation
    (ddof 1) of all judgements.
    """

    ideas: int = Field(ge=0)
    resolved: int = Field(ge=0)
    unjudged: int = Field(ge=0)
    completeness: float | None
    completeness_interval: tuple[float, float] | None
    judged_ideas: int = Field(ge=0)
    judgements: int = Field(ge=0)
    correctness: float | None
    correctness_interval: tuple[float, float] | None
    spread: float | None

    def __str__(self) -> str:
        """Return both measures in one line."""
        return f"completeness {self._completeness()}; correctness {self._correctness()}"

    def _completeness(self) -> str:
        if self.completeness is None:
            return "unknown (no ideas)"
        interval = _interval(self.completeness_interval)
        unjudged = f", {self.unjudged} of them unjudged" if self.unjudged else ""
        of = f"{self.resolved} of {self.ideas} ideas{unjudged}"
        return f"{self.completeness:.3f} ({of}{interval})"

    def _correctness(self) -> str:
        if self.correctness is None:
            return "unknown (no judgements)"
        spread = "" if self.spread is None else f" ± {self.spread:.2f}"
        count = "1 judgement" if self.judgements == 1 else f"{self.judgements} judgements"
        of = "1 idea" if self.judged_ideas == 1 else f"{self.judged_ideas} ideas"
        interval = _interval(self.correctness_interval)
        return f"{self.correctness:.2f}{spread} ({count} of {of}{interval})"


def measure(state: CampaignState) -> Quality | None:
    """Return both measures over the ended ideas that were not rejected, None without reviews."""
    ended = [
        i for i in state.ideas.values() if i.ended is not None and i.ended.status != "rejected"
    ]
    if not any(idea.reviews for idea in ended):
        return None
    return quality(_judged(idea) for idea in ended)


def quality(ideas: Iterable[IdeaEnd]) -> Quality:
    """Return completeness and correctness; neither depends on the order of ideas and marks."""
    ended = list(ideas)
    resolved = sum(idea.resolved for idea in ended)
    marks = [idea.marks for idea in ended if idea.marks]
    every = [mark for of in marks for mark in of]
    return Quality(
        ideas=len(ended),
        resolved=resolved,
        unjudged=sum(idea.resolved and not idea.marks for idea in ended),
        completeness=resolved / len(ended) if ended else None,
        completeness_interval=wilson(resolved, len(ended)) if ended else None,
        judged_ideas=len(marks),
        judgements=len(every),
        correctness=_mean(every) if every else None,
        correctness_interval=_clustered(marks),
        spread=_std(every),
    )


def _judged(idea: IdeaState) -> IdeaEnd:
    assert idea.ended is not None
    standing = idea.reviews.get(idea.ended.attempt or 0)
    last = standing or (idea.reviews[max(idea.reviews)] if idea.reviews else None)
    return IdeaEnd(
        idea_id=idea.idea_id,
        resolved=idea.ended.status == "scored" and (standing is None or standing.complete),
        marks=(last.expected or last.marks) if last is not None else (),
    )


def _clustered(marks: Sequence[Sequence[float]]) -> tuple[float, float] | None:
    """Return the 95% interval of the mean of all marks, with ideas as clusters."""
    count = len(marks)
    if count < 2:
        return None
    judgements = sum(map(len, marks))
    mean = _mean([mark for of in marks for mark in of])
    sums = [math.fsum(of) - len(of) * mean for of in marks]
    squares = math.fsum(of * of for of in sums)
    error = math.sqrt(squares * count / (count - 1)) / judgements
    if error < 1e-12:
        return None
    from scipy.special import stdtrit  # noqa: PLC0415  (slow to import)

    reach = float(stdtrit(count - 1, (1 + CONFIDENCE) / 2)) * error
    return max(_LOWEST, mean - reach), min(_HIGHEST, mean + reach)


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _std(values: Sequence[float]) -> float | None:
    if len(values) < 2:
        return None
    centre = _mean(values)
    return math.sqrt(math.fsum((value - centre) ** 2 for value in values) / (len(values) - 1))


def _interval(interval: tuple[float, float] | None) -> str:
    return "" if interval is None else f"; 95% {interval[0]:.2f} to {interval[1]:.2f}"
