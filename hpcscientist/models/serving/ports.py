"""The ports of a plane: the same on each of its nodes, derived from the job's number.

So the planes of two jobs of one user on a shared node do not collide. If another program uses a
port, the next block is tried.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable

from hpcscientist.records.base import Record

# Below the range that Linux assigns by itself (32768 up), above the well-known ports.
_FIRST, _LAST, _BLOCK = 20_000, 32_000, 16
_STRIDE = 257  # blocks; coprime to their number, so all are reached


class Ports(Record):
    """Ports of one plane. `http` is bound to each node's loopback address, the others are Ray's.

    Nothing listens at `claim`: each node's process holds it (`hold`) for as long as it serves.
    """

    gcs: int
    client: int
    node_manager: int
    object_manager: int
    agent_http: int
    agent_grpc: int
    runtime_env: int
    metrics: int
    http: int
    claim: int

    def all(self) -> tuple[int, ...]:
        """Return every port."""
        return tuple(self.model_dump().values())


def block(number: int, attempt: int = 0) -> Ports:
    """Return the ports for a job's number (or a process id); another block for each attempt."""
    blocks = (_LAST - _FIRST) // _BLOCK
    start = _FIRST + (number + attempt * _STRIDE) % blocks * _BLOCK
    names = Ports.model_fields
    return Ports(**{name: start + offset for offset, name in enumerate(names)})


def taken(wanted: Iterable[int], addresses: Iterable[str]) -> list[int]:
    """Return the ports that cannot be bound on one of this machine's addresses now."""
    listed = tuple(addresses)
    return [port for port in wanted if not all(_is_free(port, address) for address in listed)]


def hold(port: int) -> socket.socket | None:
    """Bind a port of this machine's loopback address; return None if it is taken.

    The port is free again once the socket is closed. If two planes start with the same block at
    once and both find it free, only one gets this port.
    """
    held = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        held.bind(("127.0.0.1", port))
    except OSError:
        held.close()
        return None
    return held


def _is_free(port: int, address: str) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError:
            return False
    return True
