"""A campaign goes on whatever ends the Slurm job that drives it, and no longer than it should."""

from __future__ import annotations

import pytest
from controlled import LIMIT_S, Controlled, starts, stops

from hpcscientist.models.open import API_KEY_VARIABLE

pytestmark = [pytest.mark.e2e, pytest.mark.slurm]


def test_killed_outright_it_is_continued_elsewhere(controlled: Controlled) -> None:
    controlled.launch_detached(rounds=6, key="secret")
    controlled.wait_for_trials(4)
    (successor,) = [job for job in controlled.queue() if job.reason == "Dependency"]
    node = controlled.node_of_controller()
    exclude = ["scontrol", "update", f"jobid={successor.job_id}", f"excnodelist={node}"]
    assert controlled.cluster.run(*exclude, cwd=controlled.folder).returncode == 0
    killed = controlled.driver()
    killed.kill()
    controlled.wait_until(lambda: not killed.is_running())
    # It starts with all that the first had, though that one had forgotten its endpoint's key.
    assert controlled.driver().environ()[API_KEY_VARIABLE] == "secret"
    followed = controlled.hpcsci("resume", "run")
    assert followed.returncode == 0, followed.stderr + controlled.logs()
    controlled.check_whole(6)
    first, second = starts(controlled.events())
    assert first.host != second.host
    assert max(controlled.tiny.executions().values()) == 1


def test_cancelled_by_somebody_s_scancel_it_is_continued(controlled: Controlled) -> None:
    job = controlled.launch_detached(rounds=4)
    controlled.wait_for_trials(3)
    assert controlled.cluster.run("scancel", job, cwd=controlled.folder).returncode == 0
    followed = controlled.hpcsci("resume", "run")
    assert followed.returncode == 0, followed.stderr + controlled.logs()
    controlled.check_whole(4)
    assert max(controlled.tiny.executions().values()) == 1


def test_with_all_its_controllers_cancelled_the_follower_ends(controlled: Controlled) -> None:
    controlled.launch_detached(rounds=6)
    controlled.wait_for_trials(3)
    follower = controlled.cluster.start(
        *controlled.cluster.hpcsci_command, "resume", "run", cwd=controlled.folder
    )
    assert follower.stderr is not None
    said = iter(follower.stderr.readline, "")
    assert any("controller running" in line for line in said)
    jobs = [job.job_id for job in controlled.queue() if job.name.endswith("-controller")]
    assert len(jobs) == 2
    assert controlled.cluster.run("scancel", *jobs, cwd=controlled.folder).returncode == 0
    _, stderr = follower.communicate(timeout=LIMIT_S)
    assert follower.returncode == 130, stderr
    assert "hpcsci resume" in stderr.splitlines()[-1]


def test_preempted_it_is_started_again(controlled: Controlled) -> None:
    controlled.launch_detached(rounds=6)
    controlled.wait_for_trials(3)
    node = controlled.node_of_controller()
    urgent = controlled.cluster.run(
        *("sbatch", "--parsable", "--partition=urgent", f"--nodelist={node}", "--exclusive"),
        *("--output=/dev/null", "--wrap=sleep 3"),
        cwd=controlled.folder,
    )
    assert urgent.returncode == 0, urgent.stderr
    followed = controlled.hpcsci("resume", "run")
    assert followed.returncode == 0, followed.stderr + controlled.logs()
    controlled.check_whole(6)
    assert len(starts(controlled.events())) == 2


def test_job_that_cannot_start_its_python(controlled: Controlled) -> None:
    controlled.write_site(slurm={"python": "/no/such/python"})
    done = controlled.hpcsci(*controlled.launch_arguments())
    assert done.returncode == 1, done.stderr
    assert "/no/such/python" in done.stderr
    assert "hpcsci resume" in done.stderr.splitlines()[-1]
    assert controlled.status()["state"] == "stopped"
    controlled.check_queue_empty()


def test_campaign_that_fails_has_no_continuation(controlled: Controlled) -> None:
    experiment = controlled.folder / "tiny" / "reference" / "experiment.py"
    experiment.write_text(
        experiment.read_text() + "\nraise SystemExit('the reference is broken')\n"
    )
    done = controlled.hpcsci(*controlled.launch_arguments())
    assert done.returncode == 1, done.stderr + controlled.logs()
    assert "baseline (error): " in done.stderr
    assert controlled.status()["state"] == "failed"
    controlled.check_queue_empty()


def test_its_own_walltime_is_no_end_but_a_long_chain_is(controlled: Controlled) -> None:
    controlled.write_site(controller={"minutes": 1, "stop_before_s": 10, "max_links": 2})
    controlled.lengthen_trials(5.0)  # at least 120 s: more than two controllers have
    done = controlled.hpcsci(*controlled.launch_arguments(rounds=12))
    assert done.returncode == 1, done.stderr + controlled.logs()
    assert "max_links" in done.stderr
    assert controlled.status()["state"] == "failed"
    events = controlled.events()
    assert len(starts(events)) == 2
    assert "SIGUSR1" in stops(events)[0].reason
    assert not stops(events)[0].failed
    assert any(event.type == "note_taken" for event in events)
    controlled.check_queue_empty()
    # People have looked at it: a new chain begins.
    controlled.write_site(controller={"minutes": 20})
    resumed = controlled.hpcsci("resume", "run", "--site", "site.toml")
    assert resumed.returncode == 0, resumed.stderr + controlled.logs()
    controlled.check_whole(12)
    assert max(controlled.tiny.executions().values()) == 1
