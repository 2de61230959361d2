"""What becomes of a campaign when the Ray that serves its models is lost under it."""

from __future__ import annotations

import concurrent.futures
import pwd
from collections import Counter
from pathlib import Path

import psutil
import pytest
from controlled import Controlled, starts, stops
from served_campaign import LIMIT_S, check_nothing_left, check_whole, launch, order_of, recorded

from hpcscientist.records.events import IdeaEnded, TrialEnded

pytestmark = [pytest.mark.e2e, pytest.mark.slurm, pytest.mark.serving, pytest.mark.timeout(1800)]

IDEAS = 2


def test_a_killed_head_is_gone_on_from_in_another_job(
    served: Controlled, random_model: Path
) -> None:
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        launched = pool.submit(
            launch, served, random_model, context=16_384, answer=2_000, ideas=IDEAS, nodes=1
        )
        served.wait_until(lambda: launched.done() or recorded(served.tiny.paths), LIMIT_S)
        assert not launched.done(), launched.result().stderr + served.logs()
        first, before = order_of(served), recorded(served.tiny.paths)
        killed = head_processes(served)
        assert {process.name() for process in killed} == {"gcs_server", "raylet"}
        for process in killed:
            process.kill()
        done = launched.result()
    assert done.returncode == 3, done.stderr + served.logs()
    events = check_whole(served, planes=2)
    assert len(starts(events)) == 2
    (lost,) = stops(events)
    assert "model plane ended" in lost.reason
    # What was recorded before is where it was, and was not asked for again.
    assert set(before) < set(recorded(served.tiny.paths))
    scored = Counter(e.report.trial_id for e in events if isinstance(e, TrialEnded))
    assert set(scored.values()) == {1}
    assert max(served.tiny.executions().values()) == 1
    assert sum(isinstance(event, IdeaEnded) for event in events) == IDEAS
    second = order_of(served)
    assert second.nonce != first.nonce
    ports = {*first.ports.all(), *second.ports.all()}
    check_nothing_left(served, {*first.nodes, *second.nodes}, ports)


def head_processes(served: Controlled) -> list[psutil.Process]:
    """The processes without which no Ray of the user's goes on; nodes are of this machine."""
    mine = pwd.getpwnam(served.cluster.user).pw_uid
    return [
        process
        for process in psutil.process_iter(["name", "uids"])
        if process.info["name"] in ("gcs_server", "raylet")
        and process.info["uids"] is not None
        and process.info["uids"].real == mine
    ]
