"""What a proposal is told besides the campaign's own findings: literature, mode, direction."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hpcscientist.campaign.proposals.batches import Batches
from hpcscientist.campaign.proposals.grounding import Grounding
from hpcscientist.config.settings import ProposingSettings
from hpcscientist.records.asked.proposing import Leader, ProposalTask, Reference
from hpcscientist.records.idea import SURVEY_ID, Mode, PromptRef

if TYPE_CHECKING:
    from hpcscientist.models.recorded import RecordedModel

# Beginnings of keys. What was said of each paper stands in the survey's own file.
_OF_SURVEY = ("attributes/", "queries/")
_OF_BATCH = ("directions/", "converge/")
_FIRST_CALL = "propose/1"  # of an idea


@dataclass(slots=True)
class Outlook:
    """`grounding` and `batches` are None where their steps are left out.

    `record` is that of the calls; None where no model is asked.
    """

    settings: ProposingSettings = field(default_factory=ProposingSettings)
    grounding: Grounding | None = None
    batches: Batches | None = None
    record: RecordedModel | None = None

    @property
    def references(self) -> tuple[Reference, ...]:
        """The papers that proposals are shown."""
        return self.grounding.references if self.grounding else ()

    @property
    def follows(self) -> bool:
        """Whether the best idea is to be developed."""
        return self.settings.mode == "follow-up"

    def mode(self, leader: Leader | None) -> Mode:
        """The mode of one proposal: until something has improved there is nothing to follow."""
        if self.follows and leader is not None:
            return "follow-up"
        return "guided" if self.instruction else "open"

    @property
    def instruction(self) -> str:
        """What ideas are to be about; "" where that is left open."""
        return "" if self.settings.mode == "open" else self.settings.instruction.strip()

    def settled(self, number: int, round_number: int) -> int:
        """The first idea whose outcome the leader of an idea's batch does not depend on.

        The batch before is still under way when a batch begins, so that machines are kept busy;
        which ideas count follows from numbers alone.
        """
        first = self.batches.of(number, round_number)[0] if self.batches else number
        size = self.batches.size if self.batches else 1
        return max(1, first - size)

    async def prepare(self) -> None:
        """Make what must be there before the first idea. Raises EndpointError."""
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
        # What was learned while the directions were found is told too.
        return task(idea_id, number).model_copy(update={"direction": direction, "others": others})

    def begun(self, idea_id: str) -> ProposalTask | None:
        """Return what an idea's proposer was shown, if it was asked: an action goes on with that.

        Raises RunDirectoryError.
        """
        return self.record.begun(idea_id, _FIRST_CALL, ProposalTask) if self.record else None

    def begin(self, task: ProposalTask) -> None:
        """Have what an idea's proposer is shown written down with its first call."""
        if self.record is not None:
            self.record.begin(task.idea_id, _FIRST_CALL, task)

    def prompts(self, idea_id: str, number: int, round_number: int) -> tuple[PromptRef, ...]:
        """Return the calls that led to an idea: the survey's, its batch's, its own."""
        if self.record is None:
            return ()
        found = [*self.record.prompts(SURVEY_ID, _OF_SURVEY)] if self.grounding else []
        leader = self.batches.leader(number, round_number) if self.batches else idea_id
        if leader != idea_id:
            found += self.record.prompts(leader, _OF_BATCH)
        return (*found, *self.record.prompts(idea_id))
