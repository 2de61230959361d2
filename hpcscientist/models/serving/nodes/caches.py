"""Where an engine keeps what it compiles: in a folder of its own."""

from __future__ import annotations

from pathlib import Path

_CACHES = {
    "VLLM_CACHE_ROOT": "vllm",
    "TORCHINDUCTOR_CACHE_DIR": "inductor",
    "TRITON_CACHE_DIR": "triton",
    "XDG_CACHE_HOME": "cache",
}


def variables(folder: Path) -> dict[str, str]:
    """Return the environment variables by which an engine's caches lie in a folder."""
    return {name: str(folder / below) for name, below in _CACHES.items()}
