"""The child process of a measurement: `python -m hpcscientist.bench.child MODULE:FUNCTION ARGS`.

Prints one JSON object: the seconds that the function took, the processor time of this process and
of the children it waited for, and the peak of resident memory.
"""

from __future__ import annotations

import importlib
import json
import os
import resource
import sys
import time
from pathlib import Path


def main(target: str, arguments: str) -> None:
    """Call the function once and print what it took.

    If it returns a function, the call was preparation, and only the returned function is measured.
    """
    module, _, name = target.partition(":")
    function = getattr(importlib.import_module(module), name)
    values = json.loads(arguments)
    begin, cpu_begin = time.perf_counter(), _cpu_s()
    ready = function(*values)
    if callable(ready):
        begin, cpu_begin = time.perf_counter(), _cpu_s()
        ready()
    seconds, cpu_s = time.perf_counter() - begin, _cpu_s() - cpu_begin
    print(json.dumps({"seconds": seconds, "cpu_s": cpu_s, "peak_mb": peak_mb()}))


def _cpu_s() -> float:
    return sum(os.times()[:4])


def peak_mb() -> float:
    """Return the peak of this process's resident memory in MiB.

    On Linux getrusage's maximum survives exec, so it would include the parent's memory; the
    high-water mark in /proc starts again.
    """
    try:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    except OSError:
        pass
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main(*sys.argv[1:])
