"""A worker of vLLM's that takes a GPU's time for a step, and computes nothing.

All else is vLLM's own: its server, its scheduler, its KV cache's blocks, its processes and what
they tell each other, its decoding of tokens. So what is measured with it is everything but the GPU.

The time of a step is that of one H200 with a model of a billion weights, 128 tokens in and out:
1.6 ms with one request, 1.8 with 8, 2.6 with 64, 6.2 with 256. Like a GPU to which steps are handed
ahead of their time, it begins the next one when the last is over, not when it is asked to.
"""

from __future__ import annotations

import time
from typing import Any

import torch
from vllm.v1.executor.uniproc_executor import UniProcExecutor
from vllm.v1.kv_cache_interface import FullAttentionSpec
from vllm.v1.outputs import ModelRunnerOutput
from vllm.v1.worker.worker_base import CompilationTimes, WorkerBase

STEP_S, REQUEST_S = 1.6e-3, 16e-6
AHEAD_S = 2e-3  # of its time, a step can be handed over
WORDS = range(1000, 1008)  # tokens of a reply: words of `bench.serving.model`


class Executor(UniProcExecutor):  # type: ignore[misc]
    """vLLM's own for one GPU, by a name of ours: for cores it would take another."""


class Worker(WorkerBase):  # type: ignore[misc]
    """See the module."""

    def init_device(self) -> None:
        self.device = torch.device("cpu")
        self._prompts: dict[str, int] = {}  # tokens
        self._computed: dict[str, int] = {}
        self._free_at = 0.0
        self._made: ModelRunnerOutput

    def load_model(self, *, load_dummy_weights: bool = False) -> None:
        """There is none."""

    def get_supported_kv_cache_layouts(self) -> list[str]:
        return ["LBNHC"]

    def get_kv_cache_spec(self) -> dict[str, Any]:
        layers = range(self.model_config.hf_config.num_hidden_layers)
        size = self.cache_config.block_size
        shape = {"block_size": size, "num_kv_heads": 1, "head_size": 32, "dtype": torch.float32}
        return {f"layers.{number}.attention": FullAttentionSpec(**shape) for number in layers}

    def determine_available_memory(self) -> int:
        return int(self.cache_config.kv_cache_memory_bytes or 2**30)

    def initialize_from_config(self, config: Any) -> None:
        """Nothing is kept."""

    def compile_or_warm_up_model(self) -> CompilationTimes:
        return CompilationTimes(language_model=0.0, encoder=0.0)

    def get_supported_tasks(self) -> tuple[str, ...]:
        return ("generate",)

    def update_max_model_len(self, tokens: int) -> None:
        """It holds any."""

    def synchronize_device(self) -> None:
        """Nothing is under way."""

    def execute_model(self, scheduled: Any) -> None:
        """Take a step's time; `sample_tokens` then has what it came to."""
        for done in scheduled.finished_req_ids:
            self._prompts.pop(done, None)
            self._computed.pop(done, None)
        for new in scheduled.scheduled_new_reqs:
            self._prompts[new.req_id] = len(new.prompt_token_ids)
            self._computed[new.req_id] = new.num_computed_tokens
        known = scheduled.scheduled_cached_reqs
        self._computed.update(zip(known.req_ids, known.num_computed_tokens, strict=True))
        ids = list(scheduled.num_scheduled_tokens)
        self._made = ModelRunnerOutput(
            req_ids=ids,
            req_id_to_index={name: place for place, name in enumerate(ids)},
            sampled_token_ids=[self._token(name, scheduled) for name in ids],
        )
        began = max(self._free_at, time.perf_counter() - AHEAD_S)
        self._free_at = began + STEP_S + REQUEST_S * len(ids)
        time.sleep(max(0.0, self._free_at - time.perf_counter()))

    def sample_tokens(self, grammar: Any) -> ModelRunnerOutput:
        return self._made

    def take_draft_token_ids(self) -> None:
        """None are drafted."""

    def _token(self, name: str, scheduled: Any) -> list[int]:
        """The next token, once the whole prompt has been read."""
        read = self._computed[name] + scheduled.num_scheduled_tokens[name]
        return [WORDS[read % len(WORDS)]] if read >= self._prompts[name] else []
