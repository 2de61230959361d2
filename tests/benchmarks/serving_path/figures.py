"""The path from a campaign's request to its reply, and the engine alone, at a GPU's speed.

As `hpcsci bench serving`, with `gpu` in the place of the one thing that this machine lacks.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from hpcscientist.bench.figure import Figure
from hpcscientist.bench.serving import figures as serving
from hpcscientist.bench.serving.figures import ON_GPU
from hpcscientist.config.settings import ServingSettings, Settings
from hpcscientist.ports import Tell
from hpcscientist.records.site import ServingSite, Site

IN_FLIGHT: tuple[int, ...] = ON_GPU["in_flight"]
_GPU = "benchmarks.serving_path.gpu"
_TESTS = Path(__file__).resolve().parents[2]
ENGINE: dict[str, str | int | float | bool] = {
    "worker_cls": f"{_GPU}.Worker",
    "distributed_executor_backend": f"{_GPU}.Executor",
    # What a server has on a GPU: prompts are read in parts, and 256 requests are in a step.
    "enable_chunked_prefill": True,
    "max_num_batched_tokens": 8192,
    "max_num_seqs": 256,
}


@dataclass(frozen=True, slots=True)
class Options:
    """What to measure. `python` has vLLM and Ray; `folder` takes what is in the way meanwhile."""

    folder: Path
    python: str
    in_flight: tuple[int, ...] = IN_FLIGHT
    tokens: int = 128
    runs: int = 5


def figures(options: Options, tell: Tell) -> list[Figure]:
    """Measure both in turn, with requests in flight at once. Raises ServingError, OSError."""
    before = os.environ.get("PYTHONPATH", "")
    # Where the engine's processes find the worker.
    os.environ["PYTHONPATH"] = f"{_TESTS}{os.pathsep}{before}" if before else str(_TESTS)
    settings = ServingSettings(
        replicas=1, context=4096, kv_cache_gb=1.0, eager=True, dtype="bfloat16", engine=ENGINE
    )
    given = serving.ServingOptions(
        folder=options.folder,
        site=Site(serving=ServingSite(python=options.python)),
        settings=Settings(serving=settings),
        parts=("throughput",),
        in_flight=options.in_flight,
        tokens=options.tokens,
        runs=options.runs,
        hidden=64,
        layers=2,
    )
    try:
        return serving.figures(given, tell)
    finally:
        os.environ["PYTHONPATH"] = before
