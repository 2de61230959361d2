"""Which ideas a bench of authoring writes: a model's proposals, or a recipe's own ideas."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

from hpcscientist.errors import PlaybookExhausted, ReplyError, RunDirectoryError
from hpcscientist.files.atomic import write_text
from hpcscientist.files.rundir import RunPaths
from hpcscientist.ideation.propose import ModelProposer
from hpcscientist.models.playbook import PlaybookModel
from hpcscientist.models.role_client import Roles
from hpcscientist.ports import Tell
from hpcscientist.records.idea import Idea, Proposal, idea_id_of
from hpcscientist.records.proposing import ArchiveEntry, ProposalTask

_IN_VAIN = 2  # numbers tried for each idea that is wanted: a proposal may fail


@dataclass(frozen=True, slots=True)
class Proposals:
    """Has ideas proposed one after the other, each told of those before it, `shown` at most.

    `given` are written instead, where there are any. `seed` is the bench's.
    """

    proposer: ModelProposer
    roles: Roles
    paths: RunPaths
    given: tuple[Proposal, ...]
    seed: int
    shown: int
    tell: Tell

    async def ideas(self, count: int) -> AsyncIterator[Idea]:
        """Yield `count` ideas, or as many as there are. Raises EndpointError, RunDirectoryError."""
        archive: list[ArchiveEntry] = []
        for number in self._numbers(count):
            proposal = await self._proposal(number, tuple(archive))
            if proposal is None:
                continue
            idea = self._recorded(number, proposal)
            archive.append(
                ArchiveEntry(
                    idea_id=idea.idea_id,
                    title=proposal.title,
                    summary=proposal.summary,
                    finding="in progress",
                )
            )
            yield idea
            if len(archive) == count:
                return

    def _numbers(self, count: int) -> Iterator[int]:
        """Which ideas to ask for: of a playbook those alone that it has code for."""
        if self.given:
            yield from range(1, min(count, len(self.given)) + 1)
            return
        stages = ((self.roles.ideation, "propose"), (self.roles.code, "code"))
        books = [set(m.ideas(of)) for m, of in stages if isinstance(m, PlaybookModel)]
        if books:
            yield from sorted(set.intersection(*books))
        else:
            yield from range(1, _IN_VAIN * count + 1)

    async def _proposal(self, number: int, archive: tuple[ArchiveEntry, ...]) -> Proposal | None:
        if self.given:
            return self.given[number - 1]
        task = ProposalTask(
            idea_id=idea_id_of(number),
            number=number,
            round=1,
            feedback="",
            archive=archive[-self.shown :] if self.shown else (),
            scores=(),
        )
        try:
            return (await self.proposer.propose(task)).proposal
        except (ReplyError, PlaybookExhausted) as error:
            self.tell(f"idea {number}: no usable proposal: {error}")
            return None

    def _recorded(self, number: int, proposal: Proposal) -> Idea:
        """Keep an idea; it must be the one that was kept before."""
        idea = Idea(
            idea_id=idea_id_of(number),
            number=number,
            round=1,
            proposal=proposal,
            model=self.roles.name,
            seed=self.seed,
        )
        path = self.paths.idea(idea.idea_id).idea
        if path.exists() and Idea.model_validate_json(path.read_bytes()).proposal != idea.proposal:
            raise RunDirectoryError(
                f"{path}: is another idea than is asked for now; give the options that the bench "
                "was begun with, or another --dir"
            )
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, idea.model_dump_json(indent=2) + "\n")
        return idea
