"""The port to whatever proposes ideas: a language model, or the control arm."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from hpcscientist.records.idea import Proposal
from hpcscientist.records.proposing import ProposalTask, Proposed, Repeated

Reconsider = Callable[[ProposalTask, Repeated], Awaitable[Proposal]]
"""Proposes another idea for one that repeats an earlier one. Raises as `Proposer.propose` does."""


class Proposer(Protocol):
    """Proposes one idea at a time.

    Obligations: `propose` may be called concurrently, in any order. Where `by_outcomes` is
    true, tasks list the outcomes of a fixed set of its own earlier ideas and nothing else, and
    the proposal follows from the task and the proposer's seed alone, whatever it was asked
    before. Raises PlaybookExhausted when there is nothing left to propose, ReplyError when a
    model gave no usable proposal.
    """

    @property
    def by_outcomes(self) -> bool:
        """Whether it is told outcomes instead of texts, and must not depend on timing."""
        ...

    async def propose(self, task: ProposalTask) -> Proposed:
        """Propose the idea with the task's number."""
        ...
