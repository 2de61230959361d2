"""Somebody on this machine whom no candidate may reach."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import psutil


@contextmanager
def listening() -> Iterator[tuple[int, list[object]]]:
    """A port at which somebody listens on every address of this machine, and who called there."""
    calls: list[object] = []
    ends = threading.Event()
    with socket.create_server(("", 0)) as server:

        def serve() -> None:
            while True:
                connection, caller = server.accept()
                with connection:
                    if ends.is_set():
                        return
                    calls.append(caller)
                    connection.sendall(b"id,label\n")

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        port = server.getsockname()[1]
        yield port, calls
        ends.set()
        socket.create_connection(("127.0.0.1", port)).close()
        thread.join()


def own_addresses() -> list[str]:
    """This machine's addresses but its loopback's; that one where there is no other."""
    found = [a.address for many in psutil.net_if_addrs().values() for a in many if a.family == 2]
    return [address for address in found if not address.startswith("127.")] or ["127.0.0.1"]
