"""Secrets in files that nobody else can read."""

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
from hpcscientist.system import processes

_BYTES = 32


def make(path: Path) -> None:
    """Put a random secret into a file of mode 0600; one that is there already stays.

    Raises ServingError where it is another's or others can read it.
    """
    if path.exists():
        read(path)
        return
    # Whole or not at all: half a secret would stop every later start.
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_hex(_BYTES))
            file.flush()
            os.fsync(descriptor)
        with contextlib.suppress(FileExistsError):  # of two that start at once, the first stays
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
    """Return what tells a plane's own servers on other nodes from whoever else has their ports.

    They show the certificate that the plane made for itself, whatever their addresses are. Raises
    OSError.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.load_verify_locations(cafile=paths.certificate)
    return context


def require_own(url: str) -> None:
    """See that no other user's process would be shown the key at a URL of the loopback address.

    Any user of a node may listen at a port that is free, such as one whose plane has ended or has
    not begun. Raises ServingError.
    """
    port = urlsplit(url).port or 80
    others = processes.users(port) - {os.geteuid()}
    if others:
        raise ServingError(
            f"port {port} of {socket.gethostname()} is another user's (uid {min(others)}), who is "
            "not shown the key; start anew, by other ports"
        )
