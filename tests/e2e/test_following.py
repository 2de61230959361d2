"""Following, detaching from, asking about and cancelling a campaign that a Slurm job drives."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import psutil
import pytest
from controlled import LIMIT_S, Controlled, starts

pytestmark = [pytest.mark.e2e, pytest.mark.slurm]


def test_detached_then_followed_to_its_end(controlled: Controlled) -> None:
    controlled.lengthen_trials(3.0)  # it still runs when it is asked for
    job = controlled.launch_detached()
    assert controlled.status()["state"] == "running"
    assert "controller" in controlled.hpcsci("status", "run").stdout
    followed = controlled.hpcsci("resume", "run")
    assert followed.returncode == 0, followed.stderr + controlled.logs()
    assert re.search(rf"\b{job}\b.*\balready\b", followed.stderr)
    assert "idea-0002" in followed.stdout
    assert re.search(r"\d % .*\d MiB", followed.stderr)
    controlled.check_whole(2)
    assert [start.generation for start in starts(controlled.events())] == [1]
    # Nothing was sent to the queue a second time; it ends at once, with the results.
    again = controlled.hpcsci("resume", "run")
    assert again.returncode == 0, again.stderr
    assert "idea-0002" in again.stdout


def test_two_resume_at_once_and_one_job_drives(controlled: Controlled) -> None:
    controlled.write_site(controller={"extra": ["--begin=now+1hour"]})
    controlled.launch_detached()
    assert controlled.hpcsci("cancel", "run").returncode == 0
    command = [*controlled.cluster.hpcsci_command, "resume", "--detach", "run"]
    both = [controlled.cluster.start(*command, cwd=controlled.folder) for _ in range(2)]
    said = [process.communicate(timeout=LIMIT_S)[0].strip() for process in both]
    assert [process.returncode for process in both] == [0, 0]
    (job,) = controlled.wait_until(lambda: (q := controlled.queue()) and len(q) == 1 and q)
    assert said == [job.job_id] * 2


def test_cancelled_while_it_runs_and_taken_up_again(controlled: Controlled) -> None:
    controlled.launch_detached(rounds=4)
    controlled.wait_for_trials(3)
    assert len([job for job in controlled.queue() if job.name.endswith("-controller")]) == 2
    cancelled = controlled.hpcsci("cancel", "run")
    assert cancelled.returncode == 0, cancelled.stderr
    assert controlled.queue() == []
    assert controlled.status()["state"] == "stopped"
    resumed = controlled.hpcsci("resume", "run")
    assert resumed.returncode == 0, resumed.stderr + controlled.logs()
    controlled.check_whole(4)


def test_cancelled_after_its_driver_was_killed(controlled: Controlled) -> None:
    controlled.launch_detached(rounds=6)
    controlled.wait_for_trials(3)
    os.kill(controlled.driver().pid, signal.SIGKILL)
    cancelled = controlled.hpcsci("cancel", "run")
    assert cancelled.returncode == 0, cancelled.stderr
    assert controlled.queue() == []
    assert controlled.status()["state"] == "stopped"


def test_follower_detaches_and_the_campaign_goes_on(controlled: Controlled) -> None:
    controlled.write_site(controller={"extra": ["--begin=now+1hour"]})
    follower = controlled.cluster.start(
        *controlled.cluster.hpcsci_command, *controlled.launch_arguments(), cwd=controlled.folder
    )
    controlled.wait_until(controlled.queue)
    (waiting,) = controlled.queue()
    controlled.wait_until(lambda: controlled.status()["state"] == "running")
    said = controlled.hpcsci("status", "run").stdout
    assert re.search(rf"controller queued, .*\b{waiting.job_id}\b.* BeginTime\b", said)
    (process,) = psutil.Process(follower.pid).children() or [psutil.Process(follower.pid)]
    process.send_signal(signal.SIGTERM)  # SIGINT is ignored where a shell runs in the background
    _, stderr = follower.communicate(timeout=LIMIT_S)
    assert follower.returncode == 130, stderr
    assert "hpcsci cancel" in stderr.splitlines()[-1]
    assert controlled.queue() == [waiting]
    cancelled = controlled.hpcsci("cancel", "run")
    assert cancelled.returncode == 0, cancelled.stderr
    assert controlled.queue() == []
    assert controlled.status()["state"] == "stopped"


def test_slurm_that_does_not_answer_for_a_while(controlled: Controlled) -> None:
    # A command that nobody answers takes this long, and the campaign must outlast it.
    controlled.write_site(watch={"command_s": 8.0})
    controlled.launch_detached(rounds=8)
    controlled.wait_for_trials(2)
    # A configuration in which nobody listens where the controller is looked for.
    conf = Path(os.environ.get("SLURM_CONF", "/etc/slurm/slurm.conf"))
    own = controlled.folder / "slurm.conf"
    deaf = re.sub(r"(?m)^SlurmctldPort=.*$", "", conf.read_text()) + "\nSlurmctldPort=9\n"
    own.write_text(deaf)
    env = {"SLURM_CONF": str(own)}
    said = controlled.cluster.hpcsci("status", "run", cwd=controlled.folder, env=env)
    assert re.search(r"^controller: .*\banswer\b", said.stdout, re.M)
    assert ": running" in said.stdout  # its heart beats
    follower = controlled.cluster.start(
        *controlled.cluster.hpcsci_command, "resume", "run", cwd=controlled.folder, env=env
    )
    assert follower.stderr is not None
    assert any("trying again" in line for line in iter(follower.stderr.readline, ""))
    own.write_text(conf.read_text())
    _, stderr = follower.communicate(timeout=LIMIT_S)
    assert follower.returncode == 0, stderr + controlled.logs()
    controlled.check_whole(8)


def test_dry_run_shows_the_scripts_and_touches_nothing(controlled: Controlled) -> None:
    before = sorted(controlled.folder.rglob("*"))
    done = controlled.hpcsci(*controlled.launch_arguments("--dry-run"))
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("#!/bin/bash") == 2
    assert "hpcscientist.cli.main controller" in done.stdout
    assert "#SBATCH --array=0-1" in done.stdout
    assert sorted(controlled.folder.rglob("*")) == before
    assert controlled.cluster.queue("hpcsci-tiny-00000000") == []


def test_refused_by_slurm_nothing_is_left(controlled: Controlled) -> None:
    done = controlled.hpcsci(*controlled.launch_arguments("--partition", "no-such-partition"))
    assert done.returncode == 2, done.stderr
    assert "partition" in done.stderr.splitlines()[-1]
    assert not controlled.tiny.paths.root.exists()
