"""The backend's clock is its event loop's: who turns that one turns every pause here."""

from __future__ import annotations

import asyncio


def now() -> float:
    """Return seconds by the running event loop's clock. Raises RuntimeError outside of one."""
    return asyncio.get_running_loop().time()
