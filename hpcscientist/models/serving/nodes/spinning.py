"""A plugin of vLLM that shortens how long its processes spin while they wait for each other.

vLLM's engine and its workers exchange messages through shared memory. After each message they poll
for another without pause for a second, and then sleep until a socket wakes them.

Polling suits an engine on GPUs, whose steps take milliseconds and leave the cores idle. On cores a
step takes longer, and a polling process slows down the computing ones: it costs a fifth of the
tokens on two cores. So there the polling is shortened.

The socket may lose a wake-up: it holds one message and drops others while it is full. vLLM 0.25
then sleeps for ever, on GPUs too, once an engine of several workers has been idle; 0.32 looks again
after five seconds. With this plugin every process looks again after 20 ms, which costs next to
nothing.

vLLM loads every plugin that is installed beside it (entry points `vllm.general_plugins`), also in
engines that are not ours; so this one does nothing unless a variable asks for it.
"""

from __future__ import annotations

import functools
import inspect
import os
from typing import Any

from hpcscientist.models.serving.nodes.caches import FOLDER

VARIABLE = "HPCSCI_SPIN_S"
SHORT_S = "0.002"
LOOK_AGAIN_MS = 20
_PARAMETER = "busy_loop_s"


def register() -> None:
    """Patch the waiting of a plane's processes, if this vLLM waits in that way. Idempotent."""
    seconds, is_ours = os.environ.get(VARIABLE), os.environ.get(FOLDER)
    if not seconds and not is_ours:
        return
    try:
        from vllm.distributed.device_communicators import shm_broadcast  # noqa: PLC0415
    except ImportError:
        return
    waiting = getattr(shm_broadcast, "SpinCondition", None)
    if waiting is None:
        return
    if seconds and _PARAMETER in inspect.signature(waiting.__init__).parameters:
        waiting.__init__ = functools.partialmethod(waiting.__init__, **{_PARAMETER: float(seconds)})
    wait = getattr(waiting, "wait", None)
    if wait is None or hasattr(wait, "__wrapped__"):
        return

    @functools.wraps(wait)
    def look_again(self: Any, timeout_ms: float | None = None) -> None:
        """Wait as before, but at most LOOK_AGAIN_MS; the caller then looks and waits again."""
        wait(self, LOOK_AGAIN_MS if timeout_ms is None else min(timeout_ms, LOOK_AGAIN_MS))

    if "timeout_ms" in inspect.signature(wait).parameters:
        waiting.wait = look_again
