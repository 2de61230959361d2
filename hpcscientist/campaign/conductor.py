"""The loop, top to bottom: baseline and survey; then ideas: propose, admit, vet, author, run;
improvements are confirmed beside it.

Re-execution is the recovery: on resume every coroutine starts from its beginning, and what
was done is not done again, for model replies come from chat.jsonl, trials from the journal
or their result files, and known events are dropped by the journal. So nothing here may
depend on timing except the feedback a language model is shown, and that is recorded.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from hpcscientist.campaign.compaction import Compactor
from hpcscientist.campaign.conduct.rules import Rules
from hpcscientist.campaign.judgement.claims import Claims
from hpcscientist.campaign.judgement.confirmation import Confirming
from hpcscientist.campaign.judgement.steadiness import Steadiness
from hpcscientist.campaign.milestones import Milestones
from hpcscientist.campaign.proposals.admission import Admission
from hpcscientist.campaign.proposals.vetting import Vetting
from hpcscientist.campaign.pursuit.pursuit import Pursuit
from hpcscientist.campaign.reference import Reference


@dataclass(slots=True)
class Conductor:
    """Conducts one campaign for one driver."""

    rules: Rules
    reference: Reference
    steadiness: Steadiness
    admission: Admission
    vetting: Vetting
    pursuit: Pursuit
    confirming: Confirming
    compactor: Compactor
    claims: Claims
    ended: Milestones = field(default_factory=Milestones)  # ideas by number; 0 is the baseline

    async def run(self) -> None:
        """Run the campaign to its end.

        Raises BaselineFailed, MachineTrouble, EndpointError, DiskFull or RunDirectoryError;
        whatever was recorded by then is kept, and a new conductor goes on from there.
        """
        async with asyncio.TaskGroup() as group:
            # First in the queue; a baseline that fails ends everything else at once.
            group.create_task(self._run_baselines())
            group.create_task(self.steadiness.run())
            group.create_task(self.confirming.run())
            group.create_task(self._run_ideas())
        self.claims.write_all()
        self.pursuit.check()
        self.confirming.check()

    async def _run_baselines(self) -> None:
        await self.reference.run()
        self.steadiness.pass_on()
        self.ended.reach(0)

    async def _run_ideas(self) -> None:
        await self._run_rounds()
        self.steadiness.close()
        self.confirming.over(whole=not self.pursuit.set_aside)

    async def _run_rounds(self) -> None:
        await self.steadiness.cleared()
        await self.admission.outlook.prepare()
        window = asyncio.Semaphore(self.rules.plan.in_flight)
        for round_number, numbers in self.rules.plan.chunks():
            async with asyncio.TaskGroup() as group:
                for number in numbers:
                    await window.acquire()
                    group.create_task(self._run_idea(number, round_number, window))

    async def _run_idea(self, number: int, round_number: int, window: asyncio.Semaphore) -> None:
        try:
            idea = await self.admission.propose(number, round_number)
            vetted = await self.vetting.vet(idea) if idea is not None else None
            if vetted is not None:
                await self.pursuit.pursue(vetted)
                self.claims.write(vetted.idea.idea_id)
                await self.compactor.step()
            # Not where it raised: who waits for an outcome must not go on without it.
            self.ended.reach(number)
        finally:
            self.confirming.idea_ended()
            window.release()
