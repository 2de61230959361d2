"""What a plane may have of this machine's GPUs, as their driver and CUDA's variable tell."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcscientist.launching.serving import nodes
from hpcscientist.records.site import Site

SIZES = {"GPU-1a": 80_000, "GPU-1b": 40_000, "GPU-2c": 20_000}


@pytest.fixture(autouse=True)
def _driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = "".join(f"{uuid}-0, {mb}\n" for uuid, mb in SIZES.items())
    (tmp_path / "nvidia-smi").write_text(f"#!/bin/sh\ncat <<'E'\n{said}E\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")


@pytest.mark.parametrize(
    ("visible", "count", "least"),
    [
        (None, 3, 20_000),
        ("", 0, 0),
        ("-1", 0, 0),
        ("1", 1, 40_000),
        ("1,0", 2, 40_000),
        ("0,7,1", 1, 80_000),  # as CUDA: nothing after what is none
        ("GPU-2", 1, 20_000),
        ("GPU-1a-0,GPU-1b", 2, 40_000),
        ("GPU-1", 0, 0),  # which of the two?
        ("MIG-x,MIG-y", 2, 20_000),
    ],
)
def test_the_gpus_that_a_process_sees(
    visible: str | None, count: int, least: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if visible is None:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    else:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    machine = nodes.machine_of(Site(), nodes.here(), is_slurm=False)
    assert (machine.gpus, machine.gpu_memory_mb) == (count, least)
