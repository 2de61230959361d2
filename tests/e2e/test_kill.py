"""Killed at any moment, a campaign resumes to the same findings and repeats nothing."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any, get_args

import pytest
from campaigns import TinyCampaign, hpcsci

from hpcscientist.files.hashing import hash_tree
from hpcscientist.history import journal
from hpcscientist.records.events import Event
from hpcscientist.records.idea import idea_id_of

pytestmark = pytest.mark.e2e

# Every kind of event, at an occurrence in the middle of the campaign where there are several.
MOMENTS = {
    "campaign_started": 1,
    "driver_started": 1,
    "reply_recorded": 4,
    "idea_proposed": 2,
    "idea_admitted": 2,
    "proposals_exhausted": 1,
    "idea_briefed": 2,
    "attempt_written": 2,
    "trial_queued": 3,
    "trial_started": 4,
    "trial_ended": 5,
    "idea_ended": 2,
    "ideas_judged": 1,
    "note_taken": 1,
    "campaign_ended": 1,
}


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    campaign = TinyCampaign.prepare(tmp_path_factory.mktemp("uninterrupted"))
    done = campaign.drive("never", *campaign.launch_arguments())
    assert done.returncode == 0, done.stderr
    findings = campaign.findings()
    assert [row["status"] for row in findings] == [
        "baseline",
        "scored",
        "rejected",
        "scored",
        "failed",
    ]
    return findings


def test_every_kind_of_event_is_covered() -> None:
    kinds = {kind.model_fields["type"].default for kind in get_args(get_args(Event)[0])}
    # A clean stop writes driver_stopped: test_signals is about it. Served models: test_served.
    elsewhere = {"driver_stopped", "plane_started", "plane_stopped"}
    # What the machine fails: test_conductor. Compaction: test_compact, test_long_sweep.
    elsewhere |= {"idea_set_aside", "confirmation_set_aside", "results_compacted"}
    # Batches are told where a scheduler outlives the driver: tests/scheduler, test_port.
    elsewhere |= {"batch_queued"}
    # Seeds a few at a time, steps: test_seeds_in_stages, test_budgets_in_steps.
    elsewhere |= {"seeds_decided", "budget_decided"}
    # What is changed by somebody else: test_integrity, test_tampering.
    elsewhere |= {"tampering_found"}
    # An idea that goes back to its proposer: test_sent_back.
    elsewhere |= {"idea_revised"}
    assert kinds == set(MOMENTS) | set(OF_THE_WHOLE_LOOP) | elsewhere


WHENS = ("before", "torn", "after")
# What can be lost: the whole campaign, a reply, an attempt's code, an intent, a start, a result, an
# outcome. The other moments, which vary these, are for --full.
IN_GATE = {
    ("campaign_started", "before"),
    ("reply_recorded", "torn"),
    ("attempt_written", "torn"),
    ("trial_queued", "torn"),
    ("trial_started", "before"),
    ("trial_ended", "after"),
    ("idea_ended", "torn"),
}
KILLS = [
    pytest.param(kind, when, marks=[] if (kind, when) in IN_GATE else [pytest.mark.full])
    for kind in MOMENTS
    for when in WHENS
]


@pytest.mark.parametrize(("kind", "when"), KILLS)
def test_killed_at_an_event(
    kind: str, when: str, tmp_path: Path, uninterrupted: list[dict[str, Any]]
) -> None:
    campaign = TinyCampaign.prepare(tmp_path)
    died = campaign.drive(f"{kind}:{MOMENTS[kind]}:{when}", *campaign.launch_arguments())
    assert died.returncode == -signal.SIGKILL, died.stderr
    campaign.resume_to(uninterrupted)


# What a campaign without plans, reviews, further runs and confirmations does not have.
OF_THE_WHOLE_LOOP = {
    "idea_planned": 1,
    "attempt_reviewed": 1,
    "runs_read": 2,
    "author_gave_up": 1,
    "split_spent": 2,
}


class Digits(TinyCampaign):
    """The quickstart's first idea, with all that its playbook has to say about it."""

    def launch_arguments(self, ideas: int = 1) -> list[str]:
        return ["launch", "--allow-unsandboxed", "--ideas", str(ideas), "--run-dir", "run"]

    def executions(self) -> Counter[str]:
        if not self.paths.journal.exists():
            return Counter()
        events = journal.read(self.paths.journal)
        return Counter(event.trial_id for event in events if event.type == "trial_started")


