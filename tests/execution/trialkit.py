"""A tiny recipe, and trials of it whose candidate is any given code. Standard library only."""

from __future__ import annotations

import contextlib
import math
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from hpcscientist.execution.bounds.watch import Reason, Watch
from hpcscientist.files.hashing import hash_file, hash_tree
from hpcscientist.files.rundir import RunPaths, TrialPaths
from hpcscientist.records.trial import (
    Budget,
    Direction,
    Isolation,
    Limits,
    MetricSpec,
    Provenance,
    Sources,
    Split,
    Stage,
    TrialSpec,
)
from hpcscientist.system import processes

CAMPAIGN = f"campaign-of-test-{os.getpid()}"  # two sessions may run on one machine

# Every candidate starts with this; OUT, DATA and TRIAL are what it may know or guess.
PRELUDE = """
import argparse, os, pathlib, signal, sys, time
parser = argparse.ArgumentParser()
for name in ("data", "out", "seed", "budget", "split"):
    parser.add_argument("--" + name, required=True)
parser.add_argument("--process", default="")
ARGS = parser.parse_args()
OUT, DATA = pathlib.Path(ARGS.out), pathlib.Path(ARGS.data)
TRIAL = OUT.parent

def predict(text="1\\n0\\n1\\n1\\n"):
    (OUT / "predictions.csv").write_text(text)

def note(name, text=""):
    temporary = OUT / ("." + name)
    temporary.write_text(str(text))
    temporary.rename(OUT / name)

def await_file(path):
    while not os.path.exists(path):
        time.sleep(0.01)

def daemon(act):
    # Forks twice and leaves the session: no process group leads to it any more.
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            act()
        os._exit(0)
    os.wait()

def linger(name="daemon"):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    note(name, os.getpid())
    while True:
        time.sleep(60)
"""

SCORER = """
import argparse, json, math, pathlib, sys
parser = argparse.ArgumentParser()
parser.add_argument("--predictions")
parser.add_argument("--labels")
args = parser.parse_args()
truth = pathlib.Path(args.labels, "labels.csv").read_text().split()
try:
    guess = [float(line) for line in pathlib.Path(args.predictions).read_text().split()]
except ValueError as error:
    sys.exit(print(f"not a number: {error}", file=sys.stderr) or 3)
if len(guess) != len(truth) or any(math.isnan(x) for x in guess):
    print("expected 4 numbers", file=sys.stderr)
    sys.exit(3)
hits = sum(float(t) == g for t, g in zip(truth, guess))
print(json.dumps({"accuracy": hits / len(truth), "undeclared": 1}))
"""


@dataclass(frozen=True)
class Bench:
    """A recipe on disk and a run directory."""

    root: Path
    python: str = sys.executable

    @property
    def run(self) -> RunPaths:
        return RunPaths(self.root / "run")

    @property
    def labels(self) -> Path:
        return self.root / "private" / "labels.csv"

    @property
    def scorer(self) -> Path:
        return self.root / "recipe" / "score.py"

    def prepare(self) -> Bench:
        self.labels.parent.mkdir(parents=True, mode=0o700)
        self.labels.write_text("1\n0\n1\n0\n")
        (self.root / "data" / "train").mkdir(parents=True)
        self.scorer.parent.mkdir()
        self.scorer.write_text(SCORER)
        return self

    def trial(self, body: str, trial_id: str = "trial-1", **changes: Any) -> TrialSpec:
        """Write a candidate and its spec; `changes` are fields of limits or of the spec."""
        code = self.root / "code" / trial_id
        code.mkdir(parents=True)
        (code / "experiment.py").write_text(PRELUDE + textwrap.dedent(body))
        limits = {"deadline_s": 600.0, "memory_mb": 512, "output_mb": 8, "cpus": 1, "gpus": 0}
        limits |= {"processes": 1024, "open_files": 4096}
        limits.update({k: changes.pop(k) for k in list(changes) if k in limits})
        spec = TrialSpec(
            trial_id=trial_id,
            idea_id="idea-0001",
            round=1,
            attempt=1,
            stage=Stage.SEEDS,
            seed=7,
            split=Split.VALIDATION,
            budget=Budget.FULL,
            metrics=(MetricSpec(name="accuracy", direction=Direction.MAXIMIZE),),
            limits=Limits(**limits),
            sources=self.sources(code),
            isolation=Isolation.NONE,
            provenance=Provenance(
                campaign_id=CAMPAIGN,
                package_version="0",
                recipe_hash="r",
                data_hash="d",
                code_hash=hash_tree(code),
                model="none",
            ),
            queued_at=0.0,
        ).model_copy(update=changes)
        paths = self.run.trial(trial_id)
        paths.out.mkdir(parents=True)
        paths.spec.write_text(spec.model_dump_json())
        return spec

    def sources(self, code: Path) -> Sources:
        return Sources(
            code=str(code),
            entry="experiment.py",
            data=str(self.root / "data"),
            labels=str(self.labels.parent),
            scorer=str(self.scorer),
            scorer_hash=hash_file(self.scorer),
            predictions="predictions.csv",
            python=self.python,
        )


def contained(spec: TrialSpec, image: str) -> TrialSpec:
    sources = spec.sources.model_copy(update={"image": image})
    return spec.model_copy(update={"isolation": Isolation.APPTAINER, "sources": sources})


def assert_ended(paths: TrialPaths, *names: str) -> None:
    """Assert that processes which noted that they had begun are gone.

    They are looked for by their mark: a namespace of their own may number them anew.
    """
    for name in names:
        assert (paths.out / name).read_text().isdigit(), f"{name} had not begun"
    assert processes.marked(CAMPAIGN, paths.root.name) == []


def assert_gone(pid: int) -> None:
    assert not processes.is_alive(pid), f"process {pid} outlived its trial"


def assert_nothing_runs() -> None:
    assert processes.marked(CAMPAIGN) == []


def tell_of_memory(monkeypatch: pytest.MonkeyPatch, told: Path, above_mb: float = 0.0) -> None:
    """Have a file come about once a command was seen to hold more memory: it can wait for that."""

    class Telling(Watch):
        def reason(self) -> Reason | None:
            found = super().reason()
            if self.peak_mb > above_mb:
                told.touch()
            return found

    monkeypatch.setattr("hpcscientist.execution.bounds.supervise.Watch", Telling)


def count_from(monkeypatch: pytest.MonkeyPatch, file: Path) -> None:
    """Have the time until a command's deadline begin once a file is there."""

    class Waiting(Watch):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            self._span_s, self._deadline = self._deadline - self._seen, math.inf

        def reason(self) -> Reason | None:
            if self._deadline == math.inf and file.exists():
                self._deadline = time.monotonic() + self._span_s
            return super().reason()

    monkeypatch.setattr("hpcscientist.execution.bounds.supervise.Watch", Waiting)


@contextlib.contextmanager
def small_disk(folder: Path, mib: int) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={mib}m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("NOT TESTED: a full disk, for lack of the right to mount a small tmpfs")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


# A candidate that fills such a disk.
FILL = "(OUT / 'predictions.csv').write_bytes(b'x' * (6 << 20))"
