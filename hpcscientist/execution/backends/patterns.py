"""Paths that Slurm and submitit do not take as they are."""

from __future__ import annotations

from pathlib import Path

from hpcscientist.errors import UsageError


def refuse_patterns(root: Path) -> None:
    """Raise UsageError for a folder below which nothing can be submitted.

    submitit puts the job's number in place of %j and the like wherever they stand in a path, and
    Slurm does so with more of them, so files would come to lie in folders beside.
    """
    if "%" in str(root.absolute()):
        raise UsageError(
            f"{root.absolute()}: Slurm and submitit read the % in this path as the start of a "
            "pattern; give a folder without one (--run-dir, or --out of a rerun)"
        )
