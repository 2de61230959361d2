"""What a lost worker said, kept in its trial's log before its own files are removed."""

from __future__ import annotations

import os

from hpcscientist.files.rundir import TrialPaths


def keep_log(paths: TrialPaths, said: str) -> None:
    """Append a worker's last words to the trial's log; a full disk costs them, nothing else."""
    if not said:
        return
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        with os.fdopen(os.open(paths.log, flags, 0o644), "ab") as file:
            file.write(f"\n[the worker ended without a result; it said:]\n{said}".encode())
    except OSError:
        return  # a full disk, or no file any more: the trial is lost with or without its log
