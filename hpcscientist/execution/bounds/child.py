"""What a candidate's process does between fork and exec: it gives up what it must not have.

The limits here are the kernel's. Processes and memory are counted from outside (`watch`); here
they have a backstop only, for what happens between two looks.
"""

from __future__ import annotations

import contextlib
import resource
import signal
from collections.abc import Callable

from hpcscientist.execution.bounds import pid_namespace
from hpcscientist.execution.bounds.guard import leave_guard
from hpcscientist.execution.bounds.usage import tasks_of_all
from hpcscientist.execution.bounds.watch import Bounds

# Where memory runs out, the kernel should end the candidate and not its worker, which can then
# say what happened. A tenth of the memory is enough to prefer it, and too little to make it
# pay for a process that holds more.
_OOM_SCORE = "100"
_ROOM = 16


def preparation(bounds: Bounds, life: int) -> Callable[[], None]:
    """Return what to run in the child of this process, between fork and exec.

    `life` is the reading end of a pipe that this process keeps open.
    """
    apart_mb = bounds.memory_mb if bounds.apart and pid_namespace.is_possible() else 0
    # With room beyond the bound, so that a look from outside finds it passed.
    most = counted = bounds.processes + max(_ROOM, bounds.processes // 8)
    if not apart_mb or not pid_namespace.counts_own_processes():
        # All of the user's on the machine count, other jobs' included: so there is room for all
        # there are, for the candidate's own, and for as many that others start meanwhile.
        counted = tasks_of_all() + 2 * bounds.processes
    limits = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_FSIZE: bounds.output_mb * 2**20,
        resource.RLIMIT_NOFILE: bounds.open_files,
        resource.RLIMIT_NPROC: counted,
    }

    def prepare() -> None:
        leave_guard(life, most, apart_mb)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:  # noqa: PTH123 (no imports here)
            file.write(_OOM_SCORE)
        for kind, wanted in limits.items():
            hard = resource.getrlimit(kind)[1]
            limit = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
            resource.setrlimit(kind, (limit, limit))

    return prepare
