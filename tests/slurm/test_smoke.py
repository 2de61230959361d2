"""What a newcomer does: `up`, the shipped campaign, a node that dies under it, `down`."""

from __future__ import annotations

import pwd
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from devcluster_kit import Own, own_cluster
from digits_kit import LIMIT_S, ends, findings, found, given_image, launching
from faults_commands import held
from faults_kit import until
from slurm_kit import ROOT, Cluster

from hpcscientist.files.rundir import RunPaths
from hpcscientist.history import journal
from hpcscientist.records.events import TrialEnded
from hpcscientist.records.trial import TrialReport

pytestmark = [
    pytest.mark.slurm,
    pytest.mark.apptainer,
    pytest.mark.root,
    pytest.mark.e2e,
    pytest.mark.timeout(1800),
]

TRIAL = "idea-0001-a1-search-2"  # which runs as its node dies


@pytest.fixture
def own() -> Iterator[Own]:
    with own_cluster(Own()) as made:
        yield made


def test_a_campaign_whose_node_is_killed_finds_what_one_machine_finds(own: Own) -> None:
    options = ("--recipe", "./digits", "--model", "playbook", "--ideas", "2")
    options += ("--image", str(given_image()))
    interfaces = socket.if_nameindex()
    own.up()
    user = newcomer(own)
    env, node = held(user.folder, "apptainer", TRIAL)
    driver = user.start(
        *(*user.hpcsci_command, *launching("auto", *options)), cwd=user.folder, env=env
    )
    killed = until(f"{TRIAL} runs", lambda: told(node, driver.poll()))
    own.note()
    own.do("kill", killed)
    on_one_machine = found(user, user.folder, "local", *options)  # meanwhile
    said, wrong = driver.communicate(timeout=LIMIT_S)
    assert driver.returncode == 0, said + wrong

    on_slurm = findings(user, user.folder, "auto")
    assert ends(on_slurm) == ends(on_one_machine)  # first, for it says why rows differ
    assert on_slurm == on_one_machine
    assert [row["n"] for row in on_slurm] == [5, 5, 5]
    assert [row["finding"] for row in on_slurm] == [None, "improvement", "decline"]
    assert on_slurm[1]["confirmed"]
    trials = reports(user.folder / "auto")
    assert all(report.usage.slurm_job for report in trials)
    (again,) = [report for report in trials if report.trial_id == TRIAL]
    assert again.usage.node not in ("", killed)
    assert user.queue() == []
    own.note()
    own.down()
    assert own.left() == []
    assert socket.if_nameindex() == interfaces


def newcomer(own: Own) -> Cluster:
    """The cluster as its user sees it, in a folder of theirs with the recipe."""
    folder = Path(pwd.getpwnam(own.user).pw_dir) / "work"
    (folder / "home").mkdir(parents=True)
    shutil.copytree(ROOT / "recipes" / "digits", folder / "digits")
    recipe = folder / "digits" / "recipe.toml"
    # However slow the machine is, no trial comes to its deadline.
    recipe.write_text(recipe.read_text().replace("\nseconds = ", "\nseconds = 9"))
    (folder / "hpcsci.toml").write_text("[authoring]\nfurther_runs = 0\n")
    user = Cluster(own.user, folder, {"SLURM_CONF": str(own.places.slurm_conf)})
    user.own(folder)
    return user


def told(node: Path, ended: int | None) -> str | None:
    """The node where the trial runs, once it does."""
    assert ended is None, "the campaign ended before the trial ran"
    return node.read_text().strip() if node.exists() else None


def reports(run: Path) -> list[TrialReport]:
    """What came of every trial, in order."""
    events = journal.read(RunPaths(run).journal)
    return [event.report for event in events if isinstance(event, TrialEnded)]
