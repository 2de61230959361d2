"""What the campaign knows so far, put into words for the next proposal.

Values come from the trial reports in the journal; findings are derived here and never
stored, so that they always speak of all ideas up to now.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import fmean

from hpcscientist.campaign.specs import BASELINE_ATTEMPT
from hpcscientist.campaign.state import CampaignState, IdeaState
from hpcscientist.feedback.decision import findings
from hpcscientist.feedback.summary import Feedback, IdeaNote, summarise
from hpcscientist.records.finding import Finding
from hpcscientist.records.idea import BASELINE_ID, Idea
from hpcscientist.records.proposing import ArchiveEntry, PastScore
from hpcscientist.records.trial import MetricSpec

IN_PROGRESS = "in progress"


@dataclass(slots=True)
class Knowledge:
    """Reads the fold; remembers the ideas' texts, which the journal does not hold."""

    state: CampaignState
    metric: MetricSpec
    q: float
    feedback_tokens: int
    archive_size: int
    _ideas: dict[str, Idea] = field(default_factory=dict)
    _findings: dict[str, Finding] = field(default_factory=dict)
    _judged: tuple[int, int] = (0, 0)
    _told: Feedback | None = None

    def remember(self, idea: Idea) -> None:
        """Keep an idea's texts."""
        self._ideas[idea.idea_id] = idea

    def scores(self, before: int) -> tuple[PastScore, ...]:
        """Mean primary metric of the ideas numbered below `before`, in order of numbers."""
        past = []
        for idea_id, idea in self._ideas.items():
            if idea.number < before:
                values = self._values(self.state.ideas[idea_id])
                mean = fmean(values.values()) if values else None
                past.append(PastScore(idea_id=idea_id, value=mean))
        return tuple(past)

    def feedback(self) -> Feedback:
        """The findings so far as text for a prompt, most informative first."""
        if not self._judge() and self._told is not None:
            return self._told
        notes = []
        for idea_id, idea in self._ideas.items():
            ended = self.state.ideas[idea_id].ended
            if ended is not None and ended.status != "rejected":
                note = IdeaNote(
                    idea_id=idea_id,
                    title=idea.proposal.title,
                    summary=idea.proposal.summary,
                    status=ended.status,
                    reason=ended.reason,
                    finding=self._findings.get(idea_id),
                )
                notes.append(note)
        self._told = summarise(notes, self.metric, self.feedback_tokens)
        return self._told

    def archive(self) -> tuple[ArchiveEntry, ...]:
        """The latest ideas, each with a phrase for where it stands."""
        latest = list(self._ideas.items())[-self.archive_size :] if self.archive_size else []
        return tuple(
            ArchiveEntry(
                idea_id=idea_id,
                title=idea.proposal.title,
                summary=idea.proposal.summary,
                finding=self._phrase(idea_id),
            )
            for idea_id, idea in latest
        )

    def _phrase(self, idea_id: str) -> str:
        ended = self.state.ideas[idea_id].ended
        if ended is None:
            return IN_PROGRESS
        finding = self._findings.get(idea_id)
        if ended.status == "scored" and finding is not None and finding.verdict is not None:
            return finding.verdict.value
        return ended.status

    def _judge(self) -> bool:
        """Judge anew, at most once per 5 % of newly ended ideas: a sweep stays linear.

        Return whether there is anything new to tell.
        """
        ended = sum(idea.ended is not None for idea in self.state.ideas.values())
        baseline = self.state.scores(BASELINE_ID, BASELINE_ATTEMPT, self.metric.name)
        before, seeds = self._judged
        if seeds == len(baseline) and ended - before < max(1, before // 20):
            return False
        values = {i: self._values(idea) for i, idea in self.state.ideas.items()}
        scored = {i: v for i, v in values.items() if v is not None}
        self._findings = findings(baseline, scored, self.metric, self.q)
        self._judged = (ended, len(baseline))
        return True

    def _values(self, idea: IdeaState) -> dict[int, float] | None:
        """Seed -> value of an idea that ended scored; None of any other."""
        if idea.ended is None or idea.ended.status != "scored" or idea.ended.attempt is None:
            return None
        return self.state.scores(idea.idea_id, idea.ended.attempt, self.metric.name)
