"""`hpcsci bench startup`: compares the time of `hpcsci --help` with a bare import of Click."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

from hpcscientist.bench.figure import Figure

TARGET = 3.0


def figures(runs: int = 21) -> list[Figure]:
    """Measure whole processes that take turns; return medians."""
    commands = {
        "import click": [sys.executable, "-c", "import click"],
        "hpcsci --help": [str(Path(sys.executable).with_name("hpcsci")), "--help"],
    }
    taken: dict[str, list[float]] = {name: [] for name in commands}
    for command in commands.values():
        _seconds(command)  # compile and cache byte code before the clock starts
    for _ in range(runs):
        for name, command in commands.items():
            taken[name].append(_seconds(command))
    bare, ours = (statistics.median(taken[name]) for name in commands)
    spread = max(taken["hpcsci --help"]) - min(taken["hpcsci --help"])
    return [
        Figure(
            name="hpcsci --help",
            value=ours,
            unit="s",
            compared_with=f'python -c "import click" ({bare:.4f} s)',
            ratio=ours / bare,
            target=TARGET,
            spread=spread,
            runs=runs,
        )
    ]


def _seconds(command: list[str]) -> float:
    begin = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begin
