"""Lays out a model on an allocation: replicas, tensor and pipeline parallelism, context.

Among the layouts that the model allows and that hold a useful context, the one with the most
replicas is taken: replicas share nothing, so they do not slow each other down. Ties go to fewer
pipeline stages, then to fewer GPUs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from hpcscientist.config.settings import ServingSettings
from hpcscientist.errors import ServingError
from hpcscientist.models.serving.checking.weights import Checkpoint
from hpcscientist.models.serving.fitting import memory
from hpcscientist.models.serving.fitting.layout import (
    LEAST,
    MIB,
    Layout,
    Machine,
    divides,
    fitted_context,
    gib,
    least_context,
    thinking,
    uncut,
    wanted_context,
    whole_blocks,
    words,
)
from hpcscientist.models.serving.fitting.memory import (
    BLOCK,
    CPU_BLOCK,
    CPU_RESERVE,
    CPU_WORKER,
    GIB,
)

# Layouts without GPUs: vLLM's CPU engine.


def on_cpus(checkpoint: Checkpoint, machine: Machine, settings: ServingSettings) -> Layout:
    """Return the layout of replicas that are each one engine in one node's memory.

    There is one replica a node unless the settings say otherwise. Each has one worker, or several
    that share its matrices, as suits a node of several sockets. Raises ServingError.
    """
    workers = _workers(checkpoint, machine, settings)
    if settings.dtype == "auto" and machine.short_numbers is False:
        settings = settings.model_copy(update={"dtype": "float32"})
    replicas = settings.replicas or machine.nodes
    together = math.ceil(replicas / machine.nodes)
    weights = memory.weight_bytes(checkpoint, workers, 1, memory.number_bytes(settings))
    # There a prompt is one batch (`drafting`), so window layers free nothing.
    cache = memory.KvCache.of(checkpoint, workers, 1, settings, frees_windows=False)
    reserve = CPU_RESERVE + (workers - 1) * CPU_WORKER
    asked = room = int(settings.kv_cache_gb * GIB) // workers
    if machine.memory_mb:
        # Whole MiB each, so that the sizes rounded up below add up to no more than there is.
        held = machine.memory_mb // together * MIB - reserve
        room = min(asked, held // workers - weights)
    tokens = whole_blocks(cache.tokens(room // MIB * MIB), CPU_BLOCK)
    least = least_context(checkpoint, settings)
    if tokens < least:
        lacking = workers * (cache.request_bytes(least + CPU_BLOCK) - room)
        where = f"serving.kv_cache_gb {settings.kv_cache_gb:g}" if room == asked else "memory"
        fix = "raise it" if room == asked else "take nodes with more memory, fewer replicas"
        raise ServingError(
            f"{checkpoint.folder} does not fit on {words(machine)}, {together} replicas a node: "
            f"{where} lacks {gib(lacking)} for {gib(weights * workers)} of weights and {least} "
            f"tokens; {fix}, or a smaller model"
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


__all__ = ["Layout", "Machine", "lay_out"]

_SOUGHT = 64  # most nodes that an error message considers as a fix


def lay_out(checkpoint: Checkpoint, machine: Machine, settings: ServingSettings) -> Layout:
    """Return the layout of one model that has the machine to itself.

    Values from the settings are kept, and checked. Raises ServingError with how much is lacking, of
    what, and what fixes it.
    """
    limit = checkpoint.context
    if limit and settings.context > limit:
        raise ServingError(
            f"serving.context {settings.context} is more than the model's {limit} tokens "
            f"({checkpoint.folder}): give at most that, or 0"
        )
    if machine.gpus == 0:
        return on_cpus(checkpoint, machine, settings)
    if machine.gpu_memory_mb == 0:
        raise ServingError("the GPUs' memory is not known: see `nvidia-smi` on a node of them")
    return _OnGpus(checkpoint, machine, settings).choose()


@dataclass(frozen=True, slots=True)
class _Split:
    """One replica: `tensor` GPUs of a node, times `pipeline` stages; `replicas` of them fit."""

    tensor: int
    pipeline: int
    replicas: int


@dataclass(frozen=True, slots=True)
class _OnGpus:
    checkpoint: Checkpoint
    machine: Machine
    settings: ServingSettings
    held: dict[tuple[int, int], int] = field(default_factory=dict)  # tokens, by (tensor, pipeline)

    def choose(self) -> Layout:
        """Return the layout. Raises ServingError."""
        splits = self._splits()
        wanted = wanted_context(self.checkpoint, self.settings)
        holding = [split for split in splits if self._tokens(split) >= wanted]
        if holding:
            best = min(holding, key=lambda s: (-s.replicas, s.pipeline, s.tensor))
            return self._layout(best, self.settings.replicas or best.replicas)
        best = max(splits, key=lambda s: (self._tokens(s), -s.pipeline))
        if self.settings.context or self._tokens(best) < least_context(
            self.checkpoint, self.settings
        ):
            raise ServingError(self._lack(best))
        # A machine that barely holds the model gets one replica.
        return self._layout(best, self.settings.replicas or 1)

    def _splits(self) -> list[_Split]:
        given, machine = self.settings, self.machine
        tensors = [
            n
            for n in range(1, machine.gpus + 1)
            if given.tensor_parallel in (0, n) and divides(self.checkpoint, n, given)
        ]
        if not tensors:
            raise ServingError(
                uncut(self.checkpoint, given.tensor_parallel)
                + f", within a node of {machine.gpus} GPUs; give another, or 0"
            )
        found = []
        for tensor in tensors:
            slots = machine.nodes * (machine.gpus // tensor)
            for pipeline in range(1, min(slots, self.checkpoint.layers) + 1):
                if given.pipeline_parallel in (0, pipeline):
                    found.append(_Split(tensor, pipeline, slots // pipeline))
        if not found:
            raise ServingError(
                f"serving.pipeline_parallel {given.pipeline_parallel} does not do: there are "
                f"{self.checkpoint.layers} layers and {machine.nodes * machine.gpus} GPUs; give "
                "fewer, or 0"
            )
        most = max(split.replicas for split in found)
        if given.replicas > most:
            raise ServingError(
                f"serving.replicas {given.replicas}: at most {most} fit on {words(machine)}; "
                "give fewer, or more --nodes"
            )
        return [split for split in found if split.replicas >= given.replicas]

    def _room(self, split: _Split) -> int:
        """Return the bytes that a GPU has left for KV cache; negative if they are lacking."""
        number = memory.number_bytes(self.settings)
        share = int(self.machine.gpu_memory_mb * MIB * self.settings.memory_fraction)
        weights = memory.weight_bytes(self.checkpoint, split.tensor, split.pipeline, number)
        return share - weights - memory.work_bytes(self.checkpoint, split.tensor, number)

    def _cache(self, split: _Split) -> memory.KvCache:
        return memory.KvCache.of(self.checkpoint, split.tensor, split.pipeline, self.settings)

    def _tokens(self, split: _Split) -> int:
        cut = split.tensor, split.pipeline
        if cut not in self.held:
            self.held[cut] = whole_blocks(self._cache(split).tokens(self._room(split)), BLOCK)
        return self.held[cut]

    def _layout(self, split: _Split, replicas: int) -> Layout:
        tokens, number = self._tokens(split), memory.number_bytes(self.settings)
        weights = memory.weight_bytes(self.checkpoint, split.tensor, split.pipeline, number)
        world = split.tensor * split.pipeline
        context, shortened = fitted_context(self.checkpoint, self.settings, tokens)
        left = self.machine.nodes * self.machine.gpus - replicas * world
        how = f"{split.tensor} GPUs of a node" if split.tensor > 1 else "one GPU"
        how += f" times {split.pipeline} pipeline stages" if split.pipeline > 1 else ""
        why = [
            f"weights {gib(self.checkpoint.weight_bytes)} on disk, {gib(weights)} on each of a "
            f"replica's GPUs, of which the engine takes {self.settings.memory_fraction:.0%} of "
            f"{gib(self.machine.gpu_memory_mb * MIB)}",
            f"a replica is on {how}: the KV cache holds {tokens} tokens there",
            f"{replicas} replicas on {words(self.machine)}"
            + (f"; {left} GPUs stay free" if left else ""),
        ]
        return Layout(
            replicas=replicas,
            tensor_parallel=split.tensor,
            pipeline_parallel=split.pipeline,
            context=context,
            gpus_per_replica=world,
            dtype=self.settings.dtype,
            kv_tokens=tokens,
            memory_mb=split.tensor * memory.WORKER_RESERVE // MIB,
            why=(*why, *shortened, *thinking(self.checkpoint, self.settings)),
        )

    def _lack(self, best: _Split) -> str:
        wanted = least_context(self.checkpoint, self.settings)
        lacking = self._cache(best).request_bytes(wanted + BLOCK) - self._room(best)
        number = memory.number_bytes(self.settings)
        weights = memory.weight_bytes(self.checkpoint, best.tensor, best.pipeline, number)
        fixes = ["a smaller or quantized model", "GPUs with more memory"]
        nodes = self._nodes_that_do()
        if nodes:
            fixes.insert(0, f"--nodes {nodes}")
        if self.settings.context > LEAST:
            fixes.insert(0, "a smaller serving.context")
        return (
            f"{self.checkpoint.folder} does not fit on {words(self.machine)}: divided at best "
            f"({best.tensor} GPUs of a node times {best.pipeline} stages), each GPU of "
            f"{gib(self.machine.gpu_memory_mb * MIB)} lacks {gib(lacking)} for {gib(weights)} "
            f"of weights and {wanted} tokens; take {', or '.join(fixes)}"
        )

    def _nodes_that_do(self) -> int:
        """Return the number of nodes on which the model would fit; 0 if none was found."""
        wanted = least_context(self.checkpoint, self.settings)
        for nodes in range(self.machine.nodes + 1, _SOUGHT + 1):
            more = self.machine.model_copy(update={"nodes": nodes})
            tried = _OnGpus(self.checkpoint, more, self.settings, self.held)
            if any(tried._tokens(split) >= wanted for split in tried._splits()):
                return nodes
        return 0
