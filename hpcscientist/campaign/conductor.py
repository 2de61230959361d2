"""The loop, top to bottom: baseline; then ideas that flow through propose, admit, author, run.

Re-execution is the recovery: on resume every coroutine starts from its beginning, and what
was done is not done again, for model replies come from chat.jsonl, trials from the journal
or their result files, and known events are dropped by the journal. So nothing here may
depend on timing except the feedback a language model is shown, and that is recorded.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from hpcscientist.campaign.admission import Admission
from hpcscientist.campaign.compaction import Compactor
from hpcscientist.campaign.milestones import Milestones
from hpcscientist.campaign.plan import Plan
from hpcscientist.campaign.pursuit import Pursuit
from hpcscientist.campaign.specs import SpecFactory
from hpcscientist.campaign.trials import TrialRunner
from hpcscientist.errors import BaselineFailed, MachineTrouble
from hpcscientist.records.outcome import MachineFailed, MachineFailure, Scored
from hpcscientist.records.trial import TrialSpec


@dataclass(slots=True)
class Conductor:
    """Conducts one campaign for one driver."""

    plan: Plan
    specs: SpecFactory
    trials: TrialRunner
    admission: Admission
    pursuit: Pursuit
    compactor: Compactor
    _ended: Milestones = field(default_factory=Milestones)

    async def run(self) -> None:
        """Run the campaign to its end.

        Raises BaselineFailed, MachineTrouble, EndpointError, DiskFull or RunDirectoryError;
        whatever was recorded by then is kept, and a new conductor goes on from there.
        """
        async with asyncio.TaskGroup() as group:
            # First in the queue; a baseline that fails ends everything else at once.
            for spec in self.specs.baseline():
                group.create_task(self._run_baseline(spec))
            group.create_task(self._run_ideas())
        self.pursuit.check()

    async def _run_baseline(self, spec: TrialSpec) -> None:
        (report,) = await self.trials.run([spec])
        outcome = report.outcome
        if isinstance(outcome, Scored):
            return
        if outcome.failure is MachineFailure.SCORER:
            raise BaselineFailed(
                f"the recipe's scorer fails at baseline: {outcome.detail}; mend it and try "
                "`hpcsci recipe check --run` on the recipe"
            )
        if isinstance(outcome, MachineFailed):
            raise MachineTrouble(
                f"the baseline could not be run ({outcome.failure.value}): {outcome.detail}; "
                "mend that and run `hpcsci resume`"
            )
        raise BaselineFailed(
            f"the reference code fails at baseline ({outcome.failure.value}): "
            f"{outcome.detail}; mend it and try `hpcsci recipe check --run` on the recipe"
        )

    async def _run_ideas(self) -> None:
        window = asyncio.Semaphore(self.plan.in_flight)
        for round_number, numbers in self.plan.chunks():
            async with asyncio.TaskGroup() as group:
                for number in numbers:
                    await self._enter(number, window)
                    if self.admission.exhausted:
                        return
                    group.create_task(self._run_idea(number, round_number, window))

    async def _enter(self, number: int, window: asyncio.Semaphore) -> None:
        """Wait for a place in flight; in order of idea numbers where timing must not matter."""
        if self.admission.proposer.ordered and number > self.plan.in_flight:
            await self._ended.wait(number - self.plan.in_flight)
        await window.acquire()

    async def _run_idea(self, number: int, round_number: int, window: asyncio.Semaphore) -> None:
        try:
            idea = await self.admission.propose(number, round_number)
            if idea is not None:
                await self.pursuit.pursue(idea)
                await self.compactor.step()
        finally:
            self._ended.reach(number)
            window.release()
