"""Running whole campaigns in processes of their own, as a user does."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tiny_recipe import write_recipe

from hpcscientist.files.rundir import RunPaths
from hpcscientist.history import journal
from hpcscientist.results import store

LIMIT_S = 540  # a hang, not a slow machine; below the limit that pytest has for a test
HPCSCI = [sys.executable, "-c", "from hpcscientist.cli.main import main; main()"]
BENCHMARKS = [sys.executable, str(Path(__file__).resolve().parents[1] / "benchmarks")]
# Ideas are proposed and written, and nothing in between.
PLAIN = """\
[proposing]
batch = 1
reflections = 0
feasibility = false
[literature]
concepts = 0
[authoring]
plan = false
analysis = false
advice_rounds = 0
further_runs = 0
"""
NOT_COMPARED = {"cpu_hours", "gpu_hours"}


def hpcsci(*arguments: str | Path, cwd: Path, **options: Any) -> subprocess.CompletedProcess[str]:
    return _run([*HPCSCI, *map(str, arguments)], cwd, options)


def benchmark(
    *arguments: str | Path, cwd: Path, **options: Any
) -> subprocess.CompletedProcess[str]:
    return _run([*BENCHMARKS, *map(str, arguments)], cwd, options)


def _run(
    command: list[str], cwd: Path, options: dict[str, Any]
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, timeout=LIMIT_S, check=False, **options
    )


@dataclass(frozen=True)
class TinyCampaign:
    """A campaign of the tiny recipe in a folder of its own."""

    folder: Path

    @property
    def paths(self) -> RunPaths:
        return RunPaths(self.folder / "run")

    @property
    def count_file(self) -> Path:
        return self.folder / "executed"

    @property
    def asked_file(self) -> Path:
        return self.folder / "asked"

    @classmethod
    def prepare(cls, folder: Path, seeds: int = 2) -> TinyCampaign:
        campaign = cls(folder)
        write_recipe(folder, campaign.count_file, seeds)
        return campaign

    def launch_arguments(self, ideas: int = 5) -> list[str]:
        options = ["--model", "playbook", "--allow-unsandboxed", "--ideas", str(ideas)]
        return ["launch", "--recipe", "./tiny", "--run-dir", "run", *options]

    def drive(
        self, moment: str, *arguments: str, env: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a command in a driver that dies at a moment; `never`: that does not."""
        script = Path(__file__).with_name("kill_driver.py")
        command = [sys.executable, script, self.asked_file, moment, "--", *arguments]
        return subprocess.run(
            list(map(str, command)),
            cwd=self.folder,
            env=env,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )

    def resume_to(self, expected: list[dict[str, Any]]) -> None:
        """Resume, and hold everything against what was there before."""
        scored, ran = self.scored_trials(), self.executions()
        recorded, asked = self.recorded_calls(), self.asked()
        done = self.drive("never", "resume", "run")
        assert done.returncode == 0, done.stderr
        assert self.findings() == expected
        for trial in scored:
            assert self.executions()[trial] == ran[trial], f"{trial} was run again"
        for call in recorded:
            assert self.asked()[call] == asked[call], f"{call} was asked for again"
        events = journal.read(self.paths.journal)
        assert len({event.key for event in events}) == len(events)

    def findings(self) -> list[dict[str, Any]]:
        """The result table without what a rerun may change."""
        done = hpcsci("results", "run", "--format", "json", cwd=self.folder)
        assert done.returncode == 0, done.stderr
        rows: list[dict[str, Any]] = json.loads(done.stdout)
        return [{k: v for k, v in row.items() if k not in NOT_COMPARED} for row in rows]

    def scored_trials(self) -> set[str]:
        """Trials whose result can be read now."""
        trials = self.paths.trials.iterdir() if self.paths.trials.exists() else ()
        return {t.name for t in trials if store.read_result(self.paths.trial(t.name)) is not None}

    def executions(self) -> Counter[str]:
        """How often each trial's candidate ran to its end."""
        return (
            Counter(self.count_file.read_text().split()) if self.count_file.exists() else Counter()
        )

    def asked(self) -> Counter[str]:
        """How often each call reached the model."""
        return (
            Counter(self.asked_file.read_text().splitlines())
            if self.asked_file.exists()
            else Counter()
        )

    def recorded_calls(self) -> set[str]:
        """Calls whose reply is on the disk, as "idea key"."""
        found = set()
        for chat in self.paths.root.glob("ideas/*/chat.jsonl"):
            for line in chat.read_text().splitlines(keepends=True):
                if line.endswith("\n"):
                    found.add(f"{chat.parent.name} {json.loads(line)['key']}")
        return found
