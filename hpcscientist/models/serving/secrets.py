"""Creates and reads a plane's secrets, and checks that they go to its own servers only."""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import ssl
import stat
from pathlib import Path
from urllib.parse import urlsplit

from hpcscientist.errors import ServingError
from hpcscientist.models.serving.order import ServingPaths

# Finds the users who listen on a port of this machine.


_TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_LISTENS = "0A"
# Addresses that answer a connection to 127.0.0.1, as the tables write them: each 32 bits of an
# address in this machine's byte order.
_LITTLE, _BIG = "0100007F", "7F000001"
_ANY = "00000000"


def listening_users(port: int) -> set[int]:
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


_BYTES = 32


def make(path: Path) -> None:
    """Write a random secret into a file of mode 0600, unless the file exists.

    Raises ServingError if another user owns the file or others can read it.
    """
    if path.exists():
        read(path)
        return
    # Whole or not at all: half a secret would make every later start fail.
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_hex(_BYTES))
            file.flush()
            os.fsync(descriptor)
        with contextlib.suppress(FileExistsError):  # if two start at once, the first secret stays
            os.link(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    read(path)


def read(path: Path) -> str:
    """Return the secret in a file. Raises ServingError where it cannot be trusted."""
    try:
        found = path.stat()
        text = path.read_text().strip()
    except OSError as error:
        raise ServingError(
            f"{path}: the secret cannot be read: {error.strerror}; delete it, and the next start "
            "makes another"
        ) from error
    if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o077:
        raise ServingError(
            f"{path}: others can read this secret; delete it, and the next start makes another"
        )
    if len(text) < _BYTES:
        raise ServingError(f"{path}: holds no secret; delete it, and the next start makes another")
    return text


def believed(paths: ServingPaths) -> ssl.SSLContext:
    """Return a context that trusts only the plane's own servers on other nodes. Raises OSError.

    They present the certificate that the plane created for itself, whatever their addresses. Any
    other program that listens at their ports is rejected.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.load_verify_locations(cafile=paths.certificate)
    return context


def require_own(url: str) -> None:
    """Check that the key at a loopback URL would go to no other user's process.

    Any user of a node may listen at a free port, such as that of a plane that has ended or not
    begun. Raises ServingError.
    """
    port = urlsplit(url).port or 80
    others = listening_users(port) - {os.geteuid()}
    if others:
        raise ServingError(
            f"port {port} of {socket.gethostname()} is another user's (uid {min(others)}), who is "
            "not shown the key; start anew, by other ports"
        )
