"""The relay: this machine's own shells reach slurmctld and slurmdbd through 127.0.0.1.

    relay.py ADDRESS DESCRIPTOR:PORT ...

A program of its own, which `up` copies into the cluster's folder. Its listening sockets were bound
in the machine's network, its own network is the controller's. While the daemon does not listen,
neither does it: clients get the "connection refused" that a stopped daemon gives.
"""

from __future__ import annotations

import contextlib
import select
import socket
import sys
import threading
import time
from pathlib import Path

_LOOKS_S = 0.2
_LISTENS = "0A"  # a socket's state in /proc/PID/net/tcp


def bind(first: int) -> socket.socket:
    """Return a socket bound to the first free port of this machine, not yet listening.

    By number: with port 0 the kernel would choose another one each time the relay listens again.
    SO_REUSEADDR only afterwards: set before, two clusters could bind one port as long as neither
    listens; never set, old connections stop a second listen. Raises OSError.
    """
    for port in range(first, first + 1000, 10):
        bound = socket.socket()
        try:
            bound.bind(("127.0.0.1", port))
        except OSError:
            bound.close()
            continue
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        return bound
    raise OSError(f"none of the ports {first}, {first + 10} ... of 127.0.0.1 is free")


def listens(pid: int | str, port: int) -> bool:
    """Say whether anything listens on a port in a process's network."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines():
            row = line.split()
            if row[3] == _LISTENS and row[1].endswith(f":{port:04X}"):
                return True
    return False


def relay(address: str, descriptor: int, port: int) -> None:
    """Carry connections of one socket to a daemon's port, for ever."""
    with socket.socket(fileno=descriptor) as outside:
        while True:
            while not listens("thread-self", port):
                time.sleep(_LOOKS_S)
            outside.listen(256)
            while listens("thread-self", port):
                if select.select([outside], [], [], _LOOKS_S)[0]:
                    with contextlib.suppress(OSError):
                        client = outside.accept()[0]
                        _start(_carry, client, address, port)
            outside.shutdown(socket.SHUT_RDWR)  # stays bound


def _carry(client: socket.socket, address: str, port: int) -> None:
    with (
        client,
        contextlib.suppress(OSError),
        socket.create_connection((address, port), 10) as daemon,
    ):
        daemon.settimeout(None)
        back = _start(_copy, daemon, client)
        _copy(client, daemon)
        back.join()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    for one, how in ((target, socket.SHUT_WR), (source, socket.SHUT_RD)):
        with contextlib.suppress(OSError):
            one.shutdown(how)


def _start(work: object, *arguments: object) -> threading.Thread:
    thread = threading.Thread(target=work, args=arguments, daemon=True)  # type: ignore[arg-type]
    thread.start()
    return thread


def main() -> None:
    """Relay every pair that the command line names."""
    address, *pairs = sys.argv[1:]
    threads = [_start(relay, address, *map(int, pair.split(":"))) for pair in pairs]
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main()
