"""Drives bare trials to their end, as a campaign's driver does: see faults_kit.

    python faults_driver.py FOLDER

FOLDER holds plan.json and site.toml, and the run directory `run`. Started again after a kill, it
goes on from the journal.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
from pathlib import Path
from typing import Any

from hpcscientist.campaign.dispatcher import journalled
from hpcscientist.campaign.trial_runner import TrialRunner
from hpcscientist.config.layers import load_site
from hpcscientist.errors import HpcsciError
from hpcscientist.execution.backends.slurm.backend import SlurmBackend
from hpcscientist.files.rundir import RunPaths
from hpcscientist.history.journal import Journal
from hpcscientist.history.state import CampaignState
from hpcscientist.history.status import DriverLock
from hpcscientist.records.events import CampaignStarted, DriverStarted, NoteTaken
from hpcscientist.records.trial import TrialSpec
from hpcscientist.worker.element import MODULE


def main() -> int:
    folder = Path(sys.argv[1])
    plan = json.loads((folder / "plan.json").read_text())
    paths = RunPaths(folder / "run")
    lock = DriverLock(paths.lock)
    state = CampaignState()
    journal = Journal(paths.journal, state.apply, lock.check)
    journal.record(CampaignStarted(campaign_id=plan["campaign"]))
    me = DriverStarted(
        generation=lock.generation,
        host=socket.gethostname(),
        pid=os.getpid(),
        package_version="",
        package_hash="",
        python="",
    )
    journal.record(me)
    try:
        asyncio.run(_drive(folder, plan, paths, journal, state, lock.generation))
    except ExceptionGroup as group:
        if not isinstance(group.exceptions[0], HpcsciError):
            raise
        print(group.exceptions[0], file=sys.stderr)
        return 1
    finally:
        journal.close()
        lock.release()
    return 0


async def _drive(
    folder: Path,
    plan: dict[str, Any],
    paths: RunPaths,
    journal: Journal,
    state: CampaignState,
    generation: int,
) -> None:
    backend = journalled(
        SlurmBackend(paths, load_site("site.toml", folder), plan["campaign"], MODULE),
        *(journal, state, generation),
        notify=lambda name, text: _note(journal, name, text),
    )
    runner = TrialRunner(
        *(paths, journal, state, backend, generation), retries=plan["retries"], pause_s=0.2
    )

    async def run(spec: TrialSpec) -> None:
        after = plan["after"].get(spec.trial_id)
        while after is not None and not (folder / after).exists():  # noqa: ASYNC110
            await asyncio.sleep(0.1)
        await runner.run([spec])

    try:
        async with asyncio.TaskGroup() as group:
            for spec in plan["specs"]:
                group.create_task(run(TrialSpec.model_validate_json(json.dumps(spec))))
    finally:
        await backend.close()


def _note(journal: Journal, name: str, text: str) -> None:
    journal.record(NoteTaken(name=name, text=text))


if __name__ == "__main__":
    sys.exit(main())
