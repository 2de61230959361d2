"""The context of proposals: findings so far, literature, mode and direction."""

from __future__ import annotations

import asyncio
import itertools
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from pydantic import RootModel, ValidationError

from hpcscientist.campaign.integrity import FileIntegrity, once
from hpcscientist.campaign.proposals.idea_file import known_idea
from hpcscientist.config.extent import Extent
from hpcscientist.config.settings import ProposingSettings, Settings
from hpcscientist.errors import RunDirectoryError
from hpcscientist.feedback.causes import NOTHING, IdeaEvidence
from hpcscientist.feedback.decision import gain
from hpcscientist.feedback.duplicates import repeated, said
from hpcscientist.feedback.summary import Feedback, IdeaNote, effect_of, summarise
from hpcscientist.files.atomic import write_text
from hpcscientist.files.handed import read_regular
from hpcscientist.files.rundir import RunPaths
from hpcscientist.history.entities import IdeaState
from hpcscientist.history.journal import Journal
from hpcscientist.history.state import CampaignState
from hpcscientist.judgement.findings import campaign_findings, front, front_line
from hpcscientist.recipe.schema import Topic
from hpcscientist.records.events import NoteTaken
from hpcscientist.records.findings import Finding, Verdict
from hpcscientist.records.idea import (
    BASELINE_ATTEMPT,
    BASELINE_ID,
    SURVEY_ID,
    Mode,
    PromptRef,
    idea_id_of,
)
from hpcscientist.records.literature import Survey
from hpcscientist.records.objective import NOT_MEASURED, Objective, ObjectiveValue, objective_value
from hpcscientist.records.proposing import (
    ArchiveEntry,
    BatchTask,
    Direction,
    Leader,
    PastScore,
    ProposalTask,
    Reference,
)

if TYPE_CHECKING:
    from hpcscientist.ideation.directions import DirectionFinder
    from hpcscientist.literature.survey import Surveyor
    from hpcscientist.models.recorded import RecordedModel


# Batches of ideas, each given a distinct direction before they are proposed in parallel.
#
# A batch is a range of idea numbers. Its ideas, and the calls made for them, depend on their
# numbers alone, so a replay gives the same result whatever runs concurrently.

_FIRST_OF_BATCH = "directions/1"  # the first call of a batch


class Directions(RootModel[tuple[Direction | None, ...]]):
    """The content of directions.json: one direction for each number of the batch, in order."""


Given = tuple[Direction | None, tuple[str, ...]]


@dataclass(slots=True)
class Batches:
    """Gives each idea its direction; the first idea of a batch that asks finds all of them."""

    extent: Extent
    finder: DirectionFinder
    size: int
    paths: RunPaths | None = None
    record: RecordedModel | None = None
    integrity: FileIntegrity | None = None
    _found: dict[int, asyncio.Task[tuple[Direction | None, ...]]] = field(default_factory=dict)

    def of(self, number: int, round_number: int) -> tuple[int, ...]:
        """Return the ideas of one batch, without the control arm's; a batch ends with its round."""
        return self.extent.batch(number, round_number, self.size)

    def leader(self, number: int, round_number: int) -> str:
        """Return the idea id under which the calls for a batch's directions are recorded."""
        return idea_id_of(self.of(number, round_number)[0])

    async def direction(
        self, number: int, round_number: int, task: Callable[[str, int], ProposalTask]
    ) -> Given:
        """Return an idea's direction, and the titles of the other directions of its batch.

        `task` makes an idea's proposal task from its id and number. Raises EndpointError.
        """
        batch = self.of(number, round_number)
        first = batch[0]
        if first not in self._found or _failed(self._found[first]):
            asked = self._asked(first, batch, task)
            found = self._found[first] = asyncio.create_task(self._find(asked))
            # Retrieve the task's error even if the campaign stops and no idea asks for it.
            found.add_done_callback(_failed)
        # Shielded, so that cancelling one idea does not cancel the search for the others.
        directions = await asyncio.shield(self._found[first])
        own = batch.index(number)
        others = [d.title for i, d in enumerate(directions) if d is not None and i != own]
        return directions[own], tuple(others)

    async def _find(self, asked: BatchTask) -> tuple[Direction | None, ...]:
        async def find() -> Directions:
            return Directions(await self.finder.find(asked))

        if self.paths is None:
            return (await find()).root
        path = self.paths.idea(asked.first.idea_id).directions
        return (await once(path, Directions, find, self.integrity)).root

    def _asked(
        self, first: int, batch: tuple[int, ...], task: Callable[[str, int], ProposalTask]
    ) -> BatchTask:
        """Return a batch's task: the recorded one if the search for directions has begun."""
        leader = idea_id_of(first)
        if self.record is not None:
            begun = self.record.begun(leader, _FIRST_OF_BATCH, BatchTask)
            if begun is not None:
                return begun
        asked = BatchTask(first=task(leader, first), numbers=batch)
        if self.record is not None:
            self.record.begin(leader, _FIRST_OF_BATCH, asked)
        return asked


