"""Process 1 of a room: makes what the room has for itself, reaps, ends when its input ends."""

from __future__ import annotations

import fcntl
import os
import select
import signal
import socket
import struct
import subprocess
import sys

_GET_FLAGS, _SET_FLAGS, _UP = 0x8913, 0x8914, 1  # ioctls of netdevice(7)
_SET_ADDRESS = 0x8916
_ADDRESS = "192.0.2.1"  # of those that are given to nobody (RFC 5737)


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
    _loopback_up()
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


def _loopback_up() -> None:
    """What `ip link set lo up` does, which is not yet there on a bare machine.

    A second address is no loopback's: where there are only such, getaddrinfo(3) as Slurm calls it
    (AI_ADDRCONFIG) finds not even 127.0.0.1.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        told = fcntl.ioctl(any_socket, _GET_FLAGS, struct.pack("16sh14x", b"lo", 0))
        _, flags = struct.unpack("16sh14x", told)
        if not flags & _UP:
            fcntl.ioctl(any_socket, _SET_FLAGS, struct.pack("16sh14x", b"lo", flags | _UP))
            address = struct.pack("HH4s8x", socket.AF_INET, 0, socket.inet_aton(_ADDRESS))
            fcntl.ioctl(any_socket, _SET_ADDRESS, struct.pack("16s16s", b"lo:1", address))


def _reap() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return


if __name__ == "__main__":
    main()
