"""Estimates what serving takes of a GPU's memory: weights, KV cache, working memory.

Counts are exact or upper bounds. The engine measures for itself when it starts (it runs its largest
batch once), and turns the free memory into KV cache. These figures decide before that whether it
will start, and in which layout.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from hpcscientist.config.settings import ServingSettings
from hpcscientist.models.serving.checking.weights import Checkpoint

# GPU memory, from the driver's report or from the names that sites give GPUs in Slurm.


# What `nvidia-smi` shows for each kind, rounded down, in MiB. For a kind with several sizes this
# is the smallest. The first match counts, so longer names precede shorter ones.
_TABLE = {
    "b300": 275_000,
    "b200": 180_000,
    "gh200": 95_000,
    "h200": 143_000,
    "h100": 81_000,
    "h800": 81_000,
    "h20": 96_000,
    "a100": 40_000,
    "a800": 40_000,
    "a6000": 48_500,
    "a5000": 24_000,
    "a4000": 16_000,
    "a40": 45_500,
    "a30": 24_000,
    "a16": 15_000,
    "a10": 22_500,
    "l40": 45_500,
    "l4": 22_500,
    "6000_ada": 48_500,
    "rtx6000": 24_000,
    "rtx8000": 48_500,
    "5090": 32_000,
    "4090": 24_000,
    "3090": 24_000,
    "2080ti": 11_000,
    "v100": 16_000,
    "p100": 16_000,
    "t4": 15_000,
}
_SEVERAL = {"b300", "gh200", "h20", "h100", "h800", "a100", "a800", "rtx6000", "v100", "p100"}
_SIZES = {10, 12, 16, 20, 24, 32, 40, 48, 64, 80, 94, 95, 96, 128, 141, 144, 180, 192, 256, 288}
_SHOWN = 0.95  # of the size in a name: error correction and the driver take the rest


@dataclass(frozen=True, slots=True)
class GpuMemory:
    """A GPU's memory in MiB; `is_sure` is false if it is only the smallest of its kind."""

    mb: int
    is_sure: bool


def memory_by_name(name: str) -> GpuMemory | None:
    """Return a GPU's memory from a name like `a100` or `nvidia_a100-sxm4-80gb`; None: unknown."""
    low = re.sub(r"[\s-]+", "_", name.lower())
    sized = re.findall(r"(?<!\d)(\d{1,3})_?gi?b", low) or [
        number for number in re.findall(r"_(\d{2,3})g?(?![a-z\d])", low) if int(number) in _SIZES
    ]
    if sized:
        return GpuMemory(int(int(sized[-1]) * 1024 * _SHOWN), is_sure=True)
    joined = low.replace("_", "")
    for kind, mb in _TABLE.items():
        if re.search(rf"(?<![a-z\d]){kind}(?!\d)", low) or kind.replace("_", "") in _words(joined):
            return GpuMemory(mb, is_sure=kind not in _SEVERAL)
    return None


def _words(joined: str) -> set[str]:
    """Return a name and the name without its maker, as sites write it: rtxa6000, teslav100."""
    return {joined, re.sub(r"^(nvidia|geforce|tesla|quadro|gpu)*(rtx|gtx)?", "", joined)}


def parse_memory(smi: str) -> tuple[int, ...]:
    """Return MiB from `nvidia-smi --query-gpu=memory.total --format=csv,noheader,nounits`."""
    lines = (line.strip() for line in smi.splitlines())
    return tuple(int(line) for line in lines if line.isascii() and line.isdigit())


def parse_gres(gres: str) -> tuple[tuple[str, int], ...]:
    """Return kinds and counts from Slurm's description of a node: `gpu:a100:4(S:0-1)`, `gpu:2`."""
    found = re.findall(r"(?:^|,)gpu(?::([^:,()]*[^:,()\d][^:,()]*))?(?::(\d+))?(?![^,(])", gres)
    return tuple((kind, int(count or 1)) for kind, count in found)


GIB = 2**30
BLOCK, CPU_BLOCK = 16, 128  # tokens of a KV cache block, on GPUs and without
GOAL = 32_768  # tokens of KV cache: worth more GPUs a replica, as two long requests run at once
# In a layer with a sliding window, vLLM frees tokens before the window once a batch is done. Two
# batches run at once, of at most so many tokens (`EngineArgs`, on the largest GPUs).
_BATCHES, _LARGEST_BATCH = 2, 16_384
_STATE_NUMBER = 4  # bytes; some models use fewer
_KV_WHOLE = ("auto", "float16", "bfloat16", "fp8_ds_mla", "nvfp4_ds_mla")
# An allowance for CUDA's context, communication buffers, captured graphs, and allocator waste.
_RESERVE = 3 * GIB // 2
# vLLM's one run to measure activations on large GPUs: tokens of a batch, and requests that it
# samples for (`EngineArgs`, max_num_batched_tokens and max_num_seqs). Smaller GPUs get less.
_BATCH_TOKENS, _BATCH_REQUESTS = 8192, 1024
# vLLM 0.32's CPU engine took 2.4 GiB in its three processes with a tiny model; the rest is an
# allowance for a node's Ray processes.
CPU_RESERVE = 3 * GIB
CPU_WORKER = GIB  # for each further worker of such an engine, which took 0.87 GiB
# Node memory for each worker of an engine on GPUs: PyTorch, CUDA, buffers, its part of Ray.
WORKER_RESERVE = 4 * GIB


def number_bytes(settings: ServingSettings) -> int:
    """Return the size of a weight in memory; `auto` is 16 bits, for float32 models too.

    vLLM's `_resolve_auto_dtype` (config/model.py) casts float32 models down.
    """
    return 4 if settings.dtype == "float32" else 2


