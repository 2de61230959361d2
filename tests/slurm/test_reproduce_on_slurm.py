"""A claim measured on Slurm in the container: run again there, on one machine, and a forged one."""

from __future__ import annotations

import json
import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from campaigns import TinyCampaign
from controlled import Controlled
from forging import change, change_recorded, forge
from reproducible import CERTAIN, PLAYBOOK, configure, copy
from slurm_kit import Cluster
from tiny_recipe import write_recipe

from hpcscientist.files.vault import ROOT_VARIABLE
from hpcscientist.history import frozen, journal
from hpcscientist.records.events import CampaignStarted, TrialEnded
from hpcscientist.records.findings import Holding
from hpcscientist.records.trial import TrialReport, TrialSpec

pytestmark = [pytest.mark.slurm, pytest.mark.apptainer, pytest.mark.e2e, pytest.mark.timeout(1800)]

SEEDS = 4
LIMIT_S = 800.0  # a hang, not a slow machine
NOWHERE = Path("/dev/null")  # nothing that a candidate writes leaves its container


@dataclass(frozen=True)
class Measured:
    """A campaign with one confirmed improvement, each of whose trials was an array's element."""

    cluster: Cluster
    tiny: TinyCampaign
    image: Path

    def copy(self) -> Measured:
        """The same in a folder that a test may spoil."""
        copied = copy(self.tiny, self.cluster.make_folder("again"))
        self.cluster.own(copied.folder)
        return Measured(self.cluster, copied, self.image)

    def again(self, *options: str | Path) -> subprocess.CompletedProcess[str]:
        command = ("reproduce", "run", "--idea", CERTAIN, "--out", "out", *options)
        return self.cluster.hpcsci(*command, cwd=self.tiny.folder, timeout=LIMIT_S)

    @property
    def out(self) -> Path:
        return self.tiny.folder / "out"

    def rerun(self) -> list[TrialReport]:
        """What became of the trials that were run again; nothing of them is in the queue."""
        events = journal.read(self.out / "journal.jsonl")
        (own,) = [event.campaign_id for event in events if isinstance(event, CampaignStarted)]
        assert self.cluster.queue(own) == []
        return [event.report for event in events if isinstance(event, TrialEnded)]


@pytest.fixture(scope="module")
def measured(cluster: Cluster) -> Measured:
    given = os.environ.get("HPCSCI_TEST_IMAGE")
    if not given:
        pytest.skip("NOT TESTED: HPCSCI_TEST_IMAGE names no image")
    image = Path(given).absolute()
    tiny = TinyCampaign(cluster.make_folder("measured"))
    write_recipe(tiny.folder, NOWHERE, SEEDS)
    lines = "".join(json.dumps(entry) + "\n" for entry in PLAYBOOK[:2])
    (tiny.folder / "tiny" / "playbook.jsonl").write_text(lines)
    configure(tiny.folder)
    controlled = Controlled(cluster, tiny)
    controlled.write_site()
    where = ("--backend", "slurm", "--site", "site.toml", "--image", str(image))
    done = cluster.hpcsci(
        *("launch", "--recipe", "./tiny", "--run-dir", "run", "--model", "playbook"),
        *("--ideas", "1", *where),
        cwd=tiny.folder,
        timeout=LIMIT_S,
    )
    assert done.returncode == 0, done.stderr
    told = cluster.hpcsci("results", "run", "--format", "json", cwd=tiny.folder)
    row: dict[str, Any] = json.loads(told.stdout)[1]
    assert (row["finding"], row["confirmed"]) == ("improvement", True), row
    ended = [e.report for e in journal.read(tiny.paths.journal) if isinstance(e, TrialEnded)]
    assert all(report.usage.slurm_job for report in ended)
    assert frozen.read(tiny.paths).isolation == "apptainer"
    return Measured(cluster, tiny, image)


def isolations(campaign: Measured) -> set[tuple[str, str | None]]:
    specs = (
        TrialSpec.model_validate_json(path.read_bytes())
        for path in campaign.out.glob("trials/*/spec.json")
    )
    return {(spec.isolation.value, spec.sources.image) for spec in specs}


def test_it_holds_bit_by_bit_as_other_array_tasks_in_the_same_container(measured: Measured) -> None:
    campaign = measured.copy()
    done = campaign.again()
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == f"{CERTAIN}: holds"
    reports = campaign.rerun()
    assert len(reports) == 4 * SEEDS  # the idea and the baseline, on both splits
    known = {
        e.report.usage.slurm_job
        for e in journal.read(campaign.tiny.paths.journal)
        if isinstance(e, TrialEnded)
    }
    again = {report.usage.slurm_job for report in reports}
    assert None not in again
    assert not again & known
    assert isolations(campaign) == {("apptainer", str(campaign.image))}


def test_it_holds_on_one_machine_in_a_container_that_lies_elsewhere(measured: Measured) -> None:
    campaign = measured.copy()
    elsewhere = campaign.tiny.folder / "moved.sif"
    elsewhere.symlink_to(campaign.image)
    done = campaign.again("--backend", "local", "--image", "moved.sif")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == f"{CERTAIN}: holds"
    reports = campaign.rerun()
    assert len(reports) == 4 * SEEDS
    assert {report.usage.slurm_job for report in reports} == {None}
    assert isolations(campaign) == {("apptainer", str(elsewhere))}


def test_another_container_is_none_to_reproduce_it_in(measured: Measured) -> None:
    campaign = measured.copy()
    (campaign.tiny.folder / "other.sif").write_bytes(b"other")
    done = campaign.again("--image", "other.sif")
    assert done.returncode == 1, done.stdout + done.stderr
    assert re.search(r"other\.sif .*\bhash\b", done.stdout)
    missing = campaign.again("--image", "nowhere.sif")
    assert missing.returncode == 2
    assert re.search(r"nowhere\.sif.*--image", missing.stderr)
    assert not campaign.out.exists()


def test_changed_code_and_a_changed_value_are_told_and_nothing_is_submitted(
    measured: Measured, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign = measured.copy()
    monkeypatch.setenv(ROOT_VARIABLE, str(measured.tiny.folder / "sealed"))
    change(campaign.tiny.paths.idea(CERTAIN).code(1) / "experiment.py", "0.02", "0.01")
    change_recorded(campaign.tiny, f"{CERTAIN}-a1-search-0", 1.0)
    campaign.cluster.own(campaign.tiny.folder)
    done = campaign.again()
    assert done.returncode == 1, done.stdout + done.stderr
    assert re.search(rf"{CERTAIN}/.*/code .*\bhash: {Holding.NOT}", done.stdout)
    assert re.search(r"search-0: accuracy .*\b1\.0 .*journal.* 0\.\d", done.stdout)
    assert done.stdout.splitlines()[-1].startswith(f"{CERTAIN}: {Holding.NOT}")
    assert not campaign.out.exists()


def test_a_value_that_was_forged_everywhere_is_found_by_running_it(
    measured: Measured, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign = measured.copy()
    monkeypatch.setenv(ROOT_VARIABLE, str(measured.tiny.folder / "sealed"))
    forge(campaign.tiny, CERTAIN, 1.0)
    campaign.cluster.own(campaign.tiny.folder)
    done = campaign.again()
    assert done.returncode == 1, done.stdout + done.stderr
    told = rf"^{CERTAIN}-a1-search-0: .*predictions .*\b0\.\d+\b.*\b1: "
    assert re.search(told, done.stdout, re.MULTILINE), done.stdout
    assert done.stdout.splitlines()[-1].startswith(f"{CERTAIN}: {Holding.NOT}")
    assert len(campaign.rerun()) == 4 * SEEDS
