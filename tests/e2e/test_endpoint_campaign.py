"""A whole campaign against an OpenAI-compatible HTTP endpoint, and what one may refuse."""

from __future__ import annotations

import json
import os
import re
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from campaigns import PLAIN, TinyCampaign, hpcsci
from tiny_recipe import PLAYBOOK, RATE, edit, idea, propose

pytestmark = pytest.mark.e2e

KEY = "sk-not-for-candidates"
STAGES = {"Proposal": "propose", "CodeReply": "code", "FixReply": "debug"}
# One idea that is sound, and one for each way in which an endpoint fails a request.
FAULTS = [
    propose(1, "Fewer slips", "Lower the share of wrong answers to almost nothing at all."),
    propose(2, "Filtered", "Read inputs in ascending order before deciding about parity."),
    propose(3, "Answered in prose", "Predict from the place of a number among its neighbours."),
    propose(5, "Stumbled over", "Choose a constant of the generator with care and patience."),
    propose(6, "Too long", "Import some library which nobody has ever installed anywhere."),
    idea(1, "code", {"note": "lower rate", "edits": edit(RATE, "ERROR_RATE = 0.01")}),
    idea(3, "code", {}),
]


class Server(ThreadingHTTPServer):
    """Serves the tiny playbook's replies by what the prompt asks for."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.playbook = PLAYBOOK
        self.asked: Counter[tuple[int, str]] = Counter()
        self.refused: dict[tuple[int, str], str] = {}
        self.failing: set[tuple[int, str]] = set()
        self.prose: dict[tuple[int, str], str] = {}
        self.knows_schemas = True

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def call_of(self, body: dict[str, Any]) -> tuple[int, str]:
        """Tell by the prompt what is asked for."""
        prompt = "".join(message["content"] for message in body["messages"])
        # The schema stands in the prompt too, for endpoints that know none.
        (stage,) = (stage for title, stage in STAGES.items() if f'"title": "{title}"' in prompt)
        if stage == "propose":
            (number,) = re.findall(r"number (\d+) of this campaign", prompt)
            return int(number), stage
        entries = (e for e in self.playbook if e["stage"] == "propose")
        titles = {e["idea"]: e["reply"]["title"] for e in entries}
        named = (number for number, title in titles.items() if title in prompt)
        return max(named, key=lambda number: len(titles[number])), stage


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self._answer(200, {"data": [{"id": "tiny"}]})

    def do_POST(self) -> None:
        if self.headers["Authorization"] != f"Bearer {KEY}":
            self._answer(401, {"error": {"message": "no key"}})
            return
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if "response_format" in body and not self.server.knows_schemas:
            self._answer(400, {"error": {"message": "response_format: unknown field"}})
            return
        if "response_format" not in body and self.server.knows_schemas:  # do you answer at all?
            self._answer(200, {"choices": [{"message": {"role": "assistant", "content": "yes"}}]})
            return
        call = self.server.call_of(body)
        self.server.asked[call] += 1
        if call in self.server.failing:
            self._answer(500, {"error": {"message": "the engine stumbles over this"}})
            return
        if call in self.server.refused:
            self._answer(400, {"error": {"message": self.server.refused[call]}})
            return
        reply = next(e["reply"] for e in self.server.playbook if (e["idea"], e["stage"]) == call)
        content = self.server.prose.get(call, json.dumps(reply))
        choice = {"message": {"role": "assistant", "content": content}}
        usage = {"prompt_tokens": 7, "completion_tokens": 5}
        self._answer(200, {"choices": [choice], "usage": usage})

    def _answer(self, status: int, value: dict[str, Any]) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@contextmanager
def serving() -> Iterator[Server]:
    with Server() as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield running
        running.shutdown()
        thread.join()


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as running:
        yield running


def launch(folder: Path, server: Server, name: str = "tiny", ideas: int = 4, more: str = "") -> Any:
    settings = PLAIN + "[client]\nretries = 2\nbackoff_s = 0.01\n" + more
    (folder / "hpcsci.toml").write_text(settings)
    options = ["--model", f"{server.url}#{name}", "--allow-unsandboxed", "--ideas", str(ideas)]
    command = ["launch", "--recipe", "./tiny", "--run-dir", "run", *options]
    return hpcsci(*command, cwd=folder, env={**os.environ, "HPCSCI_API_KEY": KEY})


Faulty = tuple[Server, list[dict[str, Any]]]


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Faulty:
    """What was asked for in a campaign of FAULTS, and its results, the baseline's first."""
    campaign = TinyCampaign.prepare(tmp_path_factory.mktemp("faulty"))
    with serving() as server:
        server.playbook = FAULTS
        server.refused = {
            (2, "code"): "the filter objects to this prompt",
            (6, "code"): "maximum context length is 8 tokens",
        }
        server.failing = {(4, "propose"), (5, "code")}
        server.prose = {(3, "code"): "Sure! Just sort them {first}."}
        one_by_one = "[loop]\nideas_in_flight = 1\n"
        done = launch(campaign.folder, server, ideas=6, more=one_by_one)
    assert done.returncode == 0, done.stderr
    return server, campaign.findings()


