"""What the journal says of a driver that stopped."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from bench_campaign import CampaignBench

from hpcscientist.errors import HpcsciError
from hpcscientist.execution.backends.local import LocalBackend
from hpcscientist.execution.backends.slurm.backend import SlurmBackend
from hpcscientist.history.journal import Journal
from hpcscientist.history.state import CampaignState
from hpcscientist.history.status import status
from hpcscientist.launching import drive
from hpcscientist.launching.wiring import Wired
from hpcscientist.system.inherited import limit_met


@pytest.mark.parametrize("outlives", [True, False])
def test_what_was_let_go_goes_on_only_where_it_outlives_the_driver(
    outlives: bool, tmp_path: Path
) -> None:
    backend: Any = SimpleNamespace(outlives_driver=outlives, let_go=Mock())
    nothing: Any = None
    wired = Wired(nothing, CampaignState(), nothing, backend, nothing, nothing)
    assert not wired.lets_go
    wired.let_go()
    assert wired.lets_go is outlives
    backend.let_go.assert_called_once_with()
    assert (SlurmBackend.outlives_driver, LocalBackend.outlives_driver) == (True, False)


def test_a_fault_of_our_own_is_a_failed_campaign_and_no_stopped_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def conduct(*_: Any) -> None:
        raise OverflowError("too\nlarge")

    monkeypatch.setattr(drive, "conduct", conduct)
    bench, state = CampaignBench(tmp_path, ideas=1), CampaignState()
    wired: Any = SimpleNamespace(lets_go=True)
    journal = Journal(bench.paths.journal, state.apply)
    with pytest.raises(OverflowError):
        drive._run(bench.paths, wired, journal, 1, None)
    journal.close()
    assert state.stopped is not None
    assert state.stopped.lets_go
    assert state.stopped.reason == "unexpected OverflowError: too large"
    assert status(bench.paths)["state"] == "failed"


@pytest.mark.parametrize(
    "error",
    [RuntimeError("can't start new thread"), OSError(errno.EMFILE, os.strerror(errno.EMFILE))],
)
def test_a_limit_of_this_process_stops_a_campaign_and_is_no_fault_of_ours(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def conduct(*_: Any) -> None:
        raise error

    monkeypatch.setattr(drive, "conduct", conduct)
    bench, state = CampaignBench(tmp_path, ideas=1), CampaignState()
    wired: Any = SimpleNamespace(lets_go=False)
    journal = Journal(bench.paths.journal, state.apply)
    with pytest.raises(HpcsciError, match=re.escape(limit_met(error))) as stopped:
        drive._run(bench.paths, wired, journal, 1, None)
    journal.close()
    assert stopped.value.__cause__ is error
    assert state.stopped is not None
    assert state.stopped.reason == str(stopped.value)
