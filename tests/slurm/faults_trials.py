"""Trials on a real Slurm, with a driver that can be killed, and what must hold in the end."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from faults_kit import LIMIT_S, until
from slurm_kit import Cluster
from trialkit import Bench

from hpcscientist.execution.backends.slurm import commands
from hpcscientist.history import journal
from hpcscientist.records.events import Event, NoteTaken, TrialEnded
from hpcscientist.records.trial import IdeaFailed, MachineFailed, Scored, TrialReport, TrialSpec
from hpcscientist.results.store import read_result
from hpcscientist.system import processes

IMPATIENT = {
    "round_min_s": 0.5,
    "round_max_s": 1.0,
    "files_s": 0.2,
    "gather_s": 0.3,
    "visible_s": 2.0,
    "command_s": 20.0,
}

# Every candidate is between these two: ROOT is outside of the run directory.
BEGIN = """
ROOT = TRIAL.parents[2]
def tell(name):
    with open(ROOT / name, "a") as file:
        file.write(f"{TRIAL.name} {os.uname().nodename}\\n")
tell("began")
"""
END = "\ntell('finished')\n"
WHEN_TOLD = "await_file(ROOT / 'go'); predict()"


@dataclass
class Trials:
    """Bare trials below a folder that every node sees, and the driver that runs them."""

    cluster: Cluster
    bench: Bench
    campaign: str
    specs: list[TrialSpec] = field(default_factory=list)
    after: dict[str, str] = field(default_factory=dict)
    retries: int = 2
    driver: subprocess.Popen[bytes] | None = None

    @classmethod
    def prepare(cls, cluster: Cluster, **sections: dict[str, Any]) -> Trials:
        folder = cluster.make_folder("faults")
        bench = Bench(folder, str(cluster.python)).prepare()
        trials = cls(cluster, bench, folder.name.replace("-", ""))
        trials.write_site(**sections)
        shutil.copy(Path(__file__).with_name("faults_driver.py"), folder / "driver.py")
        return trials

    @property
    def folder(self) -> Path:
        return self.bench.root

    def write_site(self, **sections: dict[str, Any]) -> None:
        """Write the site profile: what is usual here, and what is given."""
        usual = {"slurm": {"memory_margin_mb": 256, "pack_s": 0.0}, "watch": IMPATIENT}
        lines: list[str] = []
        for name in {**usual, **sections}:
            values = usual.get(name, {}) | sections.get(name, {})
            lines += [f"[{name}]", *(f"{k} = {json.dumps(v)}" for k, v in values.items())]
        (self.folder / "site.toml").write_text("\n".join(lines) + "\n")

    def add(self, name: str, body: str = "predict()", after: str = "", **changes: Any) -> None:
        """Add a trial; with `after`, it is not asked for before there is a file of that name."""
        given = {"memory_mb": 256, "deadline_s": 120.0} | changes
        spec = self.bench.trial(BEGIN + body + END, name, **given)
        source = spec.provenance.model_copy(update={"campaign_id": self.campaign})
        self.specs.append(spec.model_copy(update={"provenance": source}))
        if after:
            self.after[name] = after

    def start(self, env: dict[str, str] | None = None) -> None:
        """Start a driver: the first one, or one that resumes."""
        plan = {
            "campaign": self.campaign,
            "retries": self.retries,
            "after": self.after,
            "specs": [spec.model_dump(mode="json") for spec in self.specs],
        }
        (self.folder / "plan.json").write_text(json.dumps(plan))
        self.cluster.own(self.folder)
        command = self.cluster.command(
            *(self.cluster.python, "-P", "driver.py", self.folder), env=env
        )
        with self.said.open("ab") as said:  # no pipe: candidates' workers may outlive the driver
            self.driver = subprocess.Popen(
                command,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
            )

    @property
    def said(self) -> Path:
        """What the drivers printed."""
        return self.folder / "said"

    def end_code(self) -> int:
        """Wait for the driver's end."""
        assert self.driver is not None
        return self.driver.wait(timeout=LIMIT_S)

    def finish(self, env: dict[str, str] | None = None) -> None:
        """Start a driver unless one runs, and wait until it has driven all trials to their end."""
        if self.driver is None or self.driver.poll() is not None:
            self.start(env)
        assert self.end_code() == 0, self.story()

    def kill_driver(self) -> None:
        """Kill the driver outright."""
        assert self.driver is not None
        self._driver_itself().kill()
        self.driver.wait(timeout=LIMIT_S)

    @contextmanager
    def driver_held(self) -> Iterator[None]:
        """Stop the driver by SIGSTOP meanwhile: what happens, it then sees in one look."""
        driver = self._driver_itself()
        driver.suspend()
        try:
            yield
        finally:
            driver.resume()
            # runuser stops itself when what it runs is stopped, and nobody else wakes it.
            assert self.driver is not None
            self.driver.send_signal(signal.SIGCONT)

    def _driver_itself(self) -> psutil.Process:
        """The driver below what makes it its user's."""
        assert self.driver is not None
        above = psutil.Process(self.driver.pid)
        for process in [*above.children(recursive=True), above]:
            if "driver.py" in process.cmdline() and Path(process.exe()).name != "runuser":
                return process
        raise LookupError(self.story())

    def end(self) -> None:
        """End what is left when a test has failed."""
        if self.driver is not None and self.driver.poll() is None:
            self.kill_driver()
        ids = {row.job_id.partition("_")[0] for row in self.cluster.queue(self.campaign)}
        if ids:
            self.cluster.run("scancel", *ids, cwd=self.folder)

    def touch(self, name: str = "go") -> None:
        (self.folder / name).touch()
        self.cluster.own(self.folder / name)

    def told(self, name: str) -> list[tuple[str, str]]:
        """What candidates told: trial and node, in order."""
        path = self.folder / name
        lines = path.read_text().splitlines() if path.exists() else []
        return [(line.split()[0], line.split()[1]) for line in lines]

    def nodes(self, trial: str) -> list[str]:
        """The nodes where a trial's candidate began, in order."""
        return [node for name, node in self.told("began") if name == trial]

    def await_began(self, *trials: str, times: int = 1) -> None:
        for trial in trials:
            until(f"{trial} began {times} times", lambda t=trial: len(self.nodes(t)) >= times)

    def events(self) -> list[Event]:
        return journal.read(self.bench.run.journal)

    def notes(self) -> dict[str, str]:
        return {e.name: e.text for e in self.events() if isinstance(e, NoteTaken)}

    def reports(self, trial: str) -> list[TrialReport]:
        """Every report of a trial in the journal, in order."""
        ended = (e.report for e in self.events() if isinstance(e, TrialEnded))
        return [report for report in ended if report.trial_id == trial]

    def failures(self, trial: str) -> list[str]:
        """What the machine did to a trial, in order."""
        outcomes = [report.outcome for report in self.reports(trial)]
        return [o.failure.value for o in outcomes if isinstance(o, MachineFailed)]

    def jobs(self) -> list[str]:
        """The ids of every array of this campaign that the controller knows, ended ones too."""
        done = self.cluster.run(
            *("squeue", "--me", "--states=all", "--noheader", "--format=%F %j"), cwd=self.folder
        )
        mark = commands.job_name(self.campaign, "")
        rows = [line.split() for line in done.stdout.splitlines()]
        return sorted({job for job, name in rows if name.startswith(mark)})

    def array_task(self, trial: str) -> str:
        """The job id of the array task that a trial is in, as scancel wants it."""
        for record in self.bench.run.submission.glob("*/batch.json"):
            submitted = record.with_name("submitted.json")
            for number, slots in enumerate(json.loads(record.read_text())["tasks"]):
                if any(slot["trial_id"] == trial for slot in slots) and submitted.exists():
                    return f"{json.loads(submitted.read_text())['job_id']}_{number}"
        raise LookupError(trial)

    def user(self, *command: str) -> str:
        """Run a command as the user."""
        done = self.cluster.run(*command, cwd=self.folder)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def check(self, executions: int | None = 1) -> None:
        """None lost, none accepted twice, nothing left.

        `executions`: how often each candidate came to its end, where that is known.
        """
        events = self.events()
        assert len({event.key for event in events}) == len(events)
        for spec in self.specs:
            reports = self.reports(spec.trial_id)
            accepted = [r for r in reports if isinstance(r.outcome, Scored | IdeaFailed)]
            assert len(accepted) == 1, self.story()
            assert accepted == reports[-1:]
            assert [r.run for r in reports] == list(range(1, len(reports) + 1))
            assert self.bench.run.trial(spec.trial_id).result.exists()
            assert read_result(self.bench.run.trial(spec.trial_id)) == accepted[0]
        ended = Counter(trial for trial, _ in self.told("finished"))
        if executions is not None:
            assert all(count == executions for count in ended.values()), ended
        until("the queue is empty", lambda: not self.cluster.queue(self.campaign))
        assert not self.bench.run.submission.exists() or not any(
            self.bench.run.submission.iterdir()
        )
        until("no process is left", lambda: not processes.marked(self.campaign))

    def check_scored(self) -> None:
        """Check, and that every trial was scored."""
        self.check()
        for spec in self.specs:
            assert isinstance(self.reports(spec.trial_id)[-1].outcome, Scored), self.story()

    def story(self) -> str:
        """What happened, for the message of a failing test."""
        said = self.said.read_text() if self.said.exists() else ""
        return "\n".join([*(event.model_dump_json() for event in self.events()), said])


Prepare = Callable[..., Trials]
