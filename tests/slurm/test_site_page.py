"""The commands of slurm/sites/README.md that need a cluster, each as it is written there.

A campaign is cancelled once a trial of it was scored in an array: what comes after is for others.
"""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from digits_kit import given_image
from faults_kit import until
from slurm_kit import LIMIT_S, ROOT, Cluster
from test_readmes import blocks

from hpcscientist.files.rundir import RunPaths
from hpcscientist.history import journal
from hpcscientist.records.events import TrialEnded
from hpcscientist.records.trial import Scored

pytestmark = [pytest.mark.slurm, pytest.mark.apptainer, pytest.mark.e2e, pytest.mark.timeout(1800)]

PAGE = ROOT / "slurm" / "sites" / "README.md"
COMMANDS = [
    line.partition("#")[0].strip()
    for block in blocks(PAGE)
    if not block.is_run
    for line in block.text.splitlines()
    if line.startswith(".venv/bin/hpcsci ")
]


@pytest.fixture(scope="module")
def folder(cluster: Cluster) -> Path:
    """A clone as its user has it who has put the cluster's names into `mysite.toml`."""
    made = cluster.make_folder("site-page")
    shutil.copytree(ROOT / "slurm" / "sites", made / "slurm" / "sites")
    (made / "mysite.toml").write_text('name = "ours"\n')
    (made / "experiment.sif").symlink_to(given_image())
    programs = made / ".venv" / "bin"
    programs.mkdir(parents=True)
    (made / "scratch").mkdir()
    (programs / "hpcsci").write_text(f'#!/bin/sh\nexec {shlex.join(cluster.hpcsci_command)} "$@"\n')
    (programs / "hpcsci").chmod(0o755)
    cluster.own(made)
    return made


def test_the_page_has_them() -> None:
    assert len(COMMANDS) == 6
    assert sum(" launch " in command for command in COMMANDS) == 4


@pytest.mark.parametrize("command", COMMANDS)
def test_it_runs_as_written(command: str, cluster: Cluster, folder: Path) -> None:
    before = set((folder / "scratch").iterdir())
    words = shlex.split(command)
    if " launch " not in command or "--dry-run" in words or "--detach" in words:
        done = cluster.run("bash", "-c", command, cwd=folder, timeout=LIMIT_S)
        assert done.returncode == 0, done.stdout + done.stderr
        (run,) = {*(folder / "scratch").iterdir()} - before or {None}
        assert (run is None) == ("--detach" not in words)
    else:
        driver = cluster.start("bash", "-c", f"exec {command}", cwd=folder)
        (run,) = until("it has a folder", lambda: {*(folder / "scratch").iterdir()} - before)
        until("a trial is scored", lambda: driver.poll() is not None or next(scored(run), None))
        assert driver.poll() is None, driver.communicate()
    if run is not None:
        ended = cluster.run(*words[:1], "cancel", run, cwd=folder, timeout=LIMIT_S)
        assert ended.returncode == 0, ended.stdout + ended.stderr
    if run is not None and "--detach" not in words:
        driver.communicate(timeout=LIMIT_S)
    until("nothing is queued", lambda: cluster.queue() == [])


def scored(run: Path) -> Iterator[str]:
    """Trials that were scored as elements of arrays."""
    for event in journal.events(RunPaths(run).journal):
        if isinstance(event, TrialEnded) and isinstance(event.report.outcome, Scored):
            assert event.report.usage.slurm_job
            yield event.report.trial_id
