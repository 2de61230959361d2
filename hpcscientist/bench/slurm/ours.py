"""Runs trials as campaigns do: journal, prepared folders, Slurm backend, collected results.

Only proposing ideas and writing code are left out.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from hpcscientist.bench.slurm.ground import SlurmGround
from hpcscientist.campaign.dispatcher import journalled
from hpcscientist.campaign.trial_runner import TrialRunner
from hpcscientist.errors import CampaignError
from hpcscientist.execution.backends.slurm.backend import SlurmBackend
from hpcscientist.history.journal import Journal
from hpcscientist.history.state import CampaignState
from hpcscientist.records.trial import Scored, TrialReport, TrialSpec
from hpcscientist.worker.element import MODULE


@dataclass(frozen=True, slots=True)
class ScoredTrials:
    """The result of trials that were all scored.

    `seconds` excludes the `first` trials; `commands` counts all calls to Slurm, including theirs.
    """

    seconds: float
    commands: int


def run(
    ground: SlurmGround,
    specs: Sequence[TrialSpec],
    first: Sequence[TrialSpec] = (),
    module: str = MODULE,
) -> ScoredTrials:
    """Run the `first` trials on Slurm to their end, then the others.

    `module` is what array tasks run. Raises CampaignError if a trial was not scored, and what
    campaigns raise.
    """
    return asyncio.run(_run(ground, specs, first, module))


async def _run(
    ground: SlurmGround,
    specs: Sequence[TrialSpec],
    first: Sequence[TrialSpec],
    module: str,
) -> ScoredTrials:
    state = CampaignState()
    journal = Journal(ground.run.journal, state.apply)
    slurm = SlurmBackend(ground.run, ground.site, ground.campaign_id, module)
    backend = journalled(slurm, journal, state, generation=1, notify=lambda name, text: None)
    runner = TrialRunner(ground.run, journal, state, backend, generation=1, retries=0, pause_s=0.0)
    try:
        if first:
            _check(await runner.run(first))
        begin = time.perf_counter()
        ideas = [list(trials) for _, trials in groupby(specs, lambda spec: spec.idea_id)]
        reports = await asyncio.gather(*(runner.run(trials) for trials in ideas))
        seconds = time.perf_counter() - begin
    finally:
        await backend.close()
        journal.close()
    _check([report for some in reports for report in some])
    return ScoredTrials(seconds, slurm.slurm.counts.total())


def _check(reports: Sequence[TrialReport]) -> None:
    failed = [report for report in reports if not isinstance(report.outcome, Scored)]
    if failed:
        raise CampaignError(
            f"{len(failed)} of {len(reports)} trials were not scored, so there are no figures; "
            f"the first: {failed[0].outcome}; `hpcsci doctor` says what is lacking"
        )
