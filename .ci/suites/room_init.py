"""Process 1 of a room: mounts what the room has for itself, reaps, ends when its input ends."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys


def main() -> None:
    """Serve until the standard input ends. Arguments: PLACE=FOLDER, what to mount where."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    # Opened first: what is mounted on one place may hide the next one's folder.
    binds = [bind.partition("=") for bind in sys.argv[1:]]
    opened = [(place, os.open(folder, os.O_RDONLY)) for place, _, folder in binds]
    for place, folder in opened:
        mount = ["mount", "--no-canonicalize", "--bind", f"/proc/self/fd/{folder}", place]
        subprocess.run(mount, check=True, pass_fds=[folder])
        os.close(folder)
    if sys.argv[1:]:
        shm = ["mount", "-t", "tmpfs", "-o", "mode=1777", "tmpfs", "/dev/shm"]
        subprocess.run(shm, check=True)
    read, write = os.pipe()
    os.set_blocking(write, False)
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    os.write(1, b"ready\n")
    _reap()
    while True:
        ready, _, _ = select.select([0, read], [], [])
        if read in ready:
            os.read(read, 65536)
            _reap()
        if 0 in ready and not os.read(0, 4096):
            return


def _reap() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return


if __name__ == "__main__":
    main()
