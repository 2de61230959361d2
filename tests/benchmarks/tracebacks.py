"""`benchmarks tracebacks`: how much of a failure is read from a log of it.

A corpus of broken experiments (`broken`, a folder a case) says which frames of an experiment's own
code are to be found, in order. Most are really run; what one machine does not show (GPUs, ranks) is
kept as a log. Beside stands a plain regular expression, Dolphin's way (arXiv 2501.03916, 3.2).
The local structure around the frames that were found is labelled too, and read from either's.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from hpcscientist.authoring.structure import local_structure
from hpcscientist.authoring.tracebacks.log import Frame, frames
from hpcscientist.bench.figure import Figure
from hpcscientist.ports import Tell

BROKEN = Path(__file__).parents[1] / "data" / "broken"
LIMIT_S = 60.0
JOBS = 2

Place = tuple[str, int, str]  # file, line, function
Entry = tuple[str | int, ...]  # definitions, calls, names or shapes, and what stands there

PLAIN, READ = "plain regular expression", "traceback reader"

_ABOUT = {"expected.json", "structure.json", "log"}  # beside a case's sources
_PLAIN = re.compile(r'File "(.*)", line (\d+), in (.*)')


@dataclass(frozen=True, slots=True)
class Case:
    """A broken experiment: its sources by name, and what is to be found out from its log.

    `how`: it is `run`, and gets `signal` once its first line holds `until`, where it would not end;
    or its `log` is `stored`, and `folder` is where that says it ran. `headline` is its start.
    `structure` is what stands around its frames.
    """

    name: str
    how: str
    kind: str
    files: Mapping[str, str]
    frames: tuple[Place, ...]
    headline: str
    until: str = ""
    signal: str = "SIGKILL"
    folder: str = ""
    log: str = ""
    structure: frozenset[Entry] = frozenset()


@dataclass(frozen=True, slots=True)
class Failed:
    """A case with the log of its failure, and the folder it ran in."""

    case: Case
    log: str
    folder: str


@dataclass(slots=True)
class Tally:
    """Counts over cases: frames found, rightly found, labelled; names of cases not wholly right.

    `parts` counts the entries of the local structure likewise.
    """

    found: int = 0
    right: int = 0
    labelled: int = 0
    cases: int = 0
    missed: list[str] = field(default_factory=list)
    parts: list[int] = field(default_factory=lambda: [0, 0, 0])

    def add(self, case: Case, found: Sequence[Place]) -> None:
        """Count a case. Repeats of a frame count once, but are not wholly right."""
        self.found += len(set(found))
        self.right += len(set(found) & set(case.frames))
        self.labelled += len(set(case.frames))
        self.cases += 1
        if list(found) != list(case.frames):
            self.missed.append(case.name)
        entries = structure(case, found)
        counts = (len(entries), len(entries & case.structure), len(case.structure))
        self.parts = [before + count for before, count in zip(self.parts, counts, strict=True)]

    @property
    def shares(self) -> dict[str, tuple[float, str]]:
        """What is measured, and of how many: all labelled frames in order is wholly right."""
        parts = {
            "precision": (self.right, self.found, "frames found"),
            "recall": (self.right, self.labelled, "frames"),
            "cases wholly right": (self.cases - len(self.missed), self.cases, "cases"),
            "precision of structure": (self.parts[1], self.parts[0], "entries found"),
            "recall of structure": (self.parts[1], self.parts[2], "entries"),
        }
        return {
            what: (part / whole if whole else 1.0, f"of {whole} {unit}")
            for what, (part, whole, unit) in parts.items()
        }


def figures(runs: int = 1, tell: Tell = lambda _: None) -> list[Figure]:
    """Read every case's log `runs` times, each time run anew; medians over the runs.

    `tell` hears which cases are not read exactly as labelled.
    """
    chosen = cases()
    tallies = []
    for _ in range(runs):
        with tempfile.TemporaryDirectory(prefix="hpcsci-bench-") as folder:
            tell(f"running {sum(case.how == 'run' for case in chosen)} broken experiments")
            tallies.append(tally(fail_all(chosen, Path(folder)).values()))
        for name in tallies[-1][READ].missed:
            tell(f"not wholly right: {name}")
    return _figures(tallies)


def tally(failed: Iterable[Failed]) -> dict[str, Tally]:
    """Count what both ways find in logs."""
    counts = {PLAIN: Tally(), READ: Tally()}
    for one in failed:
        counts[PLAIN].add(one.case, plain(one.log, one.folder, one.case.files))
        counts[READ].add(one.case, read(one.log, one.case.files))
    return counts


def _figures(tallies: Sequence[Mapping[str, Tally]]) -> list[Figure]:
    found = []
    for what in tallies[0][READ].shares:
        beside = 0.0  # what is measured first stands beside nothing
        for arm in (PLAIN, READ):
            values = [run[arm].shares[what][0] for run in tallies]
            value = statistics.median(values)
            found.append(
                Figure(
                    name=f"{what}, {arm}",
                    value=value,
                    unit=tallies[-1][arm].shares[what][1],
                    compared_with=f"{PLAIN} {beside:.3f}" if arm == READ else None,
                    ratio=value / beside if beside else None,
                    target=1.0 if beside else None,
                    spread=max(values) - min(values),
                    runs=len(tallies),
                    at_least=True,
                )
            )
            beside = value
    return found


def cases(folder: Path = BROKEN) -> list[Case]:
    """Return the corpus, by name."""
    return [_case(path.parent) for path in sorted(folder.glob("*/expected.json"))]


def _case(folder: Path) -> Case:
    about = json.loads((folder / "expected.json").read_text("utf-8"))
    # Installers trip over letters beyond ASCII in a file's name, so such a name stands here.
    names = about.get("names", {})
    kept = [p for p in sorted(folder.rglob("*")) if p.is_file() and "__pycache__" not in p.parts]
    sources = {path.relative_to(folder).as_posix(): path for path in kept}
    files = {
        names.get(name, name): path.read_bytes().decode("utf-8")
        for name, path in sources.items()
        if name not in _ABOUT
    }
    log = folder / "log"
    return Case(
        name=folder.name,
        how=about["how"],
        kind=about["kind"],
        files=files,
        frames=tuple((f["file"], f["line"], f["function"]) for f in about["frames"]),
        headline=about["headline"],
        until=about.get("until", ""),
        signal=about.get("signal", "SIGKILL"),
        folder=about.get("folder", ""),
        log=log.read_bytes().decode("utf-8", "replace") if log.exists() else "",
        structure=_labelled(folder / "structure.json"),
    )


_KINDS = ("definitions", "calls", "names", "shapes")


def _labelled(path: Path) -> frozenset[Entry]:
    """Read what is to be found around a case's frames; nothing where none of them is ours."""
    label = json.loads(path.read_text("utf-8")) if path.exists() else {}
    return frozenset((kind, *entry) for kind in _KINDS for entry in label.get(kind, ()))


