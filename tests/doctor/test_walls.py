"""The rehearsal's candidate notices walls that are not there, and those that are."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hpcscientist.doctor.compute.records import DoctorFolder, FileIdentity, NodeReport, NodeRequest
from hpcscientist.doctor.rehearse import place
from hpcscientist.records.site import Host

IMAGE = os.environ.get("HPCSCI_TEST_IMAGE")
needs_image = pytest.mark.skipif(
    IMAGE is None or shutil.which("apptainer") is None,
    reason="needs Apptainer, and HPCSCI_TEST_IMAGE with a container image",
)


def probe(root: Path, image: str | None = None, host: Host | None = None) -> NodeReport:
    """Run what a compute node runs, here."""
    folder = DoctorFolder(root)
    folder.labels.mkdir()
    folder.taken.touch()
    shared = (
        place("here", root),
        FileIdentity(name="gone", path=str(root / "gone"), identity=(1, 1)),
    )
    request = NodeRequest(host=host or Host(), image=image, gpus=0, shared=shared)
    folder.request.write_text(request.model_dump_json())
    command = [sys.executable, "-m", "hpcscientist.doctor.compute.probe", str(root)]
    subprocess.run(command, check=True, timeout=120, cwd=root)
    return NodeReport.model_validate_json(folder.report.read_bytes())


def test_without_a_sandbox_every_wall_is_found_open(tmp_path: Path) -> None:
    report = probe(tmp_path)
    (rehearsed,) = report.rehearsals
    inside = rehearsed.inside
    assert inside is not None, rehearsed.outcome
    assert {"the labels", "the run directory", "the host's root folder"} <= set(inside.seen)
    assert "127.0.0.1" in {address for address, _ in inside.reached}
    assert inside.processes
    assert not inside.environment, "a candidate's environment is scrubbed, sandbox or not"


def test_node_tells_what_it_shares(tmp_path: Path) -> None:
    report = probe(tmp_path)
    assert report.unseen == (f"gone ({tmp_path / 'gone'})",)
    assert report.exclusive
    assert report.scratch.fault == ""
    assert report.scratch.free_mb > 0


def test_scratch_that_a_node_lacks_is_named(tmp_path: Path) -> None:
    report = probe(tmp_path, host=Host(scratch="$HPC_NO_SUCH_VARIABLE/x"))
    assert "HPC_NO_SUCH_VARIABLE" in report.scratch.fault
    assert report.rehearsals[0].inside is None


@pytest.mark.apptainer
@needs_image
def test_container_holds_every_wall(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    (rehearsed,) = probe(tmp_path, IMAGE).rehearsals
    inside = rehearsed.inside
    assert inside is not None, rehearsed.outcome
    assert (inside.interfaces, inside.reached, inside.seen, inside.mounts) == (("lo",), (), (), ())
    assert not (inside.environment or inside.processes or inside.is_root)


@pytest.mark.apptainer
@needs_image
def test_open_network_is_noticed(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    (rehearsed,) = probe(tmp_path, IMAGE, Host(network="open")).rehearsals
    assert rehearsed.inside is not None, rehearsed.outcome
    assert rehearsed.inside.reached


@pytest.mark.apptainer
@needs_image
def test_image_that_cannot_start_is_told_in_apptainer_s_words(tmp_path: Path) -> None:
    (tmp_path / "bad.sif").write_text("no image")
    rehearsals = probe(tmp_path, str(tmp_path / "bad.sif")).rehearsals
    assert [r.network for r in rehearsals] == ["none", "open"]
    assert all(r.inside is None for r in rehearsals)
