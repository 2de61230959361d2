"""How long vLLM's processes spin when they wait for each other: a plugin of vLLM.

vLLM's engine and its workers tell each other what is next through shared memory. After each message
they look for another without pause for a second, as suits an engine on GPUs, whose steps
take milliseconds and leave the cores idle. On cores a step takes longer, and who looks takes
from those that compute. On two cores that cost a fifth of the tokens.

vLLM loads every plugin that is installed beside it (entry points `vllm.general_plugins`), also
in engines that are not ours; so this one does nothing unless a variable asks for it.
"""

from __future__ import annotations

import functools
import inspect
import os

VARIABLE = "HPCSCI_SPIN_S"
SHORT_S = "0.002"
_PARAMETER = "busy_loop_s"


def register() -> None:
    """Shorten the wait, where that is asked for and this vLLM has such a one. Idempotent.

    Who has stopped looking is told of each message through a socket (vLLM's `SpinCondition`).
    """
    seconds = os.environ.get(VARIABLE)
    if not seconds:
        return
    try:
        from vllm.distributed.device_communicators import shm_broadcast  # noqa: PLC0415
    except ImportError:
        return
    waiting = getattr(shm_broadcast, "SpinCondition", None)
    if waiting is None or _PARAMETER not in inspect.signature(waiting.__init__).parameters:
        return
    waiting.__init__ = functools.partialmethod(waiting.__init__, **{_PARAMETER: float(seconds)})
