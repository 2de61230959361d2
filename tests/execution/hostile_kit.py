"""Hostile candidates as trials: a recipe to attack, their folders, and what must become of them.

A candidate's code follows `trialkit.PRELUDE` and `_KNOWN`: what it could guess or find out of
the machine it runs on.
"""

from __future__ import annotations

import re
import shutil
import stat
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trialkit import Bench, contained

from hpcscientist.files.rundir import TrialPaths
from hpcscientist.recipe import load
from hpcscientist.records.site import Host
from hpcscientist.records.trial import IdeaFailed, Scored, TrialReport, TrialSpec

TRUTH = (3, 1, 4, 1, 5, 9, 2, 6, 5, 3)
DEADLINE_S, MEMORY_MB, OUTPUT_MB = 60, 512, 8  # of whoever says nothing else
HONEST_ACCURACY = 0.9  # of predictions made without a look at the labels


def rows(labels: tuple[int, ...]) -> str:
    return "id,label\n" + "".join(f"{number},{label}\n" for number, label in enumerate(labels))


# Candidates' `honest()` writes this: good but for the last.
HONEST = rows((*TRUTH[:-1], (TRUTH[-1] + 1) % 10))


@dataclass(frozen=True)
class HostileBench(Bench):
    """A recipe: labels `id,label` below `private`, data, a scorer, and candidates' code."""

    def prepare(self) -> HostileBench:
        self.labels.parent.mkdir(parents=True, mode=0o700)
        self.labels.write_text(rows(TRUTH))
        (self.root / "data" / "train").mkdir(parents=True)
        (self.root / "data" / "train" / "images.csv").write_text("id,pixels\n")
        self.scorer.parent.mkdir()
        shutil.copyfile(load.shipped_folder() / "digits" / "score.py", self.scorer)
        return self

    def files(self) -> dict[str, bytes]:
        """Everything that no trial may change: all but the folders of trials."""
        found = (path for path in sorted(self.root.rglob("*")) if path.is_file())
        kept = (path for path in found if self.run.trials not in path.parents)
        return {str(path.relative_to(self.root)): path.read_bytes() for path in kept}


Check = Callable[[TrialPaths, TrialReport], None]


@dataclass(frozen=True)
class Surroundings:
    """What a candidate may know of its machine: paths, and addresses at which somebody listens."""

    other_trial: str
    loopback: tuple[str, int]
    node: tuple[str, int]
    controller: tuple[str, int]


@dataclass(frozen=True)
class Hostile:
    """A candidate and its end: "scored" (nothing gained) or the failure and what is said of it."""

    name: str
    body: str
    outcome: str
    said: str = ""
    limits: dict[str, Any] = field(default_factory=dict)
    check: Check | None = None


_KNOWN = """
LABELS, SCORER, OTHER = pathlib.Path({labels!r}), pathlib.Path({scorer!r}), pathlib.Path({other!r})
LOOPBACK, NODE, CONTROLLER = {loopback!r}, {node!r}, {controller!r}

def call(address):
    import socket
    with socket.create_connection(address, 5) as connection:
        predict(connection.recv(65536).decode())

def unnoticed(act, *given):
    try:
        return act(*given)
    except OSError:
        return None
"""

_HONEST = f"""
def honest():
    predict({HONEST!r})
"""


def known(labels: Path, scorer: Path, around: Surroundings) -> str:
    """The code that every candidate's body follows, beside `honest()`."""
    return _KNOWN.format(
        labels=str(labels),
        scorer=str(scorer),
        other=around.other_trial,
        loopback=around.loopback,
        node=around.node,
        controller=around.controller,
    )


# The candidate that runs beside each of the others, and has to be scored whatever they do. It
# waits until it is told to go on, so that the two do overlap.
GOOD = "note('begun'); await_file(OUT / 'go on'); honest()"


def write_trial(
    bench: HostileBench,
    hostile: Hostile,
    image: str,
    around: Surroundings,
    host: Host | None = None,
) -> TrialSpec:
    """Write the folder of one candidate's trial; its id is the candidate's name."""
    limits = {"deadline_s": float(DEADLINE_S), "memory_mb": MEMORY_MB, "output_mb": OUTPUT_MB}
    limits |= hostile.limits
    code = known(bench.labels, bench.scorer, around) + _HONEST + textwrap.dedent(hostile.body)
    spec = bench.trial(code, hostile.name, **limits)
    spec = contained(spec, image).model_copy(update={"host": host or Host()})
    bench.run.trial(spec.trial_id).spec.write_text(spec.model_dump_json())
    return spec


def verify(hostile: Hostile, report: TrialReport, paths: TrialPaths) -> None:
    """Assert that a candidate came to the end it had to come to, and left nothing but files."""
    outcome = report.outcome
    if hostile.outcome == "scored":
        assert isinstance(outcome, Scored), outcome
        assert outcome.metrics == {"accuracy": HONEST_ACCURACY}
    else:
        assert isinstance(outcome, IdeaFailed), outcome
        assert outcome.failure == hostile.outcome, outcome
        assert re.search(hostile.said, outcome.detail), outcome.detail
        assert outcome.detail.isprintable(), "what it said reaches people's terminals"
    left = {path.name for path in paths.root.iterdir()}
    assert left <= {"spec.json", "worker.json", "out", "log", "result.arrow"}, left
    assert paths.log.stat().st_size < 1 << 20
    size = 0
    for path in paths.out.rglob("*"):
        info = path.stat(follow_symlinks=False)
        assert stat.S_ISREG(info.st_mode) or stat.S_ISDIR(info.st_mode), path
        assert stat.S_ISDIR(info.st_mode) or info.st_nlink == 1, path
        assert not info.st_mode & 0o7000, path
        size += info.st_blocks * 512
    assert size <= 9 << 20, "more than its quota is left"
    if hostile.check is not None:
        hostile.check(paths, report)


def never_made(name: str) -> Check:
    def check(paths: TrialPaths, report: TrialReport) -> None:
        assert not (paths.out / name).exists()

    return check


def nothing_left(paths: TrialPaths, report: TrialReport) -> None:
    assert list(paths.out.iterdir()) == []


def kept(*names: str) -> Check:
    def check(paths: TrialPaths, report: TrialReport) -> None:
        assert {path.name for path in paths.out.iterdir()} == set(names)

    return check


def unscathed(folder: Path) -> None:
    """Assert that nobody wrote into the trial that was never run."""
    assert {path.name for path in folder.iterdir()} == {"out", "spec.json"}
    assert {path.name for path in (folder / "out").iterdir()} == {"predictions.csv"}
    assert (folder / "out" / "predictions.csv").read_text() == HONEST
