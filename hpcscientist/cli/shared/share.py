"""How much of the machine a command took: login nodes are shared."""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager

import click
import psutil


@contextmanager
def share_shown(on: bool = True) -> Iterator[None]:
    """At the end, say on stderr what this process and its commands took of the machine."""
    try:
        yield
    finally:
        if on:
            click.echo(statement(), err=True)


def statement() -> str:
    """CPU time since this process began, its share of one core, and the peak of its memory.

    Of its commands as well: their CPU time is added, and of all processes the largest counts.
    """
    own = resource.getrusage(resource.RUSAGE_SELF)
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = own.ru_utime + own.ru_stime + ended.ru_utime + ended.ru_stime
    wall_s = max(time.time() - psutil.Process().create_time(), 0.001)
    # KiB on Linux. A command's includes what its parent had when it was forked, so no sum.
    peak_mb = max(own.ru_maxrss, ended.ru_maxrss) / 1024
    return (
        f"this machine: {cpu_s:.1f} s of CPU in {wall_s:.0f} s, {100 * cpu_s / wall_s:.1f} % of "
        f"one core; peak memory {peak_mb:.0f} MiB"
    )
