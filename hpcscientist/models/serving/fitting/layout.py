"""Machine and layout, and the calculations that both kinds of engine share."""

from __future__ import annotations

import math

from pydantic import Field

from hpcscientist.config.settings import ServingSettings
from hpcscientist.models.serving.checking.weights import Checkpoint
from hpcscientist.models.serving.fitting.memory import GIB, GOAL
from hpcscientist.records.base import Record

LEAST = 4_096  # tokens of KV cache: less is useless
MIB = 2**20


class Machine(Record):
    """The identical nodes that serving may use. MiB; counts a node; `gpus` 0: the CPU engine.

    `memory_mb` 0: unknown, and then not checked. `short_numbers`: its cores compute with 16 bits
    about as fast as with 32; None: unknown, and assumed true.
    """

    nodes: int = Field(ge=1)
    gpus: int = Field(ge=0)
    gpu_memory_mb: int = Field(ge=0)
    cpus: int = Field(ge=1)
    memory_mb: int = Field(ge=0)
    short_numbers: bool | None = None


class Layout(Record):
    """How one model is served. Tokens, MiB.

    `kv_tokens` is what the KV cache of a replica holds. `kv_cache_mb` is the size of each worker's
    part of it without GPUs (0 with GPUs: there an engine uses what is left of its share). `dtype`
    is the engine's argument. `memory_mb` is what a replica takes of the memory of each of its
    nodes. `why` explains each choice in plain words.
    """

    replicas: int = Field(ge=1)
    tensor_parallel: int = Field(ge=1)
    pipeline_parallel: int = Field(ge=1)
    context: int = Field(ge=1)
    gpus_per_replica: int = Field(ge=0)
    dtype: str
    kv_tokens: int = Field(ge=1)
    kv_cache_mb: int = 0
    memory_mb: int = 0
    why: tuple[str, ...] = ()


# Requests that a replica answers at once without loss, as far as its KV cache holds them whole.
_ON_GPUS, _ON_CORES = 256, 16
_REQUEST = 4_096  # tokens, prompt and reply; a campaign's were 2,400 on average


def requests_at_once(layout: Layout, settings: ServingSettings) -> int:
    """Return how many requests all replicas of a model answer at once."""
    most = _ON_GPUS if layout.gpus_per_replica else _ON_CORES
    given = settings.engine.get("max_num_seqs")
    if isinstance(given, int) and not isinstance(given, bool) and given > 0:
        most = given
    held = layout.kv_tokens // min(layout.context, _REQUEST)
    return layout.replicas * max(1, min(most, held))


def wanted_context(checkpoint: Checkpoint, settings: ServingSettings) -> int:
    """Return the tokens of context for which it is worth taking more GPUs."""
    return settings.context or min(checkpoint.context or GOAL, GOAL)


def least_context(checkpoint: Checkpoint, settings: ServingSettings) -> int:
    """Return the tokens of context below which serving is useless."""
    return settings.context or min(checkpoint.context or LEAST, LEAST)


def divides(checkpoint: Checkpoint, tensor: int, settings: ServingSettings) -> bool:
    """Return whether a model can be split into `tensor` parts.

    vLLM requires that heads divide evenly, that KV heads divide or repeat evenly, and that the
    vocabulary padded to 64 and the inner widths divide evenly, in whole blocks of a quantization.
    Experts are not split if each is on one GPU (serving.engine.enable_expert_parallel).
    """
    kv_heads = {kept.heads for kept in checkpoint.caches if kept.heads}
    padded = math.ceil(checkpoint.vocab / 64) * 64
    block = checkpoint.quantization_block or 1
    widths = [checkpoint.inner]
    if checkpoint.expert_inner and not settings.engine.get("enable_expert_parallel"):
        widths.append(checkpoint.expert_inner)
    return (
        checkpoint.heads % tensor == 0
        and all(max(n, tensor) % min(n, tensor) == 0 for n in kv_heads)
        and padded % tensor == 0
        and all(width % tensor == 0 for width in widths)
        and (tensor == 1 or all(width // tensor % block == 0 for width in widths))
    )


def uncut(checkpoint: Checkpoint, tensor: int) -> str:
    """Return the message for a model that cannot be split so."""
    return (
        f"serving.tensor_parallel {tensor} does not do: it must divide the model's "
        f"{checkpoint.heads} heads and matrices"
        + (f", in blocks of {block}" if (block := checkpoint.quantization_block) else "")
    )


def whole_blocks(tokens: int, block: int) -> int:
    """Return the tokens in whole blocks, less the one that vLLM never hands out; at least 0."""
    return max(0, tokens // block - 1) * block


def fitted_context(
    checkpoint: Checkpoint, settings: ServingSettings, tokens: int
) -> tuple[int, tuple[str]]:
    """Return the context, and a line that explains it."""
    limit = checkpoint.context or GOAL
    context = settings.context or min(limit, tokens)
    if settings.context:
        said = f"context {context} tokens, as set (serving.context)"
    elif context < limit:
        said = f"context shortened from {limit} to {context} tokens: the KV cache holds no more"
    else:
        said = f"context {context} tokens"
        said += ", the model's own" if checkpoint.context else ": the model sets no limit"
    return context, (said,)


def thinking(checkpoint: Checkpoint, settings: ServingSettings) -> tuple[str, ...]:
    """Return a line about a model's thinking, if its template has any.

    Replies are constrained to JSON. The engine lets a model think first only if it knows the marks
    of the model's thinking, and no file of the model names them.
    """
    if not checkpoint.thinks or "reasoning_parser" in settings.engine:
        return ()
    return (
        "its chat template has thinking, but replies are held to JSON from their first token: to "
        "let it think first set serving.engine.reasoning_parser (qwen3, deepseek_r1, ...)",
    )


def words(machine: Machine) -> str:
    """Return a description of a machine."""
    kind = f"{machine.gpus} GPUs" if machine.gpus else f"{machine.memory_mb / 1024:.1f} GiB"
    return f"{machine.nodes} nodes of {kind}"


def gib(size: float) -> str:
    """Return a number of bytes as text."""
    return f"{size / GIB:.2f} GiB" if size < 10 * GIB else f"{size / GIB:.1f} GiB"
