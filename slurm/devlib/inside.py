"""`exec`: a command inside a node, as root, with all that is that node's."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from devlib import kernel, processes
from devlib.base import Failed
from devlib.places import Cluster

_FORWARDED = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


def execute(cluster: Cluster, node: str, command: Sequence[str]) -> int:
    """Run a command in a node and return its exit status, 128 + N for signal N. Raises Failed.

    It has the caller's streams, environment and, where the node has it, folder. Signals reach
    it; it does not outlive this process.
    """
    words = list(command[1:] if command[:1] == ["--"] else command)
    if not words:
        raise Failed("no command: exec NODE COMMAND ...")
    folder = _folder()
    processes.enter(cluster.places, node)
    for place in (folder, Path("/")):
        with contextlib.suppress(OSError):
            os.chdir(place)
            break
    environment = os.environ | {"SLURM_CONF": str(cluster.places.slurm_conf)}
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal sends it to the child as well
    waiting: list[int] = []
    for number in _FORWARDED:  # before the child is there: none is missed
        signal.signal(number, lambda number, _frame: waiting.append(number))
    try:
        child = subprocess.Popen(words, env=environment, preexec_fn=_prepare)  # noqa: PLW1509
    except OSError as failure:
        raise Failed(f"{words[0]}: {failure.strerror}: it does not start on {node}") from None

    def forward(number: int, _frame: FrameType | None) -> None:
        child.send_signal(number)

    for number in _FORWARDED:
        signal.signal(number, forward)
    for early in waiting:
        child.send_signal(early)
    code = child.wait()
    return code if code >= 0 else 128 - code


def _prepare() -> None:
    for number in (signal.SIGINT, *_FORWARDED):
        signal.signal(number, signal.SIG_DFL)
    kernel.die_with_parent(signal.SIGKILL)


def _folder() -> Path:
    try:
        return Path.cwd()
    except FileNotFoundError:
        return Path("/")
