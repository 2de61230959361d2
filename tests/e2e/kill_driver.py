"""Runs `hpcsci` in a process that kills itself at a named moment: see test_kill.

    python kill_driver.py ASKED_FILE MOMENT -- ARGUMENTS

ARGUMENTS are those of `hpcsci` or, behind the word `benchmarks`, those of `tests/benchmarks`.

MOMENT is `never`, or KIND:N:before, KIND:N:torn or KIND:N:after: at the N-th event of a kind
the process is killed before the event is written, with half of its line written, or after.
chat_line:N:after: when the N-th reply is on the disk. `upgraded`: never, and by another version of
the package, whose prompts are others.
Every call that reaches the playbook leaves a line in ASKED_FILE.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from jinja2 import Template

from hpcscientist.cli.main import run
from hpcscientist.history.journal import Journal
from hpcscientist.launching import drive
from hpcscientist.models import chat
from hpcscientist.models.playbook import PlaybookModel
from hpcscientist.records.model_calls import ModelReply, ModelRequest


def main() -> int:
    asked, moment, _, *arguments = sys.argv[1:]
    _note_questions(Path(asked))
    if moment == "upgraded":
        _upgrade()
    elif moment != "never":
        _die_at(*moment.split(":"))
    if arguments[0] == "benchmarks":
        sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
        from benchmarks.command_line import run as run_benchmark  # noqa: PLC0415 (a late path)

        return run_benchmark(arguments[1:])
    return run(arguments)


def _note_questions(path: Path) -> None:
    complete = PlaybookModel.complete

    async def noted(self: PlaybookModel, request: ModelRequest) -> ModelReply:
        with path.open("a") as file:
            file.write(f"{request.subject} {request.key}\n")
        return await complete(self, request)

    PlaybookModel.complete = noted  # type: ignore[method-assign]


def _upgrade() -> None:
    render = Template.render

    def other(self: Template, *args: object, **context: object) -> str:
        return f"{render(self, *args, **context)}\n\nThis is said since the upgrade."

    Template.render = other  # type: ignore[method-assign]
    drive.__version__ = "99.0"


def _die_at(kind: str, ordinal: str, when: str) -> None:
    if kind == "chat_line":
        _die_at_reply(int(ordinal))
        return
    append = Journal._append
    seen = 0

    def appended(self: Journal, data: bytes) -> None:
        """Lines that are written together may be cut at any of them."""
        nonlocal seen
        before = b""
        for line in data.splitlines(keepends=True):
            if f'"type":"{kind}"'.encode() in line:
                seen += 1
                if seen == int(ordinal):
                    cut = {"before": 0, "torn": len(line) // 2, "after": len(line)}[when]
                    append(self, before + line[:cut])
                    os.kill(os.getpid(), signal.SIGKILL)
            before += line
        append(self, data)

    Journal._append = appended  # type: ignore[method-assign]


def _die_at_reply(ordinal: int) -> None:
    """Die when a reply is in its chat, and nothing else is done about it."""
    append = chat._append
    seen = 0

    def appended(path: Path, line: bytes) -> int:
        nonlocal seen
        start = append(path, line)
        seen += 1
        if seen == ordinal:
            os.kill(os.getpid(), signal.SIGKILL)
        return start

    chat._append = appended  # type: ignore[assignment]


if __name__ == "__main__":
    sys.exit(main())
