"""submitit's command of a job, `submitit.core._submit`, without the NumPy that it imports first.

It does so for pickles of arrays; ours name a function and a folder.
"""

from __future__ import annotations

from hpcscientist.system.lean import without

MODULE = "hpcscientist.execution.backends.submitted"


def main() -> None:
    """Run the job whose folder the command line names."""
    with without("numpy"):
        from submitit.core.submission import submitit_main  # noqa: PLC0415
    submitit_main()


if __name__ == "__main__":
    main()
