"""A vLLM worker for CPU cores that requests the tile registers (AMX) before it uses them.

Linux lets a process use them only after it has requested them, and ends it with SIGILL otherwise.
In vLLM 0.32 the 16-bit attention uses them without a request; only a matrix product with more than
four rows makes one. So an engine that is not warmed up (`serving.eager`) crashed if its first
prompt had four tokens or fewer.
"""

from __future__ import annotations

import torch
from vllm.v1.worker.cpu_worker import CPUWorker


class Worker(CPUWorker):  # type: ignore[misc]
    """vLLM's CPU worker with access to the tile registers."""

    def init_device(self) -> None:
        """Request the registers, then do as vLLM does; cores without them refuse, which is fine."""
        if torch.cpu._is_amx_tile_supported():
            torch.cpu._init_amx()
        super().init_device()
