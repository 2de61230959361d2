"""How a model is laid out where there are no GPUs: vLLM's CPU engine."""

from __future__ import annotations

import math

from hpcscientist.config.settings import ServingSettings
from hpcscientist.errors import ServingError
from hpcscientist.models.serving.checking.weights import Checkpoint
from hpcscientist.models.serving.fitting import memory
from hpcscientist.models.serving.fitting.layout import (
    MIB,
    Layout,
    Machine,
    divides,
    fitted_context,
    gib,
    least_context,
    thinking,
    uncut,
    whole_blocks,
    words,
)
from hpcscientist.models.serving.fitting.memory import CPU_BLOCK, CPU_RESERVE, CPU_WORKER, GIB


def on_cpus(checkpoint: Checkpoint, machine: Machine, settings: ServingSettings) -> Layout:
    """Return the layout of replicas that each are one engine on one node's memory.

    One a node unless the settings say otherwise; of one worker, or of several that share its
    matrices, as suits a node of several sockets. Raises ServingError.
    """
    workers = _workers(checkpoint, machine, settings)
    if settings.dtype == "auto" and machine.short_numbers is False:
        settings = settings.model_copy(update={"dtype": "float32"})
    replicas = settings.replicas or machine.nodes
    together = math.ceil(replicas / machine.nodes)
    weights = memory.weight_bytes(checkpoint, workers, 1, memory.number_bytes(settings))
    # A prompt is one batch there (`drafting`), so that no window lets anything go.
    cache = memory.KvCache.of(checkpoint, workers, 1, settings, frees_windows=False)
    reserve = CPU_RESERVE + (workers - 1) * CPU_WORKER
    asked = room = int(settings.kv_cache_gb * GIB) // workers
    if machine.memory_mb:
        # Whole MiB each: what is rounded up below adds up to no more than there is.
        held = machine.memory_mb // together * MIB - reserve
        room = min(asked, held // workers - weights)
    tokens = whole_blocks(cache.tokens(room // MIB * MIB), CPU_BLOCK)
    least = least_context(checkpoint, settings)
    if tokens < least:
        lacking = workers * (cache.request_bytes(least + CPU_BLOCK) - room)
        where = f"serving.kv_cache_gb {settings.kv_cache_gb:g}" if room == asked else "memory"
        mend = "raise it" if room == asked else "take nodes with more memory, fewer replicas"
        raise ServingError(
            f"{checkpoint.folder} does not fit on {words(machine)}, {together} replicas a node: "
            f"{where} lacks {gib(lacking)} for {gib(weights * workers)} of weights and {least} "
            f"tokens; {mend}, or a smaller model"
        )
    context, shortened = fitted_context(checkpoint, settings, tokens)
    why = [
        f"no GPUs: the CPU engine, {replicas} replicas on {machine.nodes} nodes",
        f"{gib(weights * workers)} of weights and {gib(room * workers)} of KV cache for {tokens} "
        "tokens a replica",
    ]
    if workers > 1:
        why.append(f"a replica is {workers} workers on a node, as set (serving.tensor_parallel)")
    if settings.dtype == "float32":
        why.append("float32 (serving.dtype; auto where cores are slow with shorter numbers)")
    if room < asked:
        why.append(f"the KV cache is smaller than {settings.kv_cache_gb:g} GiB: memory ends there")
    return Layout(
        replicas=replicas,
        tensor_parallel=workers,
        pipeline_parallel=1,
        context=context,
        gpus_per_replica=0,
        dtype=settings.dtype,
        kv_tokens=tokens,
        kv_cache_mb=room // MIB,
        memory_mb=-(-(workers * (weights + room) + reserve) // MIB),
        why=(*why, *shortened, *thinking(checkpoint, settings)),
    )


def _workers(checkpoint: Checkpoint, machine: Machine, settings: ServingSettings) -> int:
    """Return how many workers a replica has on its node. Raises ServingError."""
    if settings.pipeline_parallel > 1:
        raise ServingError(
            "without GPUs a replica is one engine on one node: leave serving.pipeline_parallel "
            "at 0; serving.tensor_parallel divides a model between a node's cores"
        )
    workers = settings.tensor_parallel or 1
    if workers > 1 and (workers > machine.cpus or not divides(checkpoint, workers, settings)):
        raise ServingError(
            f"{uncut(checkpoint, workers)}, and each part has a core of a node with "
            f"{machine.cpus}; give another, or 0"
        )
    return workers
