"""Who listens at a port: asked of this machine's real tables."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest

from hpcscientist.models.serving import secrets

LISTEN = """
import os, socket, sys
os.setuid(65534)
with socket.create_server(("127.0.0.1", 0)) as server:
    print(server.getsockname()[1], flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize(
    ("family", "address"),
    [
        (socket.AF_INET, "127.0.0.1"),
        (socket.AF_INET, "0.0.0.0"),
        (socket.AF_INET6, "::"),
        (socket.AF_INET6, "::ffff:127.0.0.1"),
    ],
)
def test_one_s_own(family: socket.AddressFamily, address: str) -> None:
    with socket.socket(family) as server:
        try:
            server.bind((address, 0))
        except OSError as error:
            pytest.skip(f"no such address on this machine: {error}")
        port = server.getsockname()[1]
        assert secrets.listening_users(port) == set()
        server.listen()
        assert secrets.listening_users(port) == {os.geteuid()}
    assert secrets.listening_users(port) == set()


def test_one_of_ipv6_alone_beside_it_is_not_meant() -> None:
    with socket.create_server(("127.0.0.1", 0)) as own, socket.socket(socket.AF_INET6) as beside:
        port = own.getsockname()[1]
        try:
            beside.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            beside.bind(("::", port))
        except OSError as error:
            pytest.skip(f"no IPv6 on this machine: {error}")
        beside.listen()
        assert secrets.listening_users(port) == {os.geteuid()}


def test_another_address_is_not_meant() -> None:
    with socket.create_server(("127.0.0.2", 0)) as server:
        assert secrets.listening_users(server.getsockname()[1]) == set()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root starts a process as another user")
def test_another_user_s() -> None:
    with subprocess.Popen(
        [sys.executable, "-I", "-c", LISTEN],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as server:
        assert server.stdout is not None
        assert secrets.listening_users(int(server.stdout.readline())) == {65534}
        server.communicate(b"")