def test_campaign_through_an_endpoint(tmp_path: Path, server: Server) -> None:
    campaign = TinyCampaign.prepare(tmp_path)
    done = launch(tmp_path, server)
    assert done.returncode == 0, done.stderr
    statuses = [row["status"] for row in campaign.findings()]
    assert statuses == ["baseline", "scored", "rejected", "scored", "failed"]
    twice = {call: times for call, times in server.asked.items() if times != 1}
    assert twice == {(2, "propose"): 2}  # a look-alike goes back once
    status = json.loads(hpcsci("status", "run", "--json", cwd=tmp_path).stdout)
    calls = sum(server.asked.values())
    assert status["tokens"] == {"prompt": 7 * calls, "completion": 5 * calls}
    for path in campaign.paths.root.rglob("*"):
        assert not path.is_file() or KEY.encode() not in path.read_bytes()


def test_a_request_that_fails_is_not_held_against_other_ideas(faulty: Faulty) -> None:
    _, rows = faulty
    statuses = [row["status"] for row in rows]
    assert statuses == ["baseline", "scored", *["failed"] * 5]


@pytest.mark.parametrize(
    ("number", "reason"),
    [(2, "the filter objects to this prompt"), (6, "context has 8;")],
)
def test_refused_request_fails_its_idea(number: int, reason: str, faulty: Faulty) -> None:
    server, rows = faulty
    assert reason in rows[number]["reason"]
    assert server.asked[number, "code"] == 1  # what is refused is not sent again as it was


@pytest.mark.parametrize(("number", "stage"), [(4, "propose"), (5, "code")])
def test_request_that_always_fails_fails_its_idea(number: int, stage: str, faulty: Faulty) -> None:
    server, rows = faulty
    assert re.search(r"\b3 times\b.*\brequest\b", rows[number]["reason"])
    assert "the engine stumbles over this" in rows[number]["reason"]
    assert server.asked[number, stage] == 3


def test_model_that_ignores_the_schema_fails_its_idea(faulty: Faulty) -> None:
    server, rows = faulty
    assert re.search(r"\bcode/1\b.*\b2 repairs\b", rows[3]["reason"])
    assert server.asked[3, "code"] == 3


def test_endpoint_without_structured_outputs(tmp_path: Path, server: Server) -> None:
    campaign = TinyCampaign.prepare(tmp_path)
    server.knows_schemas = False
    done = launch(tmp_path, server)
    assert done.returncode == 0, done.stderr
    statuses = [row["status"] for row in campaign.findings()]
    assert statuses == ["baseline", "scored", "rejected", "scored", "failed"]


def test_wrong_model_name(tmp_path: Path, server: Server) -> None:
    TinyCampaign.prepare(tmp_path)
    done = launch(tmp_path, server, name="tinny")
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert re.search("'tinny'.*'tiny'", done.stderr)
    assert not (tmp_path / "run").exists()
