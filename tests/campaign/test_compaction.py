"""Compaction beside a campaign that goes on: see `campaign.result_files`."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest
from bench_campaign import CampaignBench, ScriptedProposer, scored

from hpcscientist.campaign import result_files
from hpcscientist.history import frozen


async def test_no_campaign_is_left_by_a_compaction_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, over, loop = threading.Event(), threading.Event(), asyncio.get_running_loop()

    def compact(*_: object) -> None:
        begun.set()
        may_end = threading.Event()
        # Two turns of the loop after the campaign was told to stop, and not before.
        asyncio.run_coroutine_threadsafe(stopped.wait(), loop).result(60)
        loop.call_soon_threadsafe(lambda: loop.call_soon(may_end.set))
        may_end.wait(60)
        over.set()

    stopped = asyncio.Event()
    monkeypatch.setattr(result_files, "compact", compact)
    bench = CampaignBench(tmp_path, 3, compact_after=3)
    bench.config = bench.config.model_copy(update={"in_flight": 1})
    frozen.write(bench.paths, bench.config)
    driving = asyncio.create_task(
        bench.drive(lambda _: scored(0.5), ScriptedProposer("one two", "three four", "five six"))
    )
    assert await asyncio.to_thread(begun.wait, 60)
    driving.cancel()
    loop.call_soon(stopped.set)
    with pytest.raises(asyncio.CancelledError):
        await driving
    assert over.is_set()
