"""Runs one trial as a process on this machine.

`python -m hpcscientist.worker TRIAL_FOLDER [RUN [JOB_FOLDER]]`. Without RUN it runs whichever run
the folder's spec asks for. The worker ignores JOB_FOLDER: a later driver finds the worker by that
argument.
"""

from __future__ import annotations

import sys

from hpcscientist.system.lean import without


def main() -> None:
    """Run the trial that the command line names."""
    if not 2 <= len(sys.argv) <= 4:
        sys.exit("hpcsci worker: python -m hpcscientist.worker TRIAL_FOLDER [RUN [JOB_FOLDER]]")
    with without("numpy", "cloudpickle"):
        from hpcscientist.worker.entry import run_trial  # noqa: PLC0415
    run_trial(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else None)


if __name__ == "__main__":
    main()
