"""A campaign that a Slurm job drives, as an ordinary user launches it."""

from __future__ import annotations

import json
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from campaigns import TinyCampaign
from slurm_kit import Cluster, QueuedJob

from hpcscientist.history import frozen, journal
from hpcscientist.models.open import API_KEY_VARIABLE
from hpcscientist.records.events import DriverStarted, DriverStopped, Event, TrialEnded

LIMIT_S = 420
SITE = {
    "slurm": {"memory_margin_mb": 128},
    "watch": {"gather_s": 0.2},
    "controller": {"memory_mb": 512, "minutes": 20, "stop_before_s": 30},
}


@dataclass
class Controlled:
    """A tiny campaign of the control arm, whose rounds make it as long as is needed."""

    cluster: Cluster
    tiny: TinyCampaign

    @property
    def folder(self) -> Path:
        return self.tiny.folder

    def write_site(self, **sections: dict[str, Any]) -> None:
        merged = {name: SITE[name] | sections.get(name, {}) for name in SITE}
        lines = []
        for name, values in merged.items():
            lines += [f"[{name}]", *(f"{k} = {json.dumps(v)}" for k, v in values.items())]
        (self.folder / "site.toml").write_text("\n".join(lines) + "\n")
        self.cluster.own(self.folder)

    def lengthen_trials(self, seconds: float) -> None:
        """Have every trial last so long at least, whatever the machine's speed."""
        experiment = self.folder / "tiny" / "reference" / "experiment.py"
        experiment.write_text(experiment.read_text() + f"import time\ntime.sleep({seconds})\n")

    def launch_arguments(self, *more: str, rounds: int = 2) -> list[str]:
        count = ["--ideas", str(rounds), "--rounds", str(rounds), "--model", "search"]
        place = ["--backend", "slurm", "--site", "site.toml", "--nodes", "1"]
        return ["launch", "--recipe", "./tiny", "--run-dir", "run", *count, *place, *more]

    def hpcsci(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.cluster.hpcsci(*arguments, cwd=self.folder, timeout=LIMIT_S)

    def launch_detached(self, rounds: int = 2, key: str = "") -> str:
        """Launch, and return the controller's job id. `key`: the model endpoint's."""
        arguments = self.launch_arguments("--detach", rounds=rounds)
        env = {API_KEY_VARIABLE: key} if key else {}
        done = self.cluster.hpcsci(*arguments, cwd=self.folder, env=env)
        assert done.returncode == 0, done.stderr
        assert "hpcsci cancel" in done.stderr
        return done.stdout.strip()

    def status(self) -> dict[str, Any]:
        done = self.hpcsci("status", "run", "--json")
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def events(self) -> list[Event]:
        return journal.read(self.tiny.paths.journal)

    def queue(self) -> list[QueuedJob]:
        """The campaign's jobs, its controllers and its arrays."""
        paths = self.tiny.paths
        return self.cluster.queue(frozen.read(paths).campaign_id) if paths.campaign.exists() else []

    def wait_until(self, condition: Callable[[], Any], limit_s: float = LIMIT_S) -> Any:
        until = time.monotonic() + limit_s
        while not (found := condition()):
            assert time.monotonic() < until, f"it did not happen; {self.logs()}"
            time.sleep(0.3)
        return found

    def wait_for_trials(self, count: int) -> None:
        """Wait until so many trials have ended."""
        self.wait_until(lambda: sum(isinstance(e, TrialEnded) for e in self.events()) >= count)

    def driver(self) -> psutil.Process:
        """The process of the controller that runs now; nodes are processes of this machine."""

        def find() -> psutil.Process | None:
            for process in psutil.process_iter(["cmdline"]):
                line = process.info["cmdline"] or []
                if line[-2:] == ["controller", str(self.tiny.paths.root)]:
                    return process
            return None

        found: psutil.Process = self.wait_until(find)
        return found

    def node_of_controller(self) -> str:
        (job,) = [
            job.job_id
            for job in self.queue()
            if job.state == "RUNNING" and job.name.endswith("-controller")
        ]
        asked = ["squeue", "--noheader", "--jobs", job, "--format=%N"]
        return self.cluster.run(*asked, cwd=self.folder).stdout.strip()

    def logs(self) -> str:
        return "\n".join(
            f"{log}: {log.read_text()}" for log in self.tiny.paths.lock.glob("controller-*.log")
        )

    def check_whole(self, rounds: int) -> None:
        """The campaign has ended, each trial was recorded once, and nothing of it is left."""
        status = self.status()
        assert status["state"] == "finished", self.logs()
        events = self.events()
        ended = Counter(e.report.trial_id for e in events if isinstance(e, TrialEnded))
        # Two seeds and a pilot for the baseline and for every idea; improvements are confirmed, and
        # the baseline is run again in each round but the first.
        again = {trial for trial in ended if trial.startswith("baseline-a")}
        again -= {trial for trial in again if trial.startswith("baseline-a1-")}
        own = [trial for trial in ended if "-confirm-" not in trial and trial not in again]
        assert len(own) == 3 + 3 * rounds
        assert len(again) == rounds - 1
        assert status["trials"]["scored"] == len(ended)
        assert len({event.key for event in events}) == len(events)
        self.check_queue_empty()

    def check_queue_empty(self) -> None:
        assert self.wait_until(lambda: self.queue() == [])


def starts(events: list[Event]) -> list[DriverStarted]:
    return [event for event in events if isinstance(event, DriverStarted)]


def stops(events: list[Event]) -> list[DriverStopped]:
    return [event for event in events if isinstance(event, DriverStopped)]