def structure(case: Case, places: Sequence[Place]) -> frozenset[Entry]:
    """Return the local structure around frames of a case's code, as its labels are written."""
    own = [Frame(file=file, line=line, function=name, code="") for file, line, name in places]
    found = local_structure(case.files, own)
    return frozenset(
        [
            *(("definitions", d.file, d.name, d.first, d.last) for d in found.definitions),
            *(("calls", c.caller, c.callee, c.file, c.line) for c in found.calls),
            *(("names", n.name, n.file, n.line) for n in found.names),
            *(("shapes", s.name, s.file, s.line, s.shape) for s in found.shapes),
        ]
    )


def fail(case: Case, scratch: Path) -> Failed:
    """Return a case's log; one that is to be run runs below `scratch`, as a trial would."""
    if case.how == "stored":
        return Failed(case, case.log, case.folder)
    folder = scratch / case.name / "code"
    for name, text in case.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
    return Failed(case, _output(folder, case), str(folder))


def fail_all(chosen: Sequence[Case], scratch: Path) -> dict[str, Failed]:
    """Return the logs of cases by name; JOBS of them run at a time."""
    with ThreadPoolExecutor(JOBS) as pool:
        return {done.case.name: done for done in pool.map(lambda c: fail(c, scratch), chosen)}


def _output(folder: Path, case: Case) -> str:
    """Run `experiment.py` with an environment like a trial's; return all that it prints."""
    entry = str(folder / "experiment.py")
    process = subprocess.Popen(
        # Some cases crash, and nobody wants the memory that they leave behind.
        ["/bin/sh", "-c", 'ulimit -c 0; exec "$@"', "sh", sys.executable, "-B", entry],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=_environment(folder),
        cwd=folder,
        start_new_session=True,  # so that its processes can be ended with it
    )
    late = threading.Timer(LIMIT_S, _send, (process, signal.SIGKILL))
    late.start()
    lines: list[bytes] = []
    with process:
        for line in process.stdout or ():
            if case.until and not lines and case.until in line.decode():
                _send(process, signal.Signals[case.signal])
            lines.append(line)
        _send(process, signal.SIGKILL)  # those of its processes that outlive it
        process.wait()
    late.cancel()
    return b"".join(lines).decode("utf-8", "replace")


def _send(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)


def _environment(folder: Path) -> dict[str, str]:
    threads = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    taken = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
    return taken | dict.fromkeys(threads, "1") | {"HOME": str(folder), "LANG": "C.UTF-8"}


def plain(log: str, folder: str, files: Mapping[str, str]) -> list[Place]:
    """Return what a regular expression finds in a log: every frame in the experiment's folder."""
    found = []
    for path, line, function in _PLAIN.findall(log):
        name = path.removeprefix(f"{folder}/") if folder else path
        if name in files:
            found.append((name, int(line), function))
    return found


def read(log: str, files: Mapping[str, str]) -> list[Place]:
    """Return what `authoring` finds in a log."""
    return [(frame.file, frame.line, frame.function) for frame in frames(log, files)]
