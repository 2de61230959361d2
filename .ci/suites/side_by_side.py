"""Suites in processes of their own, some at once; what they tell comes through one pipe each.

A process and not a thread, for a signal ends what its process waits for: each suite is taken down
by the process that brought it up. It ends with its parent, also where that is killed with -9.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import selectors
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_PR_SET_PDEATHSIG = 1

# Tells of something, by kind: given to a job.
Tell = Callable[[str, Any], None]
Job = tuple[str, Callable[[Tell], None]]


class Stopped(BaseException):
    """A signal asked for the end."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


@dataclass
class _Child:
    name: str
    pid: int
    pipe: int
    unread: bytes = b""


def run_jobs(jobs: Sequence[Job], at_once: int, hear: Tell) -> None:
    """Run named jobs, at most so many at once, in order; `hear` is called here with what they tell.

    A job that ends badly is told of as a "problem". Raises what interrupts it, once all have ended.
    """
    waiting = list(jobs)
    living: dict[int, _Child] = {}
    with selectors.DefaultSelector() as pipes:
        try:
            while waiting or living:
                while waiting and len(living) < at_once:
                    _start(*waiting.pop(0), living, pipes)
                _listen(living, pipes, hear)
        except BaseException:
            for child in living.values():
                os.kill(child.pid, signal.SIGTERM)
            while living:
                with contextlib.suppress(Exception):  # each has to come to its end
                    _listen(living, pipes, hear)
            raise


def _start(
    name: str,
    job: Callable[[Tell], None],
    living: dict[int, _Child],
    pipes: selectors.BaseSelector,
) -> None:
    with _signals_wait() as masked:  # until the child is known, and can be told of it
        read, write = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            _be_child(job, write, parent, masked)
        os.close(write)
        living[read] = _Child(name, pid, read)
        pipes.register(read, selectors.EVENT_READ)


def _be_child(job: Callable[[Tell], None], pipe: int, parent: int, masked: set[int]) -> None:
    code = 1
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # it ended before
            return
        signal.pthread_sigmask(signal.SIG_SETMASK, masked)
        job(lambda kind, value: _write(pipe, kind, value))
        code = 0
    except Stopped:
        code = 0  # the parent knows
    except BaseException:  # noqa: BLE001 (a fork's edge)
        traceback.print_exc()
    finally:
        os._exit(code)


def _write(pipe: int, kind: str, value: Any) -> None:
    line = json.dumps([kind, value]).encode() + b"\n"
    with _signals_wait():  # a line is told whole, or not at all
        while line:
            line = line[os.write(pipe, line) :]


def _listen(living: dict[int, _Child], pipes: selectors.BaseSelector, hear: Tell) -> None:
    for key, _ in pipes.select():
        with _signals_wait():  # nothing that was read is lost
            _hear(living[key.fd], living, pipes, hear)


def _hear(
    child: _Child, living: dict[int, _Child], pipes: selectors.BaseSelector, hear: Tell
) -> None:
    block = os.read(child.pipe, 1 << 16)
    *lines, child.unread = (child.unread + block).split(b"\n")
    for line in lines:
        hear(*json.loads(line))
    if not block:
        pipes.unregister(child.pipe)
        os.close(child.pipe)
        del living[child.pipe]
        ended = os.waitstatus_to_exitcode(os.waitpid(child.pid, 0)[1])
        if ended:
            hear("problem", f"{child.name}: its process ended {ended}")


@contextlib.contextmanager
def _signals_wait() -> Iterator[set[int]]:
    masked = {int(each) for each in signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)}
    try:
        yield masked
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, masked)
