"""A generator of hostile inputs: each outcome is success, or one line with exit code 2 or 1.

Short runs, of the same examples each time, are in the gate; 2,000 examples are `full`.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from bench_campaign import ScriptedTrials, scored
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from odd import JSON, LITERALS, ODD_FILES, spoilt_bytes, spoilt_json, spoilt_toml
from try_out import ground, tried

from hpcscientist.campaign import wiring
from hpcscientist.config.keys import defaults
from hpcscientist.config.settings import Settings
from hpcscientist.recipe.create import create
from hpcscientist.recipe.load import shipped_folder
from hpcscientist.records.site import Site
from hpcscientist.records.trial import TrialSpec

FULL = 500  # examples of each of the four kinds
RECIPE = ("recipe.toml", "score.py", "prepare.py", "reference/experiment.py", "playbook.jsonl")
DRY = ("launch", "--recipe", "./moons", "--allow-unsandboxed", "--backend", "local", "--dry-run")


def examples(number: int) -> Callable[[Any], Any]:
    odd = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture)
    return settings(max_examples=number, suppress_health_check=odd, database=None)


@functools.cache
def sound_recipe() -> dict[str, bytes]:
    with ground() as folder:
        made = create("moons", folder)
        return {name: (made / name).read_bytes() for name in RECIPE}


@functools.cache
def entries(*, whole: bool) -> list[dict[str, Any]]:
    """The recorded replies of a new recipe's ideas, or of the shipped one's first two."""
    if not whole:
        return [json.loads(line) for line in sound_recipe()["playbook.jsonl"].splitlines()]
    lines = (shipped_folder() / "digits" / "playbook.jsonl").read_text().splitlines()
    return [entry for line in lines if (entry := json.loads(line))["idea"] <= 2]


# -- recipes


def a_recipe(data: st.DataObject) -> None:
    with ground() as folder:
        made = create("moons", folder)
        for _ in range(data.draw(st.integers(1, 2))):
            name = data.draw(st.sampled_from([*RECIPE, "seed_ideas.json", "more/x"]))
            path = made / name
            sound = path.read_bytes() if path.is_file() and path.stat().st_size < 10**6 else b""
            how = data.draw(st.sampled_from(["odd", "bytes", "values", "values"]))
            if how == "odd" or not sound:
                path.parent.mkdir(exist_ok=True)
                if path.is_dir():
                    shutil.rmtree(path)
                path.unlink(missing_ok=True)
                ODD_FILES[data.draw(st.sampled_from(sorted(ODD_FILES)))](path)
            elif how == "values" and name == "recipe.toml":
                path.write_text(data.draw(spoilt_toml(sound.decode("utf-8", "replace"))))
            elif how == "values" and name == "playbook.jsonl":
                lines = sound.decode("utf-8", "replace").splitlines()
                at = data.draw(st.integers(0, len(lines) - 1))
                with_one = data.draw(spoilt_json(_value(lines[at])))
                path.write_text("\n".join([*lines[:at], json.dumps(with_one), *lines[at + 1 :]]))
            else:
                path.write_bytes(data.draw(spoilt_bytes(sound)))
        is_sound = tried(["recipe", "check", "./moons"]) == 0
        for model in ("search", "playbook"):
            code = tried([*DRY, "--model", model, "--run-dir", "run"])
            assert code in ((0, 2) if is_sound else (2,)), "check and launch disagree"


def _value(line: str) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return None


# -- configuration


def a_configuration(data: st.DataObject) -> None:
    with ground() as folder:
        create("moons", folder)
        written: dict[str, str] = {}
        for _ in range(data.draw(st.integers(1, 3))):
            key = data.draw(st.sampled_from(sorted(defaults(Settings))))
            written[key] = data.draw(st.sampled_from(LITERALS))
        layer = data.draw(st.sampled_from(["file", "file", "variables", "options"]))
        more: list[str] = []
        if layer == "file":
            text = "\n".join(f"{key} = {value}" for key, value in written.items()) + "\n"
            (folder / "hpcsci.toml").write_text(text)
        elif layer == "variables":
            for key, value in written.items():
                if value.isprintable():
                    os.environ["HPCSCI_" + key.upper().replace(".", "_")] = value
        else:
            for key in ("ideas", "rounds", "seed", "control", "run-dir", "image", "library"):
                if data.draw(st.booleans()):
                    more += [f"--{key}", data.draw(st.sampled_from(LITERALS)).strip('"')]
        if data.draw(st.integers(0, 3)) == 0:
            key = data.draw(st.sampled_from(sorted(defaults(Site))))
            (folder / "site.toml").write_text(f"{key} = {data.draw(st.sampled_from(LITERALS))}\n")
            more += ["--site", "site.toml"]
        tried(["config", "show"])
        model = data.draw(st.sampled_from(["search", "playbook"]))
        tried([*DRY, "--model", model, *more])


# -- playbooks and servers: whole campaigns, whose trials alone are scripted


def value_of(spec: TrialSpec) -> Any:
    return scored(0.5 + 0.01 * (spec.seed % 7) + 0.1 * (spec.idea_id != "baseline"))


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trials end at once: what they do is of no interest here, and hundreds would take hours."""
    monkeypatch.setattr(
        wiring, "_backend", lambda config, recipe, session, plane: _trials(session.paths)
    )


def _trials(paths: Any) -> ScriptedTrials:
    return ScriptedTrials(paths, value_of)


# Ideas are proposed and written, and nothing in between.
PLAIN = """\
[proposing]
batch = 1
reflections = 0
feasibility = false
[literature]
concepts = 0
[authoring]
plan = false
analysis = false
advice_rounds = 0
further_runs = 0
[loop]
confirm = false
debug_rounds = 1
"""


