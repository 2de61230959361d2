"""The nodes of model servers: which nodes, how much of each, and how processes start there."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import psutil

from hpcscientist.config.partitions import of_controller
from hpcscientist.errors import ServingError
from hpcscientist.execution.backends.slurm.commands import Slurm
from hpcscientist.models.serving.checking import interpreter
from hpcscientist.models.serving.fitting.drafting import PlaneAllocation
from hpcscientist.models.serving.fitting.layout import Machine
from hpcscientist.models.serving.fitting.memory import GpuMemory, memory_by_name, parse_gres
from hpcscientist.models.serving.nodes.node import LOOPBACK, own_address
from hpcscientist.models.serving.plane import Launcher, LocalSteps, SlurmSteps
from hpcscientist.records.site import Site
from hpcscientist.system import gpus

_MIB = 2**20
_CORES, _NEEDED = Path("/proc/cpuinfo"), {"avx512bw", "avx512vl", "avx512dq"}
# A reserved address (RFC 5737): the route to it reveals this machine's own address.
_ELSEWHERE = "192.0.2.1"


def launcher_of(site: Site, job_id: str) -> Launcher:
    """Return the launcher of a plane's processes: as steps of a job, or on this machine for ""."""
    own, image = site.controller, interpreter.image_of(site)
    python = site.serving.python or ("python3" if image else site.slurm.python)
    if not job_id:
        return Launcher(LocalSteps(), python or sys.executable, image)
    gres = of_controller(site).gres.format(gpus=own.gpus) if own.gpus else ""
    return Launcher(SlurmSteps(job_id, own.cpus, gres), python or sys.executable, image)


def here() -> PlaneAllocation:
    """Return this machine as an allocation."""
    try:
        address = own_address(_ELSEWHERE)
    except OSError:  # no network at all
        address = LOOPBACK
    return PlaneAllocation(nodes=(socket.gethostname(),), address=address, number=os.getpid())


def allocation_of(slurm: Slurm, job_id: str) -> PlaneAllocation:
    """Return a running job's nodes, the first as head. Raises SchedulerError and ServingError."""
    listed = slurm.run("squeue", "--noheader", "--jobs", job_id, "--format=%N").strip()
    nodes = tuple(slurm.run("scontrol", "show", "hostnames", listed).split())
    if not nodes:
        raise ServingError(f"job {job_id} has no nodes: run this in an allocation")
    return PlaneAllocation(nodes=nodes, address=_address(nodes), number=int(job_id))


def _address(nodes: tuple[str, ...]) -> str:
    """Return the head's numeric address for the other nodes; this process runs on the head."""
    for name in nodes[1:]:
        with contextlib.suppress(OSError):
            return own_address(socket.gethostbyname(name))
    with contextlib.suppress(OSError):
        found = socket.gethostbyname(nodes[0])
        if not found.startswith("127."):
            return found
    return here().address


@dataclass(frozen=True, slots=True)
class Kept:
    """The share of each node that trials inside the job keep; it is not for serving."""

    gpus: int = 0
    memory_mb: int = 0

    def taken_from(self, machine: Machine) -> Machine:
        """Return the rest of a machine; at least 1 MiB of memory, because 0 means unknown."""
        memory_mb = max(1, machine.memory_mb - self.memory_mb) if machine.memory_mb else 0
        return machine.model_copy(update={"gpus": machine.gpus - self.gpus, "memory_mb": memory_mb})


def machine_of(site: Site, allocation: PlaneAllocation, *, is_slurm: bool) -> Machine:
    """Return what a plane may use of each node; measured on the head, because nodes are equal."""
    own = site.controller
    memories = gpu_memories() if own.gpus or not is_slurm else []
    if is_slurm:
        return Machine(
            nodes=len(allocation.nodes),
            gpus=own.gpus,
            gpu_memory_mb=min(memories, default=0),
            cpus=own.cpus,
            memory_mb=own.memory_mb,
            short_numbers=has_short_numbers(),
        )
    return Machine(
        nodes=1,
        gpus=len(memories),
        gpu_memory_mb=min(memories, default=0),
        cpus=len(os.sched_getaffinity(0)),
        memory_mb=psutil.virtual_memory().total // _MIB,
        short_numbers=has_short_numbers(),
    )


def has_short_numbers() -> bool:
    """Return whether PyTorch has fast kernels for 16 bits here; x86 cores need AVX-512 for that.

    Its other kernels are ten times slower (`mkldnn_bf16_device_check`). Unknown cores count as
    fast.
    """
    with contextlib.suppress(OSError):
        for line in _CORES.read_text().splitlines():
            if line.startswith("flags"):
                return set(line.split()) >= _NEEDED
    return True


def foreseen(site: Site, count: int) -> tuple[Machine | None, bool]:
    """Return what serving may use of `count` nodes of a site (0: this machine).

    Also returns whether the GPUs' memory is certain; the machine is None if the memory is unknown.
    Whether a site's cores are fast with 16 bits is never known here; see `shares.doubt`.
    """
    own = site.controller
    if not count:
        return machine_of(site, here(), is_slurm=False), True
    memory = GpuMemory(0, is_sure=True)
    if own.gpus:
        kinds = parse_gres(of_controller(site).gres.format(gpus=own.gpus))
        found = memory_by_name(kinds[0][0]) if kinds and kinds[0][0] else None
        if found is None:
            return None, False
        memory = found
    machine = Machine(
        nodes=count,
        gpus=own.gpus,
        gpu_memory_mb=memory.mb,
        cpus=own.cpus,
        memory_mb=own.memory_mb,
    )
    return machine, memory.is_sure


def gpu_memories() -> list[int]:
    """Return the memory of each GPU that this process may use, in MiB."""
    ask = ["nvidia-smi", "--query-gpu=uuid,memory.total", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(ask, capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    rows = [line.partition(",")[::2] for line in done.stdout.splitlines()]
    found = [(uuid.strip(), int(mb)) for uuid, mb in rows if mb.strip().isdigit()]
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    return [mb for _, mb in found] if visible is None else gpus.seen(found, visible)
