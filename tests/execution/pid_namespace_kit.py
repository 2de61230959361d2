"""A command supervised from an interpreter that has no other processes below it.

Orphans of tests that ran before are no children of that one, and what is left below it is the
command's.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from hpcscientist.execution.bounds.supervise import Reason

_SUPERVISING = """
import io, json, os, sys, threading
from pathlib import Path
from hpcscientist.execution.bounds.supervise import BoundedLog
from hpcscientist.execution.bounds.supervise import Bounds, RunPlace, supervise
from hpcscientist.system.processes import children

folder, code, bounds = Path(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3])
ended = supervise(
    [sys.executable, "-c", code],
    RunPlace(folder, {"PATH": os.environ["PATH"]}),
    Bounds(watched=(folder,), **bounds),
    threading.Event(),
    BoundedLog(io.BytesIO()),
)
left = children(os.getpid())
print(json.dumps({"reason": ended.reason, "survivors": ended.survivors, "left": left}))
"""


@dataclass(frozen=True)
class Alone:
    """How the command ended. `left`: the children that its supervisor had then, zombies too."""

    reason: Reason
    survivors: list[int]
    left: list[int]


def supervised_alone(folder: Path, code: str, **bounds: float | bool) -> Alone:
    limits = {"deadline_s": 600, "memory_mb": 512, "output_mb": 8} | bounds
    said = subprocess.run(
        [sys.executable, "-c", _SUPERVISING, str(folder), code, json.dumps(limits)],
        stdout=subprocess.PIPE,
        check=True,
    ).stdout
    found = json.loads(said)
    return Alone(Reason(found["reason"]), found["survivors"], found["left"])
