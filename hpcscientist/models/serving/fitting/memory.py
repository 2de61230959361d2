"""What serving takes of a GPU's memory: weights, KV cache, and what the engine works in.

Counts are upper bounds where they are no exact ones. The engine measures for itself when it
starts (it runs its largest batch once), and what it finds to be free becomes KV cache; these
figures decide before that whether it will start, and in which layout.
"""

from __future__ import annotations

import math

from hpcscientist.config.settings import ServingSettings
from hpcscientist.models.serving.checking.weights import Checkpoint

GIB = 2**30
BLOCK, CPU_BLOCK = 16, 128  # tokens of a KV cache block, on GPUs and without
# The CUDA context, communication buffers, captured graphs, the allocator's waste: an allowance.
_RESERVE = 3 * GIB // 2
# What vLLM runs once to measure activations on large GPUs: tokens of a batch, and requests of
# which it samples (`EngineArgs`, max_num_batched_tokens and max_num_seqs). Smaller GPUs get less.
_BATCH_TOKENS, _BATCH_REQUESTS = 8192, 1024
# vLLM 0.32's CPU engine held 2.4 GiB in its three processes with a model of no size; the rest is an
# allowance for Ray's processes of a node.
CPU_RESERVE = 3 * GIB
CPU_WORKER = GIB  # for each further worker of such an engine, which held 0.87 GiB
# Of a node's memory, for each worker of an engine on GPUs: PyTorch, CUDA, buffers, its part of Ray.
WORKER_RESERVE = 4 * GIB


def number_bytes(settings: ServingSettings) -> int:
    """Return the size of a weight in memory; `auto` is 16 bits, for float32 models too.

    vLLM's `_resolve_auto_dtype` (config/model.py) casts float32 models down.
    """
    return 4 if settings.dtype == "float32" else 2


def weight_bytes(checkpoint: Checkpoint, tensor: int, pipeline: int, number: int) -> int:
    """Return the bytes of weights on the fullest GPU.

    Tensor parallelism divides every matrix (Shoeybi et al. 2019, arXiv:1909.08053), pipeline
    parallelism the layers; embeddings and head are counted to one stage together.
    """
    inside = (checkpoint.floats - checkpoint.outside_floats) * number
    inside += checkpoint.other_bytes - checkpoint.outside_bytes
    outside = checkpoint.outside_floats * number + checkpoint.outside_bytes
    stage = math.ceil(checkpoint.layers / pipeline)
    return math.ceil((inside * stage / checkpoint.layers + outside) / tensor)


def kv_bytes(checkpoint: Checkpoint, tensor: int, pipeline: int, settings: ServingSettings) -> int:
    """Return the bytes of KV cache for one token on the fullest GPU; at least 1.

    A key and a value for each layer and KV head (Kwon et al. 2023, arXiv:2309.06180). Heads are
    divided between GPUs and repeated where there are more GPUs than heads; a latent cache
    (DeepSeek-AI 2024, arXiv:2405.04434) is held whole by each.
    """
    number = 1 if str(settings.engine.get("kv_cache_dtype", "")).startswith("fp8") else 2
    if number == 2 and settings.dtype == "float32":
        number = 4
    layers = min(checkpoint.kv_layers, math.ceil(checkpoint.layers / pipeline))
    a_layer = checkpoint.latent or 2 * math.ceil(checkpoint.kv_heads / tensor) * checkpoint.head_dim
    return max(1, layers * a_layer * number)


def work_bytes(checkpoint: Checkpoint, tensor: int, number: int) -> int:
    """Return the bytes a GPU needs beside weights and KV cache.

    Of a batch, a few copies of the hidden state and the gated inner state of one layer live at
    once; of each request that is sampled, the logits of the whole vocabulary, in float32 and
    twice.
    """
    a_token = (4 * checkpoint.hidden + 3 * math.ceil(checkpoint.inner / tensor)) * number
    logits = _BATCH_REQUESTS * checkpoint.vocab * 4 * 2
    return _RESERVE + _BATCH_TOKENS * a_token + logits
