"""Slurm's commands on PATH, each of which asks this process what to answer.

A command is a process, as the backend calls it; it hands its command line, its standard input
and its environment over a socket, prints what it is told and ends as it is told.
"""

from __future__ import annotations

import contextlib
import marshal
import secrets
import shlex
import socket
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

PROGRAMS = ("sbatch", "squeue", "sacct", "scancel", "scontrol", "sacctmgr", "sinfo", "srun")

_CLIENT = """\
import marshal, os, sys, _socket
address, program = sys.argv[1:3]
stdin = "" if program != "sbatch" else sys.stdin.read()
with_server = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
with_server.connect("\\0" + address)
asked = marshal.dumps((program, sys.argv[3:], stdin, dict(os.environ)))
with_server.sendall(asked) if hasattr(with_server, "sendall") else with_server.send(asked)
with_server.shutdown(_socket.SHUT_WR)
parts = []
while part := with_server.recv(1 << 16):
    parts.append(part)
code, out, err = marshal.loads(b"".join(parts))
sys.stdout.write(out)
sys.stderr.write(err)
sys.stdout.flush()
os._exit(code)
"""


@dataclass(frozen=True, slots=True)
class Asked:
    """A command line with what came with it."""

    program: str
    arguments: tuple[str, ...]
    stdin: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command prints, and its exit status."""

    code: int = 0
    out: str = ""
    err: str = ""


Answers = Callable[[Asked], Answer]


class CommandServer:
    """Answers commands, one after another, in a thread of its own."""

    def __init__(self, folder: Path, answers: Answers) -> None:
        self._answers = answers
        self._socket = socket.socket(socket.AF_UNIX)
        address = f"hpcsci-commands-{secrets.token_hex(8)}"
        self._socket.bind("\0" + address)
        self._socket.listen(64)
        self._ended = threading.Event()
        self.failures: list[BaseException] = []
        self.commands = folder
        folder.mkdir(parents=True)
        client = folder / "client.py"
        client.write_text(_CLIENT)
        for program in PROGRAMS:
            line = [sys.executable, "-IS", str(client), address, program]
            path = folder / program
            path.write_text(f'#!/bin/sh\nexec {shlex.join(line)} "$@"\n')
            path.chmod(0o755)
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while not self._ended.is_set():
            try:
                client, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(client,), daemon=True).start()

    def _answer(self, client: socket.socket) -> None:
        with client, contextlib.suppress(OSError):
            parts = []
            while part := client.recv(1 << 16):
                parts.append(part)
            if not parts:
                return
            program, arguments, stdin, environment = marshal.loads(b"".join(parts))
            try:
                said = self._answers(Asked(program, tuple(arguments), stdin, environment))
            except BaseException as error:  # noqa: BLE001 (told to the test, which fails by it)
                self.failures.append(error)
                said = Answer(99, "", f"{program}: error: not scripted: {error}\n")
            client.sendall(marshal.dumps((said.code, said.out, said.err)))

    def close(self) -> None:
        """Answer nothing any more."""
        self._ended.set()
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join(60)


def on_path(server: CommandServer, path: str = "/usr/bin:/bin") -> str:
    """Return a PATH where the server's commands come first."""
    return f"{server.commands}:{path}"


def line(asked: Asked | Sequence[str]) -> str:
    """Return a command line as one types it."""
    words = [asked.program, *asked.arguments] if isinstance(asked, Asked) else list(asked)
    return shlex.join(words)
