"""The backend's clock: its event loop's, so that controlling that one controls every pause."""

from __future__ import annotations

import asyncio


def loop_time() -> float:
    """Return seconds by the running event loop's clock. Raises RuntimeError outside of one."""
    return asyncio.get_running_loop().time()
