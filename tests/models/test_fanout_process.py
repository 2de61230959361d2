"""The process of Ray's driver as seen from outside; what runs in its place here is a shell."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcscientist.errors import ServingError
from hpcscientist.models.fanout.process import RayCluster, RayProcess, Start

START = Start(address="127.0.0.1:1", width=1, retries=0, ready_s=600)
WARNING = "W network_util.cc: Failed to determine local IP"


@pytest.mark.parametrize(
    ("ends", "reason"),
    [
        (f"echo '{WARNING}' >&2; kill -9 $$", f"was killed by signal 9; before that .*: {WARNING}"),
        ("kill -15 $$", "no connection .*: its process was killed by signal 15; see that"),
        ("echo early >&2; echo no module ray >&2; exit 1", "no connection .*: no module ray; see"),
        ("exit 0", "no connection .*: its process has gone; see that it runs"),
    ],
)
async def test_how_it_ended_is_said(tmp_path: Path, ends: str, reason: str) -> None:
    script = tmp_path / "python"
    script.write_text(ends)
    with pytest.raises(ServingError, match=reason):
        await RayProcess.start(RayCluster(address="127.0.0.1:1", python=f"sh {script}"), START)
