"""Who listens at a port of this machine."""

from __future__ import annotations

import contextlib
from pathlib import Path

_TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_LISTENS = "0A"
# What a connection to 127.0.0.1 may be answered by, as the tables write it: each 32 bits of an
# address as this machine's order of bytes has them.
_LITTLE, _BIG = "0100007F", "7F000001"
_ANY = "00000000"


def users(port: int) -> set[int]:
    """Return the users (uids) who listen at a port where 127.0.0.1 leads; empty: none is known."""
    found: set[int] = set()
    for table in _TABLES:
        if found:  # beside who listens there, one of IPv6 alone may have the same port
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
