"""The first process of a namespace of process ids: it reaps, for ever, and its end is all's end.

    first.py NAME [DESCRIPTOR]

A program of its own, which `up` copies into the cluster's folder: every node sees it there, and the
checkout may go. With a descriptor, of a socket to `up`, it ends unless that says "ready".
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys


def main() -> None:
    """Reap whatever the namespace leaves."""
    signal.signal(signal.SIGCHLD, lambda *_: reap())
    reap()
    if len(sys.argv) > 2:
        with socket.socket(fileno=int(sys.argv[2])) as up:
            if up.recv(9) != b"ready":
                sys.exit("the `up` that started this ended early")
    while True:
        signal.pause()


def reap() -> None:
    """Take leave of every child that has ended."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


if __name__ == "__main__":
    main()