def _failed(task: asyncio.Task[tuple[Direction | None, ...]]) -> bool:
    """Return whether a search for directions ended without result; it is then repeated."""
    return task.done() and (task.cancelled() or task.exception() is not None)


# What the campaign knows so far, as text for the next proposal.
#
# Values come from the trial reports in the journal. Findings are derived here and never stored, so
# that they always cover all ideas so far.

IN_PROGRESS = "in progress"


@dataclass(slots=True)
class Knowledge:
    """Summarises the state for proposers; of the leading idea it also reads the file.

    A model never sees the control arm's ideas: what it learned from them would not be its own.
    `tells` false: it sees its earlier ideas, but not their outcomes. `seeds` is the recipe's number
    of seeds. `evidence` returns what else was measured of an idea, and `read` a recorded
    file's content.
    """

    paths: RunPaths
    state: CampaignState
    objective: Objective
    settings: Settings
    feedback_tokens: int
    archive_size: int
    seeds: int
    tells: bool = True
    evidence: Callable[[str], IdeaEvidence] = lambda idea_id: NOTHING
    read: Callable[[Path], bytes] = read_regular
    _measured: list[PastScore] = field(default_factory=list)  # scores of ended control-arm ideas
    _looked_at: int = 0  # control-arm ideas up to this number are in `_measured`
    _findings: dict[str, Finding] = field(default_factory=dict)
    _judged: tuple[int, int] = (0, 0)
    _told: Feedback | None = None

    def scores(self, before: int) -> tuple[PastScore, ...]:
        """Return what the control arm's ideas numbered below `before` measured.

        They come in order of number, and must all have ended.
        """
        measured = self._measured
        for number in range(self._looked_at + 1, before):
            self._looked_at = number
            idea = self.state.ideas.get(idea_id_of(number))
            if idea is not None and idea.knobs is not None:
                means = dict(self._means(idea))
                measured.append(
                    PastScore(idea_id=idea.idea_id, number=number, knobs=idea.knobs, **means)
                )
        return tuple(measured[: bisect_left(measured, before, key=attrgetter("number"))])

    def feedback(self) -> Feedback:
        """Return the findings so far as text for a prompt, the most informative first."""
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
        best = front_line(front(self.state, self.objective), self.objective)
        self._told = summarise(notes, self.objective.primary, self.feedback_tokens, level, best)
        return self._told

    def leader(self, before: int) -> Leader | None:
        """Return the idea numbered below `before` that improved most, the first on a tie.

        None without an improvement. Only those ideas count, judged among themselves.
        """
        judged = campaign_findings(
            self.state, self.objective, self.settings, seeds=self.seeds, before=before
        )
        own = {idea.idea_id for idea in self._own()}
        better = {i for i, found in judged.items() if found.verdict is Verdict.IMPROVEMENT}
        improved = [i for i in judged if i in own & better]
        if not improved:
            return None
        best = max(improved, key=lambda i: gain(judged[i].comparison, self.objective.primary))
        path, known = self.paths.idea(best).idea, self.state.ideas[best].idea_hash
        return Leader(
            idea_id=best,
            proposal=known_idea(path, known, self.read).proposal,
            effect=effect_of(judged[best].comparison, self.objective.primary),
        )

    def archive(self) -> tuple[ArchiveEntry, ...]:
        """Return the latest ideas, each with a phrase for its status."""
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
        """Yield the model arm's ideas, the last first."""
        for number in range(self.state.progress.proposed.high, 0, -1):
            idea = self.state.ideas.get(idea_id_of(number))
            if idea is not None and idea.arm == "model":
                yield idea

    def _own(self) -> list[IdeaState]:
        """Return the model arm's ideas in the order of their numbers."""
        return list(self._latest())[::-1]

    def _copied(self, idea_id: str, original: str | None) -> str | None:
        """Return whose predictions an idea repeats, as text; control-arm ideas are not named."""
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
        """Judge again, at most once per 5 % of newly ended ideas: a sweep's cost stays linear.

        Return whether the ideas were judged again.
        """
        ended = self.state.progress.ended
        baseline = self.state.scores(BASELINE_ID, BASELINE_ATTEMPT, self.objective.primary.name)
        before, seeds = self._judged
        if seeds == len(baseline) and ended - before < max(1, before // 20):
            return False
        self._findings = campaign_findings(
            self.state, self.objective, self.settings, seeds=self.seeds
        )
        self._judged = (ended, len(baseline))
        return True

    def _means(self, idea: IdeaState) -> ObjectiveValue:
        """Return an idea's means over its seeds; nothing if it did not end scored."""
        if idea.ended is None or idea.ended.status != "scored" or idea.ended.attempt is None:
            return NOT_MEASURED
        measured, baseline = {}, {}
        for metric in (*self.objective.ordering, *self.objective.tolerances):
            own = self.state.scores(idea.idea_id, idea.ended.attempt, metric.name)
            known = self.state.scores(BASELINE_ID, BASELINE_ATTEMPT, metric.name)
            if not own:
                return NOT_MEASURED
            measured[metric.name] = fmean(own.values())
            # The same seeds, so that it does not depend on when the baseline's others ended.
            if common := own.keys() & known.keys():
                baseline[metric.name] = fmean(known[seed] for seed in common)
        return objective_value(measured, baseline, self.objective)


# The literature survey of a campaign, made once before its first idea.


@dataclass(slots=True)
class Grounding:
    """Makes the survey; `references` are the best `shown` papers that it kept."""

    paths: RunPaths
    journal: Journal
    surveyor: Surveyor
    topic: Topic
    shown: int
    integrity: FileIntegrity
    references: tuple[Reference, ...] = field(default=())

    async def prepare(self) -> None:
        """Make the survey, or read it if it exists. Raises EndpointError."""
        survey = self._known()
        if survey is None:
            survey = await self.surveyor.survey(self.topic)
            self.paths.survey.parent.mkdir(parents=True, exist_ok=True)
            text = survey.model_dump_json(indent=2) + "\n"
            write_text(self.paths.survey, text)
            self.integrity.keep(self.paths.survey, text)
        self.journal.record(NoteTaken(name="survey", text=_statement(survey)))
        self.references = tuple(
            Reference(
                paper_id=paper.paper_id,
                title=paper.title,
                abstract=paper.abstract,
                year=paper.year,
            )
            for paper in survey.kept[: self.shown]
        )

    def _known(self) -> Survey | None:
        try:
            content = self.integrity.read(self.paths.survey, recorded=False)
            return Survey.model_validate_json(content)
        except FileNotFoundError:
            return None
        except (OSError, ValidationError) as error:
            raise RunDirectoryError(
                f"{self.paths.survey}: is damaged; delete it, and the survey is made again from "
                "the recorded replies"
            ) from error


def _statement(survey: Survey) -> str:
    kept, found = len(survey.kept), len(survey.papers)
    text = f"survey: {len(survey.queries)} queries, {found} papers retrieved, {kept} kept"
    return "; ".join([text, *survey.notes])


# Prefixes of call keys. The survey's own file has what was said of each paper.
_OF_SURVEY = ("attributes/", "queries/")
_OF_BATCH = ("directions/", "converge/")
_FIRST_CALL = "propose/1"  # the first call of an idea


@dataclass(slots=True)
class ProposalContext:
    """Everything that a model's proposals are based on.

    `grounding` and `batches` are None if their stages are left out. `record` has the recorded
    calls, None if no model is asked.
    """

    settings: ProposingSettings = field(default_factory=ProposingSettings)
    grounding: Grounding | None = None
    batches: Batches | None = None
    record: RecordedModel | None = None

    @property
    def references(self) -> tuple[Reference, ...]:
        """The papers that proposers are shown."""
        return self.grounding.references if self.grounding else ()

    @property
    def follows(self) -> bool:
        """Return whether proposals follow up the best idea."""
        return self.settings.mode == "follow-up"

    def mode(self, leader: Leader | None) -> Mode:
        """Return the mode of one proposal: without an improvement there is nothing to follow up."""
        if self.follows and leader is not None:
            return "follow-up"
        return "guided" if self.instruction else "open"

    @property
    def instruction(self) -> str:
        """The instruction on what ideas are to be about, "" if they are free."""
        return "" if self.settings.mode == "open" else self.settings.instruction.strip()

    def settled(self, number: int, round_number: int) -> int:
        """Return the bound below which ideas count for the leader of this idea's batch.

        When a batch begins, the previous batch is still under way, which keeps machines busy; so
        only ideas before that batch count. The bound depends on numbers alone.
        """
        first = self.batches.of(number, round_number)[0] if self.batches else number
        size = self.batches.size if self.batches else 1
        return max(1, first - size)

    async def prepare(self) -> None:
        """Make the survey, before the first idea. Raises EndpointError."""
        if self.grounding is not None:
            await self.grounding.prepare()

    async def directed(
        self,
        task: Callable[[str, int], ProposalTask],
        idea_id: str,
        number: int,
        round_number: int,
    ) -> ProposalTask:
        """Return an idea's task with its direction. Raises EndpointError."""
        if self.batches is None:
            return task(idea_id, number)
        direction, others = await self.batches.direction(number, round_number, task)
        # Made again, so that it includes what was learned while the directions were found.
        return task(idea_id, number).model_copy(update={"direction": direction, "others": others})

    def begun(self, idea_id: str) -> ProposalTask | None:
        """Return the recorded task of an idea if its proposer was asked before, else None.

        A resumed action continues with that task. Raises RunDirectoryError.
        """
        return self.record.begun(idea_id, _FIRST_CALL, ProposalTask) if self.record else None

    def begin(self, task: ProposalTask) -> None:
        """Record an idea's task together with the first call of its proposer."""
        if self.record is not None:
            self.record.begin(task.idea_id, _FIRST_CALL, task)

    def prompts(self, idea_id: str, number: int, round_number: int) -> tuple[PromptRef, ...]:
        """Return the calls that led to an idea: the survey's, its batch's and its own."""
        if self.record is None:
            return ()
        found = [*self.record.prompts(SURVEY_ID, _OF_SURVEY)] if self.grounding else []
        leader = self.batches.leader(number, round_number) if self.batches else idea_id
        if leader != idea_id:
            found += self.record.prompts(leader, _OF_BATCH)
        return (*found, *self.record.prompts(idea_id))
