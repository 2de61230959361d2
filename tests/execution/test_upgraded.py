"""The package is upgraded, and a campaign resumed, while a worker of the old one runs."""

from __future__ import annotations

import asyncio
import subprocess
import sys

from trialkit import CAMPAIGN, Bench

from hpcscientist.campaign.dispatcher import Dispatcher
from hpcscientist.campaign.trial_runner import TrialRunner
from hpcscientist.execution.backends.local import LocalBackend
from hpcscientist.history.journal import Journal
from hpcscientist.history.state import CampaignState
from hpcscientist.records.events import CampaignStarted
from hpcscientist.records.trial import Scored, TrialSpec
from hpcscientist.worker import MODULE as WORKER_MODULE


def upgraded(spec: TrialSpec) -> TrialSpec:
    newer = {"package_version": "99", "package_hash": "of the new one"}
    provenance = spec.provenance.model_copy(update=newer)
    return spec.model_copy(update={"provenance": provenance})


async def test_its_specification_is_left_alone(bench: Bench) -> None:
    spec = bench.trial("note('begun'); await_file(OUT / 'go on'); predict()")
    paths = bench.run.trial(spec.trial_id)
    before = paths.spec.read_bytes()
    state = CampaignState()
    journal = Journal(bench.run.journal, state.apply)
    journal.record(CampaignStarted(campaign_id=CAMPAIGN))
    with subprocess.Popen([sys.executable, "-m", WORKER_MODULE, str(paths.root)]) as worker:  # noqa: ASYNC220
        async with asyncio.timeout(300):
            while not (paths.out / "begun").exists():  # noqa: ASYNC110 (another process's file)
                await asyncio.sleep(0.02)
        backend = Dispatcher(LocalBackend(bench.run, 1, WORKER_MODULE))
        runner = TrialRunner(bench.run, journal, state, backend, generation=1, retries=0, pause_s=0)
        call = asyncio.create_task(runner.run([upgraded(spec)]))
        async with asyncio.timeout(300):
            while state.count_trials("running") == 0:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        assert paths.spec.read_bytes() == before
        (paths.out / "go on").touch()
        (report,) = await call
        assert worker.wait(60) == 0
    await backend.close()
    journal.close()
    assert isinstance(report.outcome, Scored), report.outcome