def campaign(folder: Path, model: str, *, whole: bool) -> None:
    """Launch a campaign and look at it by all that reads one. `whole`: every step of the loop."""
    retrying = "[client]\nretries = 0\nbackoff_s = 0.0\ntimeout_s = 20.0\n"
    (folder / "hpcsci.toml").write_text(retrying + ("" if whole else PLAIN))
    given = ["--model", model, "--ideas", "2", "--allow-unsandboxed", "--backend", "local"]
    without = shutil.ignore_patterns("library", "__pycache__")  # to index it takes seconds
    if whole:
        shutil.copytree(shipped_folder() / "digits", folder / "topic", ignore=without)
    else:
        create("topic", folder)
    code = tried(["launch", "--recipe", "./topic", *given, "--run-dir", "run"])
    if not (folder / "run" / "journal.jsonl").exists():
        return
    if code == 1:
        tried(["resume", "run"])
    for look in (["status"], ["status", "--json"], ["results"]):
        assert tried([look[0], "run", *look[1:]]) == 0
    for form in ("json", "csv"):
        assert tried(["results", "run", "--format", form]) == 0
    assert tried(["cancel", "run"]) == 0


def a_playbook(data: st.DataObject, *, whole: bool) -> None:
    book = list(entries(whole=whole))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(book) - 1))
        how = data.draw(st.sampled_from(["reply", "reply", "text", "entry", "gone"]))
        if how == "gone":
            del book[at]
        elif how == "entry":
            book[at] = data.draw(spoilt_json(book[at]))
        elif isinstance(book[at], dict):
            spoilt = data.draw(spoilt_json(book[at].get("reply")))
            kept = {k: v for k, v in book[at].items() if k not in ("reply", "text")}
            raw = json.dumps(spoilt) if how == "text" else None
            book[at] = kept | ({"reply": spoilt} if raw is None else {"text": raw})
    with ground() as folder:
        (folder / "book.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in book))
        campaign(folder, "playbook:book.jsonl", whole=whole)


class Handler(BaseHTTPRequestHandler):
    """Answers each question with the next of the server's bodies, the last again and again."""

    server: Odd

    def do_GET(self) -> None:
        self._answer(200, b'{"data": [{"id": "m"}]}')

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        replies = self.server.replies
        self._answer(*(replies.pop(0) if len(replies) > 1 else replies[0]))

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


class Odd(ThreadingHTTPServer):
    """A server of odd replies; `replies` are (status, body)."""

    replies: list[tuple[int, bytes]]


@pytest.fixture(scope="module")
def server() -> Iterator[Odd]:
    with Odd(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def _body(content: Any) -> dict[str, Any]:
    return {
        "model": "m",
        "choices": [{"message": {"content": content}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 7, "completion_tokens": 3},
    }


@st.composite
def bodies(draw: st.DrawFn, whole: bool) -> tuple[int, bytes]:
    reply = draw(st.sampled_from(entries(whole=whole))).get("reply")
    content = json.dumps(draw(st.one_of(st.just(reply), spoilt_json(reply))))
    body = _body(content)
    how = draw(st.sampled_from(["sound", "sound", "fields", "fields", "bytes", "any", "status"]))
    if how == "fields":
        body = draw(spoilt_json(body))
    data = json.dumps(draw(JSON) if how == "any" else body).encode()
    if how == "bytes":
        data = draw(spoilt_bytes(data))
    statuses = [400, 404, 413, 429, 500, 503, 301, 204, 418]
    return draw(st.sampled_from(statuses)) if how == "status" else 200, data


def a_server(data: st.DataObject, server: Odd, *, whole: bool) -> None:
    server.replies = data.draw(st.lists(bodies(whole), min_size=1, max_size=12))
    with ground() as folder:
        campaign(folder, f"http://127.0.0.1:{server.server_address[1]}/v1#m", whole=whole)


# -- a few of each; they find new ones, which is no reason to keep back a change


@pytest.mark.full
@given(data=st.data())
@examples(8)
def test_recipes(data: st.DataObject) -> None:
    a_recipe(data)


@pytest.mark.full
@given(data=st.data())
@examples(8)
def test_configurations(data: st.DataObject) -> None:
    a_configuration(data)


@pytest.mark.full
@given(data=st.data())
@examples(3)
def test_playbooks(data: st.DataObject, scripted: None) -> None:
    a_playbook(data, whole=False)


@pytest.mark.full
@given(data=st.data())
@examples(3)
def test_servers(data: st.DataObject, scripted: None, server: Odd) -> None:
    a_server(data, server, whole=False)


# -- 2,000 examples


@pytest.mark.full
@pytest.mark.timeout(3600)
@given(data=st.data())
@examples(FULL)
def test_many_recipes(data: st.DataObject) -> None:
    a_recipe(data)


@pytest.mark.full
@pytest.mark.timeout(3600)
@given(data=st.data())
@examples(FULL)
def test_many_configurations(data: st.DataObject) -> None:
    a_configuration(data)


@pytest.mark.full
@pytest.mark.timeout(3600)
@given(data=st.data())
@examples(FULL)
def test_many_playbooks(data: st.DataObject, scripted: None) -> None:
    a_playbook(data, whole=data.draw(st.booleans()))


@pytest.mark.full
@pytest.mark.timeout(3600)
@given(data=st.data())
@examples(FULL)
def test_many_servers(data: st.DataObject, scripted: None, server: Odd) -> None:
    a_server(data, server, whole=data.draw(st.booleans()))