def weight_bytes(checkpoint: Checkpoint, tensor: int, pipeline: int, number: int) -> int:
    """Return the bytes of weights on the fullest GPU.

    Tensor parallelism divides every matrix (Shoeybi et al. 2019, arXiv:1909.08053), pipeline
    parallelism the layers. Embeddings and head are both counted to one stage.
    """
    inside = (checkpoint.floats - checkpoint.outside_floats) * number
    inside += checkpoint.other_bytes - checkpoint.outside_bytes
    outside = checkpoint.outside_floats * number + checkpoint.outside_bytes
    stage = math.ceil(checkpoint.layers / pipeline)
    return math.ceil((inside * stage / checkpoint.layers + outside) / tensor)


@dataclass(frozen=True, slots=True)
class KvCache:
    """What requests take of the fullest GPU's KV cache. Bytes, tokens.

    A request takes `fixed` bytes whatever its length (states) and `a_token` bytes for each of its
    tokens. Each entry (window, bytes) of `windows` adds bytes for each token up to the window.
    `longest` is the length of the longest request.
    """

    fixed: int
    a_token: int
    windows: tuple[tuple[int, int], ...]
    longest: int

    @classmethod
    def of(
        cls,
        checkpoint: Checkpoint,
        tensor: int,
        pipeline: int,
        settings: ServingSettings,
        *,
        frees_windows: bool = True,
    ) -> KvCache:
        """Return the cache of a layout; without `frees_windows`, window layers keep all tokens.

        Heads are divided between GPUs, and repeated if there are more GPUs than heads. Each GPU
        holds a latent vector whole (it counts as one head). vLLM's blocks have one size: it puts
        layers that keep the same into groups as large as the smallest kind has layers, and pads the
        last group (`_get_kv_cache_groups_uniform_page_size`, v1/core/kv_cache_utils.py).
        """
        number = _kv_number_bytes(checkpoint, settings)
        size = math.ceil(checkpoint.layers / pipeline)
        tokens = [math.ceil(kept.heads / tensor) * kept.size for kept in checkpoint.caches]
        batch = settings.engine.get("max_num_batched_tokens")
        batch = batch if isinstance(batch, int) and batch > 0 else _LARGEST_BATCH
        frees_windows = frees_windows and not settings.engine.get("disable_hybrid_kv_cache_manager")
        below = list(accumulate(tokens, initial=0))
        starts = range(checkpoint.layers - size + 1)
        start = max(starts, key=lambda n: below[n + size] - below[n])
        stage = slice(start, start + size)
        counts, sums = Counter[int](), Counter[int]()  # by window; 0 means all tokens
        for cache, token in zip(checkpoint.caches[stage], tokens[stage], strict=True):
            if cache.heads:
                window = cache.window + _BATCHES * batch if cache.window and frees_windows else 0
                counts[window] += 1
                sums[window] += token * number
        states = [cache.state for cache in checkpoint.caches[stage] if cache.state]
        padded = _padding([*counts.values(), *([len(states)] if states else [])])
        whole = {window: math.ceil(sums[window] * padded(n) / n) for window, n in counts.items()}
        # Beside attention, a page is as large as a state, rounded up to whole blocks of tokens. A
        # request takes three pages for each state (vLLM shares prefixes) and one that is not full.
        page = math.ceil(max(states, default=0) / tensor) * _STATE_NUMBER
        pages = padded(len(states)) if states else 0
        if counts and states:
            block = max(tokens[stage]) * number * CPU_BLOCK
            page = math.ceil(page / block) * block
            pages = 3 * pages + sum(map(padded, counts.values()))
        return cls(
            fixed=page * pages,
            a_token=whole.pop(0, 0),
            windows=tuple(whole.items()),
            longest=settings.context or checkpoint.context or GOAL,
        )

    def request_bytes(self, tokens: int) -> int:
        """Return the bytes that a request of `tokens` tokens takes."""
        seen = sum(size * min(tokens, window) for window, size in self.windows)
        return self.fixed + self.a_token * tokens + seen

    def tokens(self, room: int) -> int:
        """Return how many tokens fit into `room` bytes; at least 0.

        Counts as many requests of the longest length as fit, and one shorter request.
        """
        requests, rest = divmod(max(0, room), max(1, self.request_bytes(self.longest)))
        shorter = bisect_right(range(self.longest), rest, key=self.request_bytes) - 1
        return requests * self.longest + max(0, shorter)


def _padding(counts: Sequence[int]) -> Callable[[int], int]:
    """Return a function from a number of layers to the padded number that vLLM counts."""
    least, most = min(counts, default=1), max(counts, default=1)
    group = most if most < 1.5 * least else least
    return lambda count: math.ceil(count / group) * group


def _kv_number_bytes(checkpoint: Checkpoint, settings: ServingSettings) -> int:
    named = str(settings.engine.get("kv_cache_dtype", "auto"))
    if named == "auto" and checkpoint.kv_bits:
        return checkpoint.kv_bits // 8
    return number_bytes(settings) if named in _KV_WHOLE else 1


def work_bytes(checkpoint: Checkpoint, tensor: int, number: int) -> int:
    """Return the bytes a GPU needs beside weights and KV cache.

    For a batch, a few copies of the hidden state and of one layer's gated inner state exist at
    once. For each request that is sampled, the logits of the whole vocabulary exist twice, in
    float32.
    """
    a_token = (4 * checkpoint.hidden + 3 * math.ceil(checkpoint.inner / tensor)) * number
    logits = _BATCH_REQUESTS * checkpoint.vocab * 4 * 2
    return _RESERVE + _BATCH_TOKENS * a_token + logits
