"""What the local backend has submitit call: one trial."""

from __future__ import annotations

from hpcscientist.system.lean import without


def run_trial(folder: str) -> None:
    """Run the trial in a folder; see `entry.run_trial`."""
    with without("numpy"):
        from hpcscientist.worker import entry  # noqa: PLC0415
    entry.run_trial(folder)
