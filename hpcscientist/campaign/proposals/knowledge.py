"""What the campaign knows so far, put into words for the next proposal.

Values come from the trial reports in the journal; findings are derived here and never
stored, so that they always speak of all ideas up to now.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from operator import attrgetter
from statistics import fmean

from hpcscientist.campaign.proposals.idea_file import known_idea
from hpcscientist.config.settings import Settings
from hpcscientist.feedback.causes import NOTHING, Evidence
from hpcscientist.feedback.decision import gain
from hpcscientist.feedback.summary import Feedback, IdeaNote, effect_of, summarise
from hpcscientist.files.rundir import RunPaths
from hpcscientist.history.standing import IdeaState
from hpcscientist.history.state import CampaignState
from hpcscientist.judgement.duplicates import repeated, said
from hpcscientist.judgement.judging import judge
from hpcscientist.records.asked.proposing import ArchiveEntry, Leader, PastScore
from hpcscientist.records.found.finding import Finding, Verdict
from hpcscientist.records.idea import BASELINE_ATTEMPT, BASELINE_ID, idea_id_of
from hpcscientist.records.trial import MetricSpec

IN_PROGRESS = "in progress"


@dataclass(slots=True)
class Knowledge:
    """Reads the fold, and of the idea that others develop also its file.

    A model is told nothing of the control arm's ideas: what it learned from them would not be its
    own. `tells` false: it is told of its earlier ideas, and not what came of them.
    `seeds` is the recipe's number of seeds. `evidence` tells what else was measured of an idea.
    """

    paths: RunPaths
    state: CampaignState
    metric: MetricSpec
    settings: Settings
    feedback_tokens: int
    archive_size: int
    seeds: int
    tells: bool = True
    evidence: Callable[[str], Evidence] = lambda idea_id: NOTHING
    _measured: list[PastScore] = field(default_factory=list)  # of ideas that have ended
    _looked_at: int = 0  # ideas up to this number are in it, where they belong there
    _findings: dict[str, Finding] = field(default_factory=dict)
    _judged: tuple[int, int] = (0, 0)
    _told: Feedback | None = None

    def scores(self, before: int) -> tuple[PastScore, ...]:
        """Mean primary metric of the control arm's ideas numbered below `before`, in their order.

        All of these must have ended.
        """
        measured = self._measured
        for number in range(self._looked_at + 1, before):
            self._looked_at = number
            idea = self.state.ideas.get(idea_id_of(number))
            if idea is not None and idea.knobs is not None:
                values = self._values(idea)
                measured.append(
                    PastScore(
                        idea_id=idea.idea_id,
                        number=number,
                        knobs=idea.knobs,
                        value=fmean(values.values()) if values else None,
                    )
                )
        return tuple(measured[: bisect_left(measured, before, key=attrgetter("number"))])

    def feedback(self) -> Feedback:
        """The findings so far as text for a prompt, most informative first."""
        if not self.tells:
            return Feedback(text="", shown=(), improved=())
        if not self._judge() and self._told is not None:
            return self._told
        notes, copies = [], repeated(self.state)
        for idea in self._own():
            idea_id, ended = idea.idea_id, idea.ended
            if ended is not None and ended.status != "rejected":
                note = IdeaNote(
                    idea_id=idea_id,
                    title=idea.title,
                    summary=idea.summary,
                    status=ended.status,
                    reason=ended.reason,
                    finding=self._findings.get(idea_id),
                    copy_of=self._copied(idea_id, copies.get(idea_id)),
                    evidence=self.evidence(idea_id),
                )
                notes.append(note)
        level = self.settings.loop.q
        self._told = summarise(notes, self.metric, self.feedback_tokens, level)
        return self._told

    def leader(self, before: int) -> Leader | None:
        """Of the ideas numbered below `before`, the one that improved most, the first on a tie.

        None without an improvement. It depends on those ideas alone, judged among themselves.
        """
        judged = judge(self.state, self.metric, self.settings, seeds=self.seeds, before=before)
        own = {idea.idea_id for idea in self._own()}
        better = {i for i, found in judged.items() if found.verdict is Verdict.IMPROVEMENT}
        improved = [i for i in judged if i in own & better]
        if not improved:
            return None
        best = max(improved, key=lambda i: gain(judged[i].comparison, self.metric))
        return Leader(
            idea_id=best,
            proposal=known_idea(
                self.paths.idea(best).idea, self.state.ideas[best].idea_hash
            ).proposal,
            effect=effect_of(judged[best].comparison, self.metric),
        )

    def archive(self) -> tuple[ArchiveEntry, ...]:
        """The latest ideas, each with a phrase for where it stands."""
        latest = itertools.islice(self._latest(), self.archive_size)
        return tuple(
            ArchiveEntry(
                idea_id=idea.idea_id,
                title=idea.title,
                summary=idea.summary,
                finding=self._phrase(idea.idea_id),
            )
            for idea in reversed(list(latest))
        )

    def _latest(self) -> Iterator[IdeaState]:
        """The ideas of the model's arm, the last first."""
        for number in range(self.state.progress.proposed.high, 0, -1):
            idea = self.state.ideas.get(idea_id_of(number))
            if idea is not None and idea.arm == "model":
                yield idea

    def _own(self) -> list[IdeaState]:
        """The ideas of the model's arm, in the order of their numbers."""
        return list(self._latest())[::-1]

    def _copied(self, idea_id: str, original: str | None) -> str | None:
        """Say whose predictions an idea's are; one of the control arm is not named."""
        if original is None:
            return None
        other = self.state.ideas.get(original)
        if other is not None and other.arm != "model":
            return "its predictions are those of an earlier idea"
        return said(self.state, idea_id, original)

    def _phrase(self, idea_id: str) -> str:
        ended = self.state.ideas[idea_id].ended
        if ended is None or not self.tells:
            return IN_PROGRESS
        finding = self._findings.get(idea_id)
        if ended.status == "scored" and finding is not None and finding.verdict is not None:
            return finding.verdict.value
        return ended.status

    def _judge(self) -> bool:
        """Judge anew, at most once per 5 % of newly ended ideas: a sweep stays linear.

        Return whether there is anything new to tell.
        """
        ended = self.state.progress.ended
        baseline = self.state.scores(BASELINE_ID, BASELINE_ATTEMPT, self.metric.name)
        before, seeds = self._judged
        if seeds == len(baseline) and ended - before < max(1, before // 20):
            return False
        self._findings = judge(self.state, self.metric, self.settings, seeds=self.seeds)
        self._judged = (ended, len(baseline))
        return True

    def _values(self, idea: IdeaState) -> dict[int, float] | None:
        """Seed -> value of an idea that ended scored; None of any other."""
        if idea.ended is None or idea.ended.status != "scored" or idea.ended.attempt is None:
            return None
        return self.state.scores(idea.idea_id, idea.ended.attempt, self.metric.name)
