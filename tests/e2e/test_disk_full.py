"""A full disk stops a campaign with one line; nothing recorded is lost; resume goes on."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from campaigns import TinyCampaign, hpcsci

from hpcscientist.history import journal

pytestmark = [pytest.mark.e2e, pytest.mark.root, pytest.mark.full]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    if os.geteuid() != 0:
        pytest.skip("needs root to mount a tmpfs of 12 MiB: the full disk was NOT tested")
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=12m", "tmpfs", str(disk)],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounted.returncode != 0:
        pytest.skip(f"cannot mount a tmpfs ({mounted.stderr.strip()}): NOT tested")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    campaign = TinyCampaign.prepare(tmp_path_factory.mktemp("reference"))
    assert campaign.drive("never", *campaign.launch_arguments()).returncode == 0
    return campaign.findings()


@pytest.mark.parametrize(
    "moment",
    [
        "driver_started:1:after",
        pytest.param("reply_recorded:2:after", marks=pytest.mark.full),
        "idea_proposed:1:after",
        pytest.param("trial_queued:4:after", marks=pytest.mark.full),
        "trial_ended:4:after",
        pytest.param("idea_ended:3:after", marks=pytest.mark.full),
        "campaign_ended:1:before",
    ],
)
def test_full_disk_is_survived(
    moment: str, small_disk: Path, expected: list[dict[str, Any]]
) -> None:
    campaign = TinyCampaign.prepare(small_disk)
    died = campaign.drive(moment, *campaign.launch_arguments())
    assert died.returncode < 0, died.stderr
    hpcsci("cancel", "run", cwd=small_disk)  # let what still ran end before the disk is filled
    before = journal.read(campaign.paths.journal)
    _fill(small_disk)
    failed = hpcsci("resume", "run", cwd=small_disk)
    assert failed.returncode == 1, failed.stderr
    assert "space" in failed.stderr.splitlines()[-1]
    assert "unexpected" not in failed.stderr
    assert journal.read(campaign.paths.journal)[: len(before)] == before

    (small_disk / "ballast").unlink()
    resumed = hpcsci("resume", "run", cwd=small_disk)
    assert resumed.returncode == 0, resumed.stderr
    assert campaign.findings() == expected


def _fill(disk: Path) -> None:
    with (disk / "ballast").open("wb", buffering=0) as file:
        while True:
            try:
                file.write(b"\0" * min(4096, max(1, shutil.disk_usage(disk).free)))
            except OSError:
                return
