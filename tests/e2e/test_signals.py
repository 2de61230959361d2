"""SIGINT, SIGTERM and `hpcsci cancel` stop a campaign cleanly, and it can be resumed."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from campaigns import HPCSCI, LIMIT_S, TinyCampaign, hpcsci

from hpcscientist.history import journal
from hpcscientist.history.status import read_holder

pytestmark = pytest.mark.e2e

CLEAN_STOP_S = 10  # the contract's bound, not a measurement
# Waits as long as a file is there, and is given the time.
SLOW = """ERROR_RATE = 0.01
import time
while os.path.exists(COUNT_FILE + ".wait"):
    time.sleep(0.05)
"""


@pytest.fixture
def running(tmp_path: Path) -> Iterator[tuple[TinyCampaign, subprocess.Popen[str]]]:
    """A campaign in which a trial sleeps until it may go on."""
    campaign = TinyCampaign.prepare(tmp_path)
    recipe = tmp_path / "tiny" / "recipe.toml"
    recipe.write_text(recipe.read_text().replace("seconds = 120.0", "seconds = 300.0"))
    waiting(campaign).touch()
    playbook = tmp_path / "tiny" / "playbook.jsonl"
    lines = playbook.read_text().replace('"ERROR_RATE = 0.01"', json.dumps(SLOW))
    playbook.write_text(lines)
    driver = subprocess.Popen(
        [*HPCSCI, *campaign.launch_arguments(1)],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=heed_sigint,  # noqa: PLW1509 (this process has one thread)
    )
    try:
        wait_until(lambda: trial_sleeps(campaign, driver))
        yield campaign, driver
    finally:
        driver.kill()  # where the test has failed; the trial ends by itself
        waiting(campaign).unlink(missing_ok=True)
        driver.communicate()


def waiting(campaign: TinyCampaign) -> Path:
    return Path(f"{campaign.count_file}.wait")


def heed_sigint() -> None:
    """What a shell runs in the background ignores SIGINT, and hpcsci then leaves it at that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.05)


def trial_sleeps(campaign: TinyCampaign, driver: subprocess.Popen[str]) -> bool:
    assert driver.poll() is None, driver.communicate()
    return any("experiment.py" in line and "idea" in line for line in commands(campaign))


def commands(campaign: TinyCampaign) -> list[str]:
    """Command lines of the processes of this campaign's trials, with their marker."""
    found = []
    for process in psutil.process_iter():
        try:
            marker = process.environ().get("HPCSCI_TRIAL", "")
            line = " ".join(process.cmdline())
        except psutil.Error:
            continue
        if marker and str(campaign.folder) in line:
            found.append(f"{marker} {line}")
    return found


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_stops_cleanly(
    number: signal.Signals, running: tuple[TinyCampaign, subprocess.Popen[str]]
) -> None:
    campaign, driver = running
    driver.send_signal(number)
    _, stderr = driver.communicate(timeout=LIMIT_S)
    assert driver.returncode == 130
    assert "hpcsci resume" in stderr.splitlines()[-1]
    assert commands(campaign) == []
    last = journal.read(campaign.paths.journal)[-1]
    assert last.type == "driver_stopped"
    assert not last.failed
    assert read_holder(campaign.paths.lock) is None
    status = json.loads(hpcsci("status", "run", "--json", cwd=campaign.folder).stdout)
    assert status["state"] == "stopped"
    assert status["trials"]["running"] == 0


@pytest.mark.full
def test_signal_stops_within_the_bound(
    running: tuple[TinyCampaign, subprocess.Popen[str]],
) -> None:
    """On a machine that does nothing else; how long it takes is no question for the gate."""
    _, driver = running
    driver.send_signal(signal.SIGTERM)
    driver.communicate(timeout=CLEAN_STOP_S)
    assert driver.returncode == 130


def test_cancel_leaves_nothing_and_resume_goes_on(
    running: tuple[TinyCampaign, subprocess.Popen[str]],
) -> None:
    campaign, driver = running
    status = json.loads(hpcsci("status", "run", "--json", cwd=campaign.folder).stdout)
    assert status["state"] == "running"
    cancelled = hpcsci("cancel", "run", cwd=campaign.folder)
    assert cancelled.returncode == 0, cancelled.stderr
    driver.communicate(timeout=LIMIT_S)
    assert driver.returncode == 130
    assert commands(campaign) == []
    waiting(campaign).unlink()
    resumed = hpcsci("resume", "run", cwd=campaign.folder)
    assert resumed.returncode == 0, resumed.stderr
    assert campaign.findings()[1]["status"] == "scored"


def test_cancel_after_the_driver_was_killed(
    running: tuple[TinyCampaign, subprocess.Popen[str]],
) -> None:
    campaign, driver = running
    driver.kill()
    driver.wait()  # not communicate: the worker holds the pipes open
    assert commands(campaign), "the trial outlives its driver until its deadline"
    cancelled = hpcsci("cancel", "run", cwd=campaign.folder)
    assert cancelled.returncode == 0, cancelled.stderr
    assert commands(campaign) == []
    driver.communicate()
