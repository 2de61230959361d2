"""Builds a library in a process that others may kill, or that kills itself at a given moment."""

from __future__ import annotations

import itertools
import os
import resource
import signal
import sys
from pathlib import Path

from hpcscientist.literature.library import build, sameness


def main() -> None:
    kill_at, part_rows, jobs = map(int, sys.argv[1:4])
    out, inputs = Path(sys.argv[4]), [Path(text) for text in sys.argv[5:]]
    build.PART_ROWS = sameness.PART_ROWS = part_rows
    counter = itertools.count(1)

    def on_event(name: str, arguments: tuple[object, ...]) -> None:
        # A file counts once it was renamed; that of the lock's release does not matter.
        if name == "os.rename" and ".builder" not in str(arguments[1]):
            number = next(counter)
            if number == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(on_event)
    report = build.build(inputs, out, jobs=jobs or None)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(report.papers, report.documents, next(counter) - 1, peak)


if __name__ == "__main__":
    main()