@pytest.fixture(scope="module")
def whole_loop(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    campaign = Digits(tmp_path_factory.mktemp("whole-loop"))
    done = campaign.drive("never", *campaign.launch_arguments())
    assert done.returncode == 0, done.stderr
    findings = campaign.findings()
    assert [(row["finding"], row["attempts"]) for row in findings[1:]] == [("improvement", 3)]
    return findings


@pytest.mark.full
@pytest.mark.parametrize("when", ["torn", "after"])
@pytest.mark.parametrize("kind", OF_THE_WHOLE_LOOP)
def test_killed_at_an_event_of_the_whole_loop(
    kind: str, when: str, tmp_path: Path, whole_loop: list[dict[str, Any]]
) -> None:
    campaign = Digits(tmp_path)
    moment = f"{kind}:{OF_THE_WHOLE_LOOP[kind]}:{when}"
    died = campaign.drive(moment, *campaign.launch_arguments())
    assert died.returncode == -signal.SIGKILL, died.stderr
    campaign.resume_to(whole_loop)


@pytest.mark.full
def test_killed_at_random_moments_again_and_again(
    tmp_path: Path, uninterrupted: list[dict[str, Any]]
) -> None:
    campaign = TinyCampaign.prepare(tmp_path)
    draw = random.Random(5)
    arguments = campaign.launch_arguments()
    script = Path(__file__).with_name("kill_driver.py")
    for _ in range(6):
        command = [sys.executable, script, campaign.asked_file, "never", "--", *arguments]
        known = _size(campaign.paths.journal)
        driver = subprocess.Popen(
            list(map(str, command)), cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        # Moments are counted from its first event, so that a slow machine has as many as a fast.
        while driver.poll() is None and _size(campaign.paths.journal) == known:
            time.sleep(0.01)
        try:
            driver.wait(timeout=draw.uniform(0, 2))
        except subprocess.TimeoutExpired:
            os.kill(driver.pid, signal.SIGKILL)
        driver.communicate()
        arguments = ["resume", "run"]
    campaign.resume_to(uninterrupted)


@pytest.mark.parametrize(
    "moment",
    # The second: an idea had its proposal's reply and was none yet; that answers another question.
    ["idea_ended:2:after", pytest.param("chat_line:4:after", marks=pytest.mark.full)],
)
def test_prompts_are_edited_and_the_version_raised_before_it_is_resumed(
    moment: str, tmp_path: Path, uninterrupted: list[dict[str, Any]]
) -> None:
    campaign = TinyCampaign.prepare(tmp_path)
    died = campaign.drive(moment, *campaign.launch_arguments())
    assert died.returncode == -signal.SIGKILL, died.stderr
    old = journal.read(campaign.paths.journal)
    ended = {event.idea_id for event in old if event.type == "idea_ended"}
    folders = {idea: hash_tree(campaign.paths.idea(idea).root) for idea in ended}
    written = {(e.idea_id, e.attempt) for e in old if e.type == "attempt_written"}
    nothing_left = {idea_id_of(e.number) for e in old if e.type == "proposals_exhausted"}
    before, on_disk = campaign.asked(), campaign.recorded_calls()

    def is_settled(call: str) -> bool:
        idea, key = call.split()
        proposed = key == "propose/1" and campaign.paths.idea(idea).idea.exists()
        number = {"code/1": 1, "structure/1": 2, "debug/1": 2}.get(key, 0)
        return idea in ended | nothing_left or proposed or (idea, number) in written

    anew = {call for call in before if not is_settled(call)}
    done = campaign.drive("upgraded", "resume", "run")
    assert done.returncode == 0, done.stderr
    assert campaign.findings() == uninterrupted
    assert {idea: hash_tree(campaign.paths.idea(idea).root) for idea in ended} == folders
    new = journal.read(campaign.paths.journal)[len(old) :]
    assert [e.package_version for e in new if e.type == "driver_started"] == ["99.0"]
    assert not [e for e in new if getattr(e, "idea_id", "") in ended]
    assert {call for call in before if campaign.asked()[call] > before[call]} == anew
    # What had no reply on the disk is asked for the first time as far as anybody knows.
    counted = {f"{e.idea_id} {e.call}" for e in new if e.type == "reply_recorded" and e.asked > 1}
    assert counted == anew & on_disk
    assert counted or moment.startswith("idea_ended")


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


@pytest.mark.full
def test_half_written_result_is_run_again(
    tmp_path: Path, uninterrupted: list[dict[str, Any]]
) -> None:
    campaign = TinyCampaign.prepare(tmp_path)
    died = campaign.drive("trial_ended:5:before", *campaign.launch_arguments())
    assert died.returncode == -signal.SIGKILL, died.stderr
    recorded = {
        e.report.trial_id for e in journal.read(campaign.paths.journal) if e.type == "trial_ended"
    }
    (torn, *_) = sorted(campaign.scored_trials() - recorded)
    result = campaign.paths.trial(torn).result
    result.write_bytes(result.read_bytes()[:100])
    campaign.resume_to(uninterrupted)


def test_finished_campaign_resumes_to_its_results(tmp_path: Path) -> None:
    campaign = TinyCampaign.prepare(tmp_path)
    assert campaign.drive("never", *campaign.launch_arguments(2)).returncode == 0
    before = campaign.paths.journal.read_bytes()
    again = hpcsci("resume", "run", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert campaign.paths.journal.read_bytes() == before
    assert "improve" in again.stdout or "Fewer slips" in again.stdout


def test_second_driver_is_refused(tmp_path: Path) -> None:
    campaign = TinyCampaign.prepare(tmp_path)
    died = campaign.drive("trial_queued:1:after", *campaign.launch_arguments(1))
    assert died.returncode == -signal.SIGKILL, died.stderr
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(campaign.paths.lock)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"held\n"
    refused = hpcsci("resume", "run", cwd=tmp_path)
    holder.communicate()
    assert refused.returncode == 1
    assert str(holder.pid) in refused.stderr
    assert len(refused.stderr.splitlines()) == 1
    assert hpcsci("resume", "run", cwd=tmp_path).returncode == 0


HOLD = """
import sys
import time
from collections import Counter
from pathlib import Path
from hpcscientist.history.status import DriverLock
lock = DriverLock(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
lock.release()
"""
