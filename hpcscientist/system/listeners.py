"""Finds the users who listen on a port of this machine."""

from __future__ import annotations

import contextlib
from pathlib import Path

_TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_LISTENS = "0A"
# Addresses that answer a connection to 127.0.0.1, as the tables write them: each 32 bits of an
# address in this machine's byte order.
_LITTLE, _BIG = "0100007F", "7F000001"
_ANY = "00000000"


def users(port: int) -> set[int]:
    """Return the uids that listen on a port reachable at 127.0.0.1; empty if none is known."""
    found: set[int] = set()
    for table in _TABLES:
        if found:  # an IPv6-only listener may use the same port as an IPv4 one
            break
        with contextlib.suppress(OSError):
            for line in table.read_text().splitlines()[1:]:
                fields = line.split()
                address, _, hexadecimal = fields[1].rpartition(":")
                if fields[3] == _LISTENS and int(hexadecimal, 16) == port and _is_here(address):
                    found.add(int(fields[7]))
    return found


def _is_here(address: str) -> bool:
    return address.endswith((_LITTLE, _BIG)) or address == _ANY * (len(address) // len(_ANY))
