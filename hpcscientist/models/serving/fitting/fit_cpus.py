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
    fitted_context,
    gib,
    least_context,
    thinking,
    whole_blocks,
    words,
)
from hpcscientist.models.serving.fitting.memory import CPU_BLOCK, CPU_RESERVE, GIB


def on_cpus(checkpoint: Checkpoint, machine: Machine, settings: ServingSettings) -> Layout:
    """Return the layout of replicas that each are one engine on one node's memory.

    One a node unless the settings say otherwise. Raises ServingError.
    """
    if settings.tensor_parallel > 1 or settings.pipeline_parallel > 1:
        raise ServingError(
            "without GPUs a replica is one engine on one node: leave serving.tensor_parallel and "
            "serving.pipeline_parallel at 0"
        )
    if settings.dtype == "auto" and machine.short_numbers is False:
        settings = settings.model_copy(update={"dtype": "float32"})
    replicas = settings.replicas or machine.nodes
    together = math.ceil(replicas / machine.nodes)
    weights = memory.weight_bytes(checkpoint, 1, 1, memory.number_bytes(settings))
    a_token = memory.kv_bytes(checkpoint, 1, 1, settings)
    asked = room = int(settings.kv_cache_gb * GIB)
    if machine.memory_mb:
        # Whole MiB each: what is rounded up below adds up to no more than there is.
        room = min(asked, machine.memory_mb // together * MIB - weights - CPU_RESERVE)
    tokens = whole_blocks(room // MIB * MIB // a_token, CPU_BLOCK)
    least = least_context(checkpoint, settings)
    if tokens < least:
        lacking = (least + CPU_BLOCK) * a_token - room
        cache = f"serving.kv_cache_gb {settings.kv_cache_gb:g}" if room == asked else "memory"
        raise ServingError(
            f"{checkpoint.folder} does not fit on {words(machine)}, {together} replicas a node: "
            f"{cache} lacks {gib(lacking)} for {gib(weights)} of weights and {least} tokens; "
            + ("raise it" if room == asked else "take nodes with more memory, fewer replicas")
            + ", or a smaller model"
        )
    context, shortened = fitted_context(checkpoint, settings, tokens)
    why = [
        f"no GPUs: the CPU engine, {replicas} replicas on {machine.nodes} nodes",
        f"{gib(weights)} of weights and {gib(room)} of KV cache for {tokens} tokens a replica",
    ]
    if settings.dtype == "float32":
        why.append("float32 (serving.dtype; auto where cores are slow with shorter numbers)")
    if room < asked:
        why.append(f"the KV cache is smaller than {settings.kv_cache_gb:g} GiB: memory ends there")
    return Layout(
        replicas=replicas,
        tensor_parallel=1,
        pipeline_parallel=1,
        context=context,
        gpus_per_replica=0,
        dtype=settings.dtype,
        kv_tokens=tokens,
        kv_cache_mb=room // MIB,
        memory_mb=-(-(weights + room + CPU_RESERVE) // MIB),
        why=(*why, *shortened, *thinking(checkpoint, settings)),
    )
