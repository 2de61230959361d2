"""One trial as a process of this machine.

`python -m hpcscientist.worker TRIAL_FOLDER [RUN [JOB_FOLDER]]`. Without RUN whichever the folder
asks for. The worker makes nothing of JOB_FOLDER: by that argument a driver finds it that has come
after the one that started it.
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
