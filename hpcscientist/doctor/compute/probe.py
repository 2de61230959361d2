"""The doctor's program on a compute node: `python -m hpcscientist.doctor.compute.probe FOLDER`."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import psutil

from hpcscientist import __version__
from hpcscientist.doctor.compute.records import (
    DoctorFolder,
    FileIdentity,
    NodeReport,
    NodeRequest,
    Scratch,
)
from hpcscientist.doctor.rehearse import rehearse
from hpcscientist.doctor.storage import file_system
from hpcscientist.execution.sandbox.host import HostUnfit, scratch_base
from hpcscientist.files.atomic import write_atomic
from hpcscientist.models.serving.fitting.memory import parse_memory
from hpcscientist.records.site import Host

_ASK_S = 20.0
_MEMORY = ("--query-gpu=memory.total", "--format=csv,noheader,nounits")
# unshare(2) with CLONE_NEWUSER, run in a separate process.
_UNSHARE = "import ctypes, sys; sys.exit(ctypes.CDLL(None).unshare(0x10000000) != 0)"


def examine(folder: DoctorFolder) -> NodeReport:
    """Return this machine's resources and the result of a rehearsal on it. Raises OSError."""
    request = NodeRequest.model_validate_json(folder.request.read_bytes())
    return NodeReport(
        node=socket.gethostname(),
        written_at=time.time(),
        python=".".join(map(str, sys.version_info[:3])),
        executable=sys.executable,
        package=__version__,
        cpus=len(os.sched_getaffinity(0)),
        memory_mb=psutil.virtual_memory().total // 2**20,
        apptainer=apptainer_version(),
        namespaces=_answers(sys.executable, "-I", "-c", _UNSHARE) is not None,
        fuse=os.access("/dev/fuse", os.R_OK | os.W_OK),
        gpus=gpus(),
        gpu_memory_mb=parse_memory(_answers("nvidia-smi", *_MEMORY) or ""),
        scratch=_scratch(request.host),
        unseen=tuple(_unseen(request.shared)),
        exclusive=_is_exclusive(folder.taken),
        rehearsals=rehearse(request, folder),
    )


def apptainer_version() -> str:
    """Return the version of Apptainer on this machine; "" if there is none."""
    said = _answers("apptainer", "--version") or ""
    found = re.search(r"\d+(\.\d+)+\S*", said)
    return found[0] if found else ""


def gpus() -> tuple[str, ...]:
    """Return the NVIDIA GPUs that this process can use, by model, as the GPU driver lists them."""
    lines = (_answers("nvidia-smi", "--list-gpus") or "").splitlines()
    found = (re.match(r"GPU \d+: (.+?) \(UUID", line) for line in lines)
    return tuple(match[1] for match in found if match)


def _answers(*command: str) -> str | None:
    """Return what a program prints; None if it does not exist, fails or hangs."""
    if shutil.which(command[0]) is None:
        return None
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_ASK_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def _scratch(host: Host) -> Scratch:
    try:
        path = scratch_base(host)
        free_mb = shutil.disk_usage(path).free // 2**20
    except (HostUnfit, OSError) as error:
        return Scratch(path=host.scratch, fault=str(error))
    return Scratch(path=str(path), kind=file_system(path), free_mb=free_mb)


def _unseen(shared: Iterable[FileIdentity]) -> Iterable[str]:
    for place in shared:
        try:
            seen = Path(place.path).stat().st_ino == place.identity[1]
        except OSError:
            seen = False
        if not seen:
            yield f"{place.name} ({place.path})"


def _is_exclusive(path: Path) -> bool:
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return True
    return False


def main() -> None:
    """Examine this machine and write the report to the given folder."""
    if len(sys.argv) != 2:
        sys.exit("hpcsci doctor: only `hpcsci doctor` runs the probe; use that command")
    folder = DoctorFolder(Path(sys.argv[1]))
    write_atomic(folder.report, examine(folder).model_dump_json().encode())


if __name__ == "__main__":
    main()
