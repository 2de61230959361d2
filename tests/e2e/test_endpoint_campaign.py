"""A whole campaign against an OpenAI-compatible HTTP endpoint, and what one may refuse."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from campaigns import PLAIN, TinyCampaign, hpcsci
from tiny_recipe import PLAYBOOK

pytestmark = pytest.mark.e2e

KEY = "sk-not-for-candidates"
STAGES = {"Proposal": "propose", "CodeReply": "code", "FixReply": "debug"}
TITLES = {e["idea"]: e["reply"]["title"] for e in PLAYBOOK if e["stage"] == "propose"}


class Server(ThreadingHTTPServer):
    """Serves the tiny playbook's replies by what the prompt asks for."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: Counter[tuple[int, str]] = Counter()
        self.refused: dict[tuple[int, str], str] = {}
        self.failing: set[tuple[int, str]] = set()
        self.prose: dict[tuple[int, str], str] = {}
        self.knows_schemas = True

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


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
        call = _call(body)
        self.server.asked[call] += 1
        if call in self.server.failing:
            self._answer(500, {"error": {"message": "the engine stumbles over this"}})
            return
        if call in self.server.refused:
            self._answer(400, {"error": {"message": self.server.refused[call]}})
            return
        reply = next(e["reply"] for e in PLAYBOOK if (e["idea"], e["stage"]) == call)
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


def _call(body: dict[str, Any]) -> tuple[int, str]:
    prompt = "".join(message["content"] for message in body["messages"])
    # The schema stands in the prompt too, for endpoints that know none.
    (stage,) = (stage for title, stage in STAGES.items() if f'"title": "{title}"' in prompt)
    if stage == "propose":
        return next(n for n in TITLES if f"number {n} of this campaign" in prompt), stage
    return max((n for n, title in TITLES.items() if title in prompt), key=_longest_title), stage


def _longest_title(number: int) -> int:
    return len(TITLES[number])


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def launch(
    folder: Path, server: Server, monkeypatch: pytest.MonkeyPatch, name: str = "tiny"
) -> Any:
    monkeypatch.setenv("HPCSCI_API_KEY", KEY)
    (folder / "hpcsci.toml").write_text(PLAIN + "[client]\nretries = 2\nbackoff_s = 0.01\n")
    options = ["--model", f"{server.url}#{name}", "--allow-unsandboxed", "--ideas", "4"]
    return hpcsci("launch", "--recipe", "./tiny", "--run-dir", "run", *options, cwd=folder)


def test_campaign_through_an_endpoint(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign = TinyCampaign.prepare(tmp_path)
    done = launch(tmp_path, server, monkeypatch)
    assert done.returncode == 0, done.stderr
    statuses = [row["status"] for row in campaign.findings()]
    assert statuses == ["baseline", "scored", "rejected", "scored", "failed"]
    assert set(server.asked.values()) == {1}
    status = json.loads(hpcsci("status", "run", "--json", cwd=tmp_path).stdout)
    calls = sum(server.asked.values())
    assert status["tokens"] == {"prompt": 7 * calls, "completion": 5 * calls}
    for path in campaign.paths.root.rglob("*"):
        assert not path.is_file() or KEY.encode() not in path.read_bytes()


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("the filter objects to this prompt", "the filter objects to this prompt"),
        ("maximum context length is 8 tokens", "the model's context has 8"),
    ],
)
def test_refused_request_fails_its_idea_and_not_the_campaign(
    said: str, reason: str, tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign = TinyCampaign.prepare(tmp_path)
    server.refused = {(3, "code"): said}
    done = launch(tmp_path, server, monkeypatch)
    assert done.returncode == 0, done.stderr
    row = campaign.findings()[3]
    assert row["status"] == "failed"
    assert reason in row["reason"]
    assert server.asked[3, "code"] == 1  # what is refused is not sent again as it was
    assert campaign.findings()[1]["status"] == "scored"


@pytest.mark.parametrize("stage", ["propose", "code"])
def test_request_that_always_fails_fails_its_idea_and_not_the_campaign(
    stage: str, tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign = TinyCampaign.prepare(tmp_path)
    server.failing = {(3, stage)}
    done = launch(tmp_path, server, monkeypatch)
    assert done.returncode == 0, done.stderr
    row = campaign.findings()[3]
    assert row["status"] == "failed"
    assert "3 times with this request" in row["reason"]
    assert "the engine stumbles over this" in row["reason"]
    assert server.asked[3, stage] == 3
    assert campaign.findings()[1]["status"] == "scored"


def test_model_that_ignores_the_schema_fails_its_idea_and_not_the_campaign(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign = TinyCampaign.prepare(tmp_path)
    server.prose = {(3, "code"): "Sure! Just sort them {first}."}
    done = launch(tmp_path, server, monkeypatch)
    assert done.returncode == 0, done.stderr
    row = campaign.findings()[3]
    assert row["status"] == "failed"
    assert "no usable reply for code/1 after 2 repairs" in row["reason"]
    assert server.asked[3, "code"] == 3
    assert campaign.findings()[1]["status"] == "scored"


def test_endpoint_without_structured_outputs(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign = TinyCampaign.prepare(tmp_path)
    server.knows_schemas = False
    done = launch(tmp_path, server, monkeypatch)
    assert done.returncode == 0, done.stderr
    statuses = [row["status"] for row in campaign.findings()]
    assert statuses == ["baseline", "scored", "rejected", "scored", "failed"]


def test_wrong_model_name(tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    TinyCampaign.prepare(tmp_path)
    done = launch(tmp_path, server, monkeypatch, name="tinny")
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert "did you mean 'tiny'" in done.stderr
    assert not (tmp_path / "run").exists()
