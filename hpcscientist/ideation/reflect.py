"""Reflection: a model reads its proposal again and improves it, as in The AI Scientist.

There (arXiv 2408.06292, section 3, idea generation) an idea goes through several rounds, which end
early once the model says that it is done. A round here shows the whole prompt of the proposal with
the proposal as the answer, so the model can compare it with all that is known. A server that caches
prompt prefixes has most of it already.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hpcscientist.config.settings import Settings
from hpcscientist.files.text import one_line
from hpcscientist.ideation.material import proposal_limits
from hpcscientist.models.prompting.fitting import Prompt
from hpcscientist.models.prompting.prompts import line, render
from hpcscientist.models.role_client import UNANSWERED, CallPurpose, RoleClient
from hpcscientist.models.stage import Calls, Expected, Kind, Means, Sample, Stage
from hpcscientist.ports import Notify, logged
from hpcscientist.records.idea import Proposal
from hpcscientist.records.proposing import ProposalTask, ReflectReply

_REMARK = 600  # characters of an earlier round's remarks
_REMEMBERED = 5  # rounds
_LINEAGE = ("parent_ids", "papers")


class Reflection:
    """Improves proposals in at most `rounds` rounds; round R is stage `reflect`, ordinal R."""

    def __init__(self, client: RoleClient, rounds: int, notify: Notify = logged) -> None:
        self._client, self._rounds, self._notify = client, rounds, notify

    async def improve(
        self,
        task: ProposalTask,
        proposal: Proposal,
        asked: Prompt,
        settle: Callable[[Proposal], Proposal],
    ) -> Proposal:
        """Return the proposal of the last round; `asked` is the prompt of the first proposal.

        The rounds end if the model is done, returns the same proposal, or gives no usable reply,
        which is reported to `notify`. `settle` drops parents and papers that do not exist. Raises
        EndpointError.
        """
        remarks: list[str] = []
        for ordinal in range(1, self._rounds + 1):
            said = render(
                "reflect",
                round=ordinal,
                rounds=self._rounds,
                remarks=remarks[-_REMEMBERED:],
                others=bool(task.others),
            )
            prompt = asked.answered((proposal.model_dump_json(),), said)
            call = CallPurpose(task.idea_id, task.number, "reflect", ordinal)
            try:
                reply = await self._client.ask(
                    call, ReflectReply, prompt, proposal_limits(task, "proposal.")
                )
            except UNANSWERED as error:
                said = f"the proposal stands as it was before round {ordinal}: {error}"
                self._notify(f"reflect/{task.idea_id}", one_line(said))
                return proposal
            better = settle(improved(proposal, reply.proposal)) if reply.proposal else proposal
            if reply.done or better == proposal:
                return better
            proposal = better
            remarks.append(line(reply.remarks, _REMARK))
        return proposal


def improved(before: Proposal, after: Proposal) -> Proposal:
    """Return a proposal with missing fields filled from the one before.

    Parents and papers of the earlier proposal stay listed, since the improved one descends from it.
    """
    kept: dict[str, Any] = {
        name: getattr(before, name)
        for name in type(after).model_fields
        if name not in after.model_fields_set or getattr(after, name) == ""
    }
    for name in _LINEAGE:
        both = (*getattr(before, name), *getattr(after, name))
        kept[name] = tuple(dict.fromkeys(both))
    return after.model_copy(update=kept)


class ReflectStage(Stage[None]):
    """Rounds that improve a proposal; the proposer carries them out."""

    name = "reflect"
    kinds = (Kind("reflect", "ideation", ReflectReply),)

    def applies(self, settings: Settings, has_library: bool) -> bool:
        """Return whether settings ask for any rounds."""
        return settings.proposing.reflections > 0

    def calls(self, expected: Expected) -> Sequence[Calls]:
        """Return the calls: one a round."""
        settings = expected.settings
        return (Calls.of("reflect", settings.ideas * settings.proposing.reflections),)

    def open(self, means: Means) -> None:
        """Do nothing: see `propose`."""

    async def weigh(self, opened: None, sample: Sample) -> None:
        """Do nothing: see `propose`."""


REFLECT = ReflectStage()
