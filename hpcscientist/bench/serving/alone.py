"""vLLM alone: runs `LLM`'s engine in its own process, with given engine settings.

    python -m hpcscientist.bench.serving.alone

It reads lines of JSON: an `AloneEngine`, then any number of `RequestBatch`es. It answers each with
a line: what the engine resolved, then how long the batch took and how many tokens it produced. All
other output goes to standard error.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections import deque
from typing import Any

from hpcscientist.records.base import Record
from hpcscientist.records.model_calls import ModelRequest
from hpcscientist.system import processes


class AloneEngine(Record):
    """The engine of a replica: its model's folder and its arguments by name."""

    folder: str
    arguments: dict[str, str | int | float | bool]


class Resolved(Record):
    """The settings that the engine resolved from its arguments."""

    dtype: str
    max_num_seqs: int
    max_num_batched_tokens: int
    chunked_prefill: bool
    executor: str


class RequestBatch(Record):
    """Requests, of which at most `in_flight` are in flight at once."""

    requests: tuple[ModelRequest, ...]
    in_flight: int


class Taken(Record):
    """The time of a batch, and the tokens of its prompts and replies."""

    seconds: float
    prompt_tokens: int
    tokens: int


def main() -> None:
    """Answer requests from standard input until it ends."""
    processes.prctl(processes.PR_SET_PDEATHSIG, signal.SIGTERM)
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # vLLM also prints to stdout
    model, resolved = start(AloneEngine.model_validate_json(sys.stdin.readline()))
    out.write(resolved.model_dump_json() + "\n")
    for line in sys.stdin:
        batch = RequestBatch.model_validate_json(line)
        out.write(run(model, batch).model_dump_json() + "\n")


def start(engine: AloneEngine) -> tuple[Any, Resolved]:
    """Start an engine that is configured exactly as a replica.

    For omitted arguments vLLM has other defaults for `LLM` than for a server; the server's are
    used.
    """
    from vllm import LLM  # noqa: PLC0415 (heavy)
    from vllm.engine.arg_utils import EngineArgs  # noqa: PLC0415
    from vllm.usage.usage_lib import UsageContext  # noqa: PLC0415

    given: dict[str, Any] = dict(engine.arguments)
    config = EngineArgs(model=engine.folder, **given).create_engine_config(
        UsageContext.OPENAI_API_SERVER
    )
    scheduler = config.scheduler_config
    given |= {
        "max_num_seqs": scheduler.max_num_seqs,
        "max_num_batched_tokens": scheduler.max_num_batched_tokens,
        "enable_chunked_prefill": scheduler.enable_chunked_prefill,
    }
    model = LLM(model=engine.folder, **given)
    found = model.llm_engine.vllm_config
    return model, Resolved(
        dtype=str(found.model_config.dtype).removeprefix("torch."),
        max_num_seqs=found.scheduler_config.max_num_seqs,
        max_num_batched_tokens=found.scheduler_config.max_num_batched_tokens,
        chunked_prefill=found.scheduler_config.enable_chunked_prefill,
        executor=str(found.parallel_config.distributed_executor_backend),
    )


def run(model: Any, batch: RequestBatch) -> Taken:
    """Answer requests with the sampling parameters of a server, as `LLM.chat` does."""
    from vllm.sampling_params import RequestOutputKind  # noqa: PLC0415

    engine, tokenizer = model.llm_engine, model.get_tokenizer()
    waiting, in_flight = deque(enumerate(batch.requests)), 0
    prompt_tokens = tokens = 0
    begin = time.perf_counter()
    while waiting or in_flight:
        while waiting and in_flight < batch.in_flight:
            number, request = waiting.popleft()
            own = model.get_default_sampling_params()
            own.temperature = request.temperature
            own.top_p = own.top_p if request.top_p is None else request.top_p
            own.max_tokens, own.seed = request.max_tokens, request.seed
            own.ignore_eos = request.ignore_eos
            own.output_kind = RequestOutputKind.FINAL_ONLY
            chat = [message.model_dump() for message in request.messages]
            text = tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
            ids = tokenizer(text, add_special_tokens=False).input_ids
            engine.add_request(str(number), {"prompt_token_ids": ids}, own)
            in_flight += 1
        for output in engine.step():
            if output.finished:
                in_flight -= 1
                prompt_tokens += len(output.prompt_token_ids)
                tokens += len(output.outputs[0].token_ids)
    return Taken(seconds=time.perf_counter() - begin, prompt_tokens=prompt_tokens, tokens=tokens)


if __name__ == "__main__":
    main()
