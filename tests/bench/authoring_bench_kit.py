"""Benches of authoring on the tiny recipe: a playbook for every way that debugging can go."""

from __future__ import annotations

import json
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "e2e"))

from tiny_recipe import RATE, edit, idea, propose, write_recipe

LIMITS = ["--allow-unsandboxed", "--seed", "3"]


def fails(how: str) -> str:
    """A line whose failure no check of code sees before it is run."""
    return f'ERROR_RATE = float("{how}")'


def writes(number: int, line: str) -> dict[str, Any]:
    return idea(number, "code", {"note": "rate", "edits": edit(RATE, line)})


def fixes(number: int, round: int, before: str, after: str) -> dict[str, Any]:
    reply = {"diagnosis": f"round {round} of {number}", "edits": edit(before, after)}
    entry = idea(number, "debug", reply, ordinal=round)
    return {**entry, "prompt_tokens": 100, "completion_tokens": 10}


def title(number: int) -> dict[str, Any]:
    words = ("apples", "boats", "clouds", "dunes", "eagles")[number - 1]
    return propose(number, f"Idea {words}", f"All about {words} and nothing else, {words * 3}.")


# 1 runs at first, 2 is fixed in round 1 into what the reference does, 3 in round 3, 4 is given up
# in round 2 after one more version, 5 comes to no code.
PLAYBOOK = [
    *map(title, range(1, 6)),
    writes(1, "ERROR_RATE = 0.01"),
    writes(2, fails("a")),
    fixes(2, 1, fails("a"), "ERROR_RATE = 3 / 10"),
    writes(3, fails("b")),
    fixes(3, 1, fails("b"), fails("c")),
    fixes(3, 2, fails("c"), fails("d")),
    fixes(3, 3, fails("d"), "ERROR_RATE = 0.03"),
    writes(4, fails("e")),
    fixes(4, 1, fails("e"), fails("f")),
    {
        **idea(4, "debug", {"diagnosis": "hopeless", "give_up": True}, ordinal=2),
        "prompt_tokens": 100,
        "completion_tokens": 10,
    },
    writes(5, "ERROR_RATE = ")
    | {"reply": {"note": "none", "edits": edit("no such line", "ERROR_RATE = 0.1")}},
]


def recipe(folder: Path, playbook: list[dict[str, Any]] | None = None) -> Path:
    """Write the tiny recipe with a playbook; trials leave their names in `executed`."""
    path = write_recipe(folder, folder / "executed")
    lines = PLAYBOOK if playbook is None else playbook
    text = "".join(json.dumps(entry) + "\n" for entry in lines)
    (path / "playbook.jsonl").write_text(text)
    return path


def executed(folder: Path) -> Counter[str]:
    """How often each trial's code ran to its end."""
    file = folder / "executed"
    return Counter(file.read_text().split()) if file.exists() else Counter()


SCHEMAS = {
    "Proposal": "propose", "CodeReply": "code", "FixReply": "debug", "StructureReply": "structure",
}  # fmt: skip
CALLED = """\
def rate(text):
    return float(text)


ERROR_RATE = rate("first{0}")"""
GUIDED, WHOLE = "## The code around it, by static analysis", "## The code as a whole, by static"


class Endpoint(ThreadingHTTPServer):
    """Writes code that fails, and fixes it only where the prompt holds the structure it needs.

    The second idea is fixed with an outline of all code too, the first with the structure around
    the traceback alone. `disturb` is called with the stage before each answer.
    """

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked: Counter[str] = Counter()
        self.prompts: list[tuple[str, str]] = []
        self.disturb: Callable[[str], None] = lambda stage: None
        self.refuses = ""  # a stage
        self.code: Callable[[int], str] = CALLED.format

    @property
    def spec(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1#scripted"

    def answer(self, stage: str, prompt: str) -> dict[str, Any]:
        self.asked[stage] += 1
        self.prompts.append((stage, prompt))
        self.disturb(stage)
        if stage == "propose":
            number = next(n for n in range(1, 6) if f"number {n} of this campaign" in prompt)
            return title(number)["reply"]  # type: ignore[no-any-return]
        number = 1 if "Idea apples" in prompt else 2
        if stage == "structure":
            return {"analysis": "- `ERROR_RATE`: a text becomes a number", "cause": "no number"}
        if stage == "code":
            return {"note": "rate", "edits": edit(RATE, self.code(number))}
        helped = GUIDED in prompt or (WHOLE in prompt and number == 2)
        before = next(line for line in prompt.splitlines() if line.startswith("ERROR_RATE = rate"))
        # Other code each time: a version that came before would be cut off.
        after = "ERROR_RATE = 0.02" if helped else before.replace('")', 'x")')
        return {"diagnosis": "a guess", "edits": edit(before, after)}


class _Handler(BaseHTTPRequestHandler):
    server: Endpoint

    def do_GET(self) -> None:
        self._send({"data": [{"id": "scripted"}]})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        prompt = "".join(message["content"] for message in body["messages"])
        stage = SCHEMAS[body["response_format"]["json_schema"]["name"]]
        if stage == self.server.refuses:
            self._send({"error": {"message": "no such key"}}, 401)
            return
        content = json.dumps(self.server.answer(stage, prompt))
        choice = {"message": {"role": "assistant", "content": content}, "finish_reason": "stop"}
        usage = {"prompt_tokens": 7, "completion_tokens": 5}
        self._send({"choices": [choice], "usage": usage})

    def _send(self, value: dict[str, Any], status: int = 200) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@contextmanager
def endpoint() -> Iterator[Endpoint]:
    with Endpoint() as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        try:
            yield running
        finally:
            running.shutdown()
            thread.join()
