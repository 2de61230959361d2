"""Drafts the order of a plane from models and an allocation."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from hpcscientist.config.settings import ServingSettings
from hpcscientist.models.serving.fitting.layout import Layout, Machine, requests_at_once
from hpcscientist.models.serving.nodes import spinning
from hpcscientist.models.serving.order import Order, ServedModel, port_block
from hpcscientist.records.base import Record
from hpcscientist.records.site import Site

_MIB = 2**20
# Ray counts CPUs that it never uses: one for a replica, one for each worker of its engine, and
# our tasks. With too few it waits for ever. They are not threads, so a few spare ones do no harm.
_SPARE_CPUS = 16


class PlaneAllocation(Record):
    """Where a plane runs. `nodes` are host names, the head first; `address` is the head's, numeric.

    `number` is the job's, or a process id: the ports follow from it.
    """

    nodes: tuple[str, ...]
    address: str
    number: int


def names_of(folders: Sequence[Path]) -> dict[Path, str]:
    """Return the served name of each folder's model: the folder's name, made unique."""
    found: dict[Path, str] = {}
    for folder in dict.fromkeys(folders):
        name = folder.name
        if folder.parent.name == "snapshots":  # the hub's cache: the folder's name is a commit
            name = folder.parent.parent.name.rpartition("--")[2]
        if name in found.values():
            name = f"{folder.parent.name}-{folder.name}"
        while name in found.values():
            name += "'"
        found[folder] = name
    return found


def draft(
    root: Path,
    owner: str,
    layouts: Mapping[Path, Layout],
    allocation: PlaneAllocation,
    machine: Machine,
    settings: ServingSettings,
    site: Site,
) -> Order:
    """Return the order of a plane that serves each folder's model as laid out."""
    names = names_of(list(layouts))
    replicas = sum(layout.replicas for layout in layouts.values())
    together = -(-replicas // machine.nodes)  # engines a node, where there are no GPUs
    # Ray fills nodes in order of request. Models that need most of a node go first, before others
    # have taken a part of each node.
    largest_first = sorted(layouts.items(), key=lambda item: -item[1].tensor_parallel)
    models = tuple(
        _model(names[folder], folder, layout, settings, machine, together)
        for folder, layout in largest_first
    )
    workers = sum(model.replicas * (model.workers + 1) for model in models)
    return Order(
        nonce=secrets.token_hex(8),
        owner=owner,
        root=str(root),
        nodes=allocation.nodes,
        head=allocation.address,
        ports=port_block(allocation.number),
        models=models,
        cpus=workers + _SPARE_CPUS,
        gpus=machine.gpus,
        object_store=site.serving.object_store_mb * _MIB,
        scratch=site.serving.scratch or site.host.scratch,
        ready_s=settings.ready_s,
        memory_mb=memory_of_node(layouts.values(), machine),
    )


def memory_of_node(layouts: Iterable[Layout], machine: Machine) -> int:
    """Return the MiB that engines take of a node's memory, wherever their replicas are placed."""
    listed = tuple(layouts)
    if machine.gpus:  # each worker has a GPU
        a_gpu = max(layout.memory_mb / layout.tensor_parallel for layout in listed)
        return int(machine.gpus * a_gpu)
    together = -(-sum(layout.replicas for layout in listed) // machine.nodes)
    return together * max(layout.memory_mb for layout in listed)


def _model(
    name: str,
    folder: Path,
    layout: Layout,
    settings: ServingSettings,
    machine: Machine,
    together: int,
) -> ServedModel:
    engine: dict[str, str | int | float | bool] = {
        "max_model_len": layout.context,
        "dtype": layout.dtype,
        "tensor_parallel_size": layout.tensor_parallel,
        "pipeline_parallel_size": layout.pipeline_parallel,
        "enforce_eager": settings.eager,
        "trust_remote_code": False,
        "disable_log_stats": True,
    }
    variables: dict[str, str] = {}
    if layout.pipeline_parallel == 1:
        # torch's process groups listen at the address of the host's name, and check no token;
        # within a node they need no network.
        variables["GLOO_SOCKET_IFNAME"] = "lo"
    if machine.gpus:
        engine["gpu_memory_utilization"] = settings.memory_fraction
        bundle = {"CPU": 1.0, "GPU": 1.0}
    else:
        # Only this resource keeps two engines off one node while another node has none.
        sharing = together * layout.tensor_parallel  # workers of a node
        bundle = {"CPU": 1.0, "plane": int(10_000 / sharing) / 10_000}
        engine["kv_cache_memory_bytes"] = layout.kv_cache_mb * _MIB
        engine["worker_cls"] = "hpcscientist.models.serving.nodes.cpu_worker.Worker"
        # vLLM 0.32: a seeded request whose prompt is split ends the CPU engine ("CPU Generator
        # does not use offset"), so prompts are never split there.
        engine |= {"enable_chunked_prefill": False, "max_num_batched_tokens": layout.context}
        # Engines share a node's cores with each other and with trials: pin no thread to a core.
        variables["VLLM_CPU_OMP_THREADS_BIND"] = "nobind"
        # Otherwise Ray limits a process to one thread for each CPU that it was counted as.
        variables["OMP_NUM_THREADS"] = str(max(1, machine.cpus // sharing))
        # libgomp's own default if there are more threads than cores. Threads that spin for
        # milliseconds occupy the cores of the threads that they wait for.
        variables["GOMP_SPINCOUNT"] = "1000"
        variables[spinning.VARIABLE] = spinning.SHORT_S
    return ServedModel(
        name=name,
        folder=str(folder),
        replicas=layout.replicas,
        workers=layout.tensor_parallel * layout.pipeline_parallel,
        within_node=layout.pipeline_parallel == 1,
        bundle=bundle,
        engine=engine | settings.engine,
        variables=variables,
        at_once=requests_at_once(layout, settings),
    )
