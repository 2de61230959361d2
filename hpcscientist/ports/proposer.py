"""The port to whatever proposes ideas: a language model, or the control arm."""

from __future__ import annotations

from typing import Protocol

from hpcscientist.records.proposing import ProposalTask, Proposed


class Proposer(Protocol):
    """Proposes one idea at a time.

    Obligations: `propose` may be called concurrently unless `ordered` is true; then the
    caller calls it in order of idea numbers, and its tasks list the outcomes of a fixed
    set of earlier ideas, so that the same seed proposes the same ideas whatever the
    timing. Raises PlaybookExhausted when there is nothing left to propose, ReplyError
    when a model gave no usable proposal.
    """

    @property
    def ordered(self) -> bool:
        """Whether proposals must not depend on timing."""
        ...

    async def propose(self, task: ProposalTask) -> Proposed:
        """Propose the idea with the task's number."""
        ...
