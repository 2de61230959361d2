"""The engine's image: what goes along into it, and what does not."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from hpcscientist.errors import ServingError
from hpcscientist.models.serving.checking.interpreter import EngineImage, model_folders


def test_container_gets_what_says_which_gpus_are_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The shell's part, before a stand-in for Apptainer that prints what it was given."""
    commands = tmp_path / "commands"
    commands.mkdir()
    (commands / "apptainer").write_text('#!/bin/sh\nprintf "%s\\n" "$@"; env\n')
    (commands / "apptainer").chmod(0o755)
    disk = tmp_path / "disk-7"
    disk.mkdir()
    command = EngineImage("/i.sif", nvidia=True, scratch=f"{tmp_path}/disk-$SLURM_JOB_ID").prefix()
    given = {
        "PATH": f"{commands}:/usr/bin:/bin",
        "CUDA_VISIBLE_DEVICES": "1,3",
        "NCCL_SOCKET_IFNAME": "ib0",
        "SLURM_JOB_ID": "7",
        "APPTAINER_BIND": "/shared",
        "OTHER": "x",
    }
    done = subprocess.run(
        [*command, "python3"], env=given, capture_output=True, text=True, check=True
    )
    lines = done.stdout.splitlines()
    assert {"--cleanenv", "--nv", "/i.sif", "python3"} <= set(lines)
    assert "APPTAINERENV_CUDA_VISIBLE_DEVICES=1,3" in lines
    assert "APPTAINERENV_NCCL_SOCKET_IFNAME=ib0" in lines
    assert f"APPTAINER_BIND=/shared,{disk}" in lines
    assert not [line for line in lines if line.startswith("APPTAINERENV_OTHER")]


def test_no_command_is_taken_from_a_folder_s_name() -> None:
    shell = " ".join(EngineImage("/i.sif", scratch="/x$(touch /tmp/no)").prefix())
    assert "touch" not in shell


def test_folders_that_cannot_be_bound_are_refused() -> None:
    with pytest.raises(ServingError, match=r" /a:b: .*\bserving\.python\b"):
        EngineImage("/i.sif").prefix([Path("/a:b")])


def test_files_of_a_hub_s_cache_are_seen_where_they_lie(tmp_path: Path) -> None:
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshots" / "1"
    blobs.mkdir()
    snapshot.mkdir(parents=True)
    (blobs / "abc").touch()
    (snapshot / "config.json").symlink_to(blobs / "abc")
    assert model_folders(snapshot) == [snapshot, blobs]
    assert model_folders(blobs) == [blobs]


@pytest.mark.apptainer
def test_real_container_sees_variables_and_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if shutil.which("apptainer") is None or "HPCSCI_TEST_IMAGE" not in os.environ:
        pytest.skip("NOT TESTED: containers, for lack of apptainer or of HPCSCI_TEST_IMAGE")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1,3")
    monkeypatch.setenv("OTHER", "x")
    (tmp_path / "there").touch()
    command = EngineImage(os.environ["HPCSCI_TEST_IMAGE"]).prefix([tmp_path])
    done = subprocess.run(
        [*command, "sh", "-c", 'echo "$CUDA_VISIBLE_DEVICES,$OTHER"; ls "$0"', tmp_path],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[0] == "1,3,"
    assert "there" in done.stdout.splitlines()
