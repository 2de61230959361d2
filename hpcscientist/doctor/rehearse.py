"""Runs the rehearsal: a complete trial in the real container whose candidate tests the sandbox."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hpcscientist import __version__
from hpcscientist.doctor.compute.records import (
    DoctorFolder,
    FileIdentity,
    Inside,
    NodeRequest,
    Rehearsed,
    Walls,
)
from hpcscientist.execution import trial
from hpcscientist.files.hashing import hash_file, hash_tree, package_hash
from hpcscientist.records.trial import (
    Budget,
    Direction,
    Isolation,
    Limits,
    MachineFailed,
    MachineFailure,
    MetricSpec,
    Provenance,
    Scored,
    Sources,
    Split,
    Stage,
    TrialSpec,
)

_HERE = Path(__file__).parent / "rehearsal"
_VARIABLE = "HPCSCI_DOCTOR_WALL"
_PROCESS = "hpcscientist.doctor.compute.probe"
_LIMITS = {"deadline_s": 60.0, "memory_mb": 512, "output_mb": 16, "cpus": 1}


def rehearse(request: NodeRequest, folder: DoctorFolder) -> tuple[Rehearsed, ...]:
    """Run the rehearsal as a campaign would; if the container cannot start, run it again with an
    open network. Raises OSError.
    """
    os.environ[_VARIABLE] = "1"
    with _listener() as addresses:
        walls = Walls(
            addresses=addresses,
            places=tuple(_places(folder)),
            variable=_VARIABLE,
            process=_PROCESS,
        )
        folder.data.mkdir(exist_ok=True)
        (folder.data / "walls.json").write_text(walls.model_dump_json())
        first = _run(request, folder)
        if not _did_not_start(first) or request.image is None or first.network == "open":
            return (first,)
        host = request.host.model_copy(update={"network": "open"})
        return (first, _run(request.model_copy(update={"host": host}), folder))


def _did_not_start(rehearsed: Rehearsed) -> bool:
    outcome = rehearsed.outcome
    return isinstance(outcome, MachineFailed) and outcome.failure is MachineFailure.SETUP


def _run(request: NodeRequest, folder: DoctorFolder) -> Rehearsed:
    paths = folder.rehearsal(request.host.network)
    paths.out.mkdir(parents=True)
    spec = _spec(request, folder)
    begin = time.monotonic()
    report = trial.run(spec, paths)
    seconds = time.monotonic() - begin
    inside = None
    if isinstance(report.outcome, Scored):
        with contextlib.suppress(ValueError):
            found = (paths.out / spec.sources.predictions).read_bytes()
            inside = Inside.model_validate_json(found)
    return Rehearsed(
        network=request.host.network, outcome=report.outcome, seconds=seconds, inside=inside
    )


def _spec(request: NodeRequest, folder: DoctorFolder) -> TrialSpec:
    code, scorer = _HERE / "code", _HERE / "score.py"
    return TrialSpec(
        trial_id="rehearsal",
        idea_id="doctor",
        round=0,
        attempt=1,
        stage=Stage.PILOT,
        seed=0,
        split=Split.VALIDATION,
        budget=Budget.PILOT,
        metrics=(MetricSpec(name="ran", direction=Direction.MAXIMIZE),),
        limits=Limits.model_validate({**_LIMITS, "gpus": request.gpus}),
        sources=Sources(
            code=str(code),
            entry="experiment.py",
            data=str(folder.data),
            labels=str(folder.labels),
            scorer=str(scorer),
            scorer_hash=hash_file(scorer),
            predictions="predictions.csv",
            python=sys.executable,
            image=request.image,
        ),
        isolation=Isolation.NONE if request.image is None else Isolation.APPTAINER,
        host=request.host,
        provenance=Provenance(
            campaign_id=folder.root.name,
            package_version=__version__,
            package_hash=package_hash(),
            recipe_hash="",
            data_hash="",
            code_hash=hash_tree(code),
            model="",
        ),
        queued_at=time.time(),
    )


def _places(folder: DoctorFolder) -> Iterator[FileIdentity]:
    """Yield the files and folders of this machine that a candidate must not see."""
    named = {
        "the labels": folder.labels,
        "the run directory": folder.root,
        "your home": Path.home(),
        "the host's temporary files": Path(tempfile.gettempdir()),
        "the host's root folder": Path("/"),
    }
    for name, path in named.items():
        with contextlib.suppress(OSError):
            yield place(name, path)


def place(name: str, path: Path) -> FileIdentity:
    """Return a path with its device and inode numbers on this machine. Raises OSError."""
    info = path.stat()
    return FileIdentity(name=name, path=str(path), identity=(info.st_dev, info.st_ino))


@contextmanager
def _listener() -> Iterator[tuple[tuple[str, int], ...]]:
    """Listen on every address of this machine, and yield the addresses for the candidate to try."""
    with socket.create_server(("", 0)) as server:
        port = int(server.getsockname()[1])
        names = {"127.0.0.1"}
        with contextlib.suppress(OSError):
            names |= {
                str(i[4][0])
                for i in socket.getaddrinfo(
                    socket.gethostname(), port, socket.AF_INET, socket.SOCK_STREAM
                )
            }
        yield tuple((name, port) for name in sorted(names))
