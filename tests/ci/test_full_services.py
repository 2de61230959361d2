"""What tells the suites apart that are up at once, and what they share."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from suites.services import Services

ROOM: Any = SimpleNamespace()


def services(folder: Path, name: str) -> Services:
    (folder / name).mkdir()
    return Services(folder / name, folder / "cache", folder / "out", ("cluster",), ROOM)


def test_each_suites_cluster_has_a_folder_and_a_user_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HPCSCI_DEVCLUSTER_DIR", "/srv/somebodys")
    one, other = (services(tmp_path, name) for name in ("slurm", "doctor"))
    apart = ("HPCSCI_DEVCLUSTER_DIR", "HPCSCI_DEVCLUSTER_USER", "HPCTEST_USER", "HPCTEST_SHARED")
    for name in (*apart, "HPCTEST_LOGS", "HOME"):
        assert one.env[name] != other.env[name], name
    assert one.env["HPCSCI_DEVCLUSTER_DIR"].startswith(str(tmp_path))
    assert one.env["HPCTEST_USER"] == one.env["HPCSCI_DEVCLUSTER_USER"] == "hpcsci-slurm"
    assert one.env["PIP_CACHE_DIR"] == other.env["PIP_CACHE_DIR"]
    assert one._machine["HPCSCI_DEVCLUSTER_DIR"] == "/srv/somebodys"  # where the image is kept


def test_logs_are_sought_where_the_cluster_writes_them_and_where_tests_keep_theirs(
    tmp_path: Path,
) -> None:
    made = services(tmp_path, "cluster")
    assert made.log_folders == [
        f"{made.env['HPCSCI_DEVCLUSTER_DIR']}/log",
        made.env["HPCTEST_LOGS"],
    ]
    assert Path(made.env["HPCTEST_LOGS"]).is_dir()
