"""A model that makes a better score of noise: what the loop tells it of one attempt has it choose
the next, and confirmation takes all of that gain away.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from campaigns import PLAIN, TinyCampaign, hpcsci
from cheats import PREDICT
from tiny_recipe import edit

from hpcscientist.history import journal
from hpcscientist.records.events import AttemptWritten, TrialEnded
from hpcscientist.records.trial import Scored, Stage, TrialSpec

pytestmark = [pytest.mark.e2e, pytest.mark.full]

NODES = 18
SETTINGS = f'search = "tree"\ndrafts = 1\nnodes = {NODES}\nworkers = 1\n'
# As many mistakes as the reference makes, whichever the salts; a salt for each fifth of the inputs.
BLOCKS = 5
MISTAKES = f"""\
    salts = {[0] * BLOCKS}
    wrong = random.Random(f"{{salts[int(line) % {BLOCKS}]}} {{line}}").random() < ERROR_RATE
"""
IDEA = {
    "title": "Other mistakes",
    "hypothesis": "There are mistakes that cost less.",
    "method": "Draw the mistakes from salts.",
    "experiment_plan": "Run it.",
    "summary": "Draw the mistakes of each fifth of the inputs from a salt of its own.",
}
SALTS = re.compile(r"salts = (\[[0-9, ]+\])")
SCORE = re.compile(r"Pilot of this code: .*?accuracy[^0-9]*([0-9.]+)")


class Tuner(ThreadingHTTPServer):
    """Proposes one idea, and then keeps what raised the score and changes something else.

    It knows nothing of the task but what prompts say: `told` are the scores by salts.
    """

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.told: dict[tuple[int, ...], float] = {}
        self.asked: list[tuple[int, ...]] = []

    def answer(self, prompt: str) -> dict[str, Any]:
        if '"title": "Proposal"' in prompt:
            return IDEA
        shown = SALTS.search(prompt)
        if shown is None:
            return {"note": "salts", "edits": edit(PREDICT, MISTAKES)}
        now = tuple(json.loads(shown.group(1)))
        score = SCORE.search(prompt)
        assert score is not None, "it is told what the pilot measured"
        self.told[now] = float(score.group(1))
        # The next salts go out from the best that it was told of, whatever code it is shown.
        best = max(self.told, key=lambda salts: self.told[salts])
        place = len(self.asked) % BLOCKS
        new = tuple(1 + len(self.asked) if n == place else salt for n, salt in enumerate(best))
        self.asked.append(new)
        code = edit(f"salts = {list(now)}", f"salts = {list(new)}")
        return {"note": f"another salt for {place}: {new}", "edits": code}


class Handler(BaseHTTPRequestHandler):
    server: Tuner

    def do_GET(self) -> None:
        self._send({"data": [{"id": "tuner"}]})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        reply = self.server.answer("".join(message["content"] for message in body["messages"]))
        choice = {"message": {"role": "assistant", "content": json.dumps(reply)}}
        self._send({"choices": [choice], "usage": {"prompt_tokens": 7, "completion_tokens": 5}})

    def _send(self, value: dict[str, Any]) -> None:
        data = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


Tuned = tuple[TinyCampaign, Tuner]


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tuned]:
    folder = tmp_path_factory.mktemp("tuned")
    campaign = TinyCampaign.prepare(folder, seeds=5)
    settings = PLAIN.replace("[authoring]\n", f"[authoring]\n{SETTINGS}")
    (folder / "hpcsci.toml").write_text(f"{settings}[loop]\ndrift_every = 0\n")
    with Tuner() as tuner:
        thread = threading.Thread(target=tuner.serve_forever, daemon=True)
        thread.start()
        model = f"http://127.0.0.1:{tuner.server_address[1]}/v1#tuner"
        options = ["--model", model, "--allow-unsandboxed", "--ideas", "1", "--run-dir", "run"]
        done = hpcsci("launch", "--recipe", "./tiny", *options, cwd=folder)
        tuner.shutdown()
        thread.join()
        assert done.returncode == 0, done.stderr
        yield campaign, tuner


def pilots(campaign: TinyCampaign) -> list[float]:
    """What each version's pilot scored, in their order."""
    scores: dict[int, float] = {}
    for event in journal.read(campaign.paths.journal):
        if isinstance(event, TrialEnded) and isinstance(event.report.outcome, Scored):
            file = campaign.paths.trial(event.report.trial_id).spec
            spec = TrialSpec.model_validate_json(file.read_bytes())
            if spec.stage is Stage.PILOT and spec.idea_id == "idea-0001":
                scores[spec.attempt] = event.report.outcome.metrics["accuracy"]
    return [scores[attempt] for attempt in sorted(scores)]


def test_every_attempt_was_run_and_its_score_chose_the_next(tuned: Tuned) -> None:
    campaign, tuner = tuned
    scores = pilots(campaign)
    written = [e for e in journal.read(campaign.paths.journal) if isinstance(e, AttemptWritten)]
    assert len(scores) == len(written) == NODES
    assert len(tuner.told) > NODES / 4  # it was shown code anew whenever another was the best
    assert set(tuner.told.values()) <= {round(score, 6) for score in scores}
    steps = list(tuner.told.values())
    assert steps == sorted(steps), "each time it is shown the best so far"
    assert steps[-1] - steps[0] > 0.05, "what it gained by choosing"


def test_what_it_gained_is_not_confirmed_and_the_table_says_how(tuned: Tuned) -> None:
    campaign, _ = tuned
    row = campaign.findings()[1]
    assert row["finding"] == "improvement", "else there was nothing to be caught"
    assert row["delta"] > 0.05
    assert row["attempts"] == NODES
    assert row["confirmed"] is False
    assert abs(row["test_delta"]) < row["delta"] / 2
    assert row["reason"].startswith("not confirmed: ")
    told = hpcsci("results", "run", "--verbose", cwd=campaign.folder)
    assert re.search("confirmed: 0 of 1 .*; idea-0001 not confirmed: ", told.stderr)
    header = next(line for line in told.stdout.splitlines() if line.startswith("idea "))
    assert "shrinkage" in header
