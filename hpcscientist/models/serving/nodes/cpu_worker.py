"""vLLM's worker for cores, which asks for the tile registers (AMX) before it uses them.

Linux lets a process use them only once it has asked, and ends it with SIGILL otherwise. In vLLM
0.32 the attention in 16 bits uses them and asks for nothing; what asks is a product of matrices
with more than four rows. So an engine that is not warmed up (`serving.eager`) ended with its first
prompt where that had four tokens or fewer.
"""

from __future__ import annotations

import torch
from vllm.v1.worker.cpu_worker import CPUWorker


class Worker(CPUWorker):  # type: ignore[misc]
    """See the module."""

    def init_device(self) -> None:
        """Ask, then go on as vLLM does; cores without such registers say no, and that is well."""
        if torch.cpu._is_amx_tile_supported():
            torch.cpu._init_amx()
        super().init_device()
