"""What counts as lost is looked for by its name all the same before a driver leaves."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest
from command_server import Answer, Asked, CommandServer, on_path
from trialkit import Bench

from hpcscientist.campaign.dispatcher import make_batch
from hpcscientist.execution.backends.slurm.backend import SlurmBackend
from hpcscientist.execution.backends.slurm.watching.rounds import ABSENCES
from hpcscientist.records.site import Site, SlurmSite, WatchSite
from hpcscientist.records.trial import Accepted, Ended, EndState, Unknown


class Queue:
    """One array, 120, which squeue does not show for a while; `said` is what sbatch prints."""

    def __init__(self, said: str) -> None:
        self.said, self.script = said, ""
        self.hidden, self.cancelled = ABSENCES, list[str]()

    def __call__(self, asked: Asked) -> Answer:
        match asked.program:
            case "sbatch":
                self.script = Path(asked.arguments[-1]).read_text()
                return Answer(0, self.said)
            case "scancel":
                self.cancelled += [word for word in asked.arguments if word.isdigit()]
            case "squeue" if self.script and self.hidden:
                self.hidden -= 1
            case "squeue" if self.script:
                return Answer(0, self.row())
        return Answer()

    def row(self) -> str:
        name, comment = (
            re.search(rf"--{option}=(\S+)", self.script)[1] for option in ("job-name", "comment")
        )
        state = "CANCELLED" if "120" in self.cancelled else "RUNNING"
        return "\x1f".join(("120", "0", state, "None", "n1", name, comment, "120", "p")) + "\n"


@pytest.mark.parametrize(
    ("said", "answer", "state"),
    [
        ("120\n", Accepted(), EndState.LOST),
        ("99\n", Accepted(), EndState.LOST),  # a number in a notice, and another job's
        ("98\n99\n", Unknown(), EndState.NOT_SUBMITTED),
    ],
)
def test_an_array_that_squeue_hid(
    said: str, answer: object, state: EndState, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(tmp_path / "bench").prepare()
    queue = Queue(said)
    server = CommandServer(tmp_path / "commands", queue)
    monkeypatch.setenv("PATH", on_path(server))
    site = Site(
        slurm=SlurmSite(accounting="no"),
        watch=WatchSite(round_min_s=0.05, round_max_s=0.1, files_s=0.05, visible_s=0.0),
    )

    async def play() -> None:
        backend = SlurmBackend(bench.run, site, "c1", "a.module")
        await backend.adopt([])
        batch = make_batch([[bench.trial("predict()", "t0")]])
        assert await backend.submit(batch) == answer
        changes = await backend.changes()
        while not (ends := [one for one in changes if isinstance(one, Ended)]):
            changes = await backend.changes()
        assert [end.state for end in ends] == [state]
        await backend.sweep()

    try:
        asyncio.run(asyncio.wait_for(play(), 120))
    finally:
        server.close()
    assert queue.cancelled == ["120"]


@pytest.mark.parametrize("steps", range(5))
async def test_a_driver_leaves_at_once_as_its_backend_wakes_up(steps: int, tmp_path: Path) -> None:
    """The loop's steps between the two are counted: at one of them a cancellation was lost."""
    backend = SlurmBackend(Bench(tmp_path / "bench").prepare().run, Site(), "c1", "a.module")
    await backend.adopt([])
    for _ in range(10):  # until it waits
        await asyncio.sleep(0)
    await backend.cancel([])
    for _ in range(steps):
        await asyncio.sleep(0)
    async with asyncio.timeout(20):
        await backend.close()
    assert [task for task in asyncio.all_tasks() if task.get_name() == "slurm"] == []
