"""`hpcsci serve` with the real engine on this machine: two planes side by side, and their ends.

Each takes minutes to start, so all tests share one start of both, in the order in which they stand.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest
from tiny_models import make_random

from hpcscientist.campaign import stages
from hpcscientist.models.reply_limits import narrowed
from hpcscientist.models.serving import secrets
from hpcscientist.models.serving.order import Order, ServingPaths, port_block, ports_taken
from hpcscientist.models.serving.plane import read_endpoint

pytestmark = [pytest.mark.serving, pytest.mark.timeout(1800)]

READY_S, END_S = 1500, 300
NEEDED = ("torch", "vllm", "ray", "transformers")


@dataclass
class Served:
    """One `hpcsci serve` in a process of its own; it begins when it is let go."""

    folder: Path
    name: str
    scratch: Path
    process: subprocess.Popen[str] = field(init=False)

    def __post_init__(self) -> None:
        python = shlex.join([sys.executable, "-P", "-m", "hpcscientist.cli.main"])
        asked = f"serve --model vllm:tiny --site {self.name}.toml --dir {self.name}"
        site = self.folder / f"{self.name}.toml"
        engine = f"env HPCSCI_OF={self.name} {shlex.quote(sys.executable)}"  # of several words
        site.write_text(
            f"[serving]\npython = {json.dumps(engine)}\n"
            f'scratch = "{self.scratch}"\nobject_store_mb = 80\n'
        )
        settings = {"HPCSCI_SERVING_KV_CACHE_GB": "0.1", "HPCSCI_SERVING_EAGER": "true"}
        with (self.folder / f"{self.name}.err").open("w") as log:
            self.process = subprocess.Popen(
                ["/bin/sh", "-c", f"read go; exec {python} {asked}"],
                cwd=self.folder,
                env={k: v for k, v in os.environ.items() if not k.startswith("SLURM")} | settings,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )

    @property
    def paths(self) -> ServingPaths:
        return ServingPaths(self.folder / self.name)

    @property
    def order(self) -> Order:
        return Order.model_validate_json(self.paths.order.read_bytes())

    @property
    def url(self) -> str:
        endpoint = read_endpoint(self.paths)
        assert endpoint is not None
        return endpoint.url

    @property
    def replicas(self) -> list[str]:
        endpoint = read_endpoint(self.paths)
        assert endpoint is not None
        return [replica.url for replica in endpoint.replicas]

    def said(self) -> str:
        return (self.folder / f"{self.name}.err").read_text()

    def let_go(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.close()

    def await_answers(self) -> None:
        until = time.monotonic() + READY_S
        while read_endpoint(self.paths) is None:
            assert self.process.poll() is None, self.said()
            assert time.monotonic() < until, self.said()
            time.sleep(0.5)

    def ask(
        self,
        key: str | None,
        path: str = "/chat/completions",
        model: str = "tiny",
        **more: object,
    ) -> tuple[int, dict[str, Any]]:
        body = {"model": model, "messages": [{"role": "user", "content": "a"}], "max_tokens": 3}
        body |= more
        headers = {"Content-Type": "application/json"}
        if key is not None:
            headers["Authorization"] = f"Bearer {key}"
        data = json.dumps(body).encode() if path == "/chat/completions" else None
        request = urllib.request.Request(f"{self.url}{path}", data=data, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=300) as reply:
                return reply.status, json.load(reply)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    def end(self) -> int:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(END_S)

    def kill(self) -> None:
        """Leave nothing of it, whatever a test found."""
        family = [self.process.pid, *self.family()]
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.end()
        for pid in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                psutil.Process(pid).kill()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()

    def family(self) -> list[int]:
        try:
            below = psutil.Process(self.process.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []
        return [process.pid for process in below]


@dataclass(frozen=True)
class Two:
    """Two planes; a program of somebody else's has a port of the first block of `one`."""

    one: Served
    other: Served
    held: int


@pytest.fixture(scope="module")
def planes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Two]:
    if not all(importlib.util.find_spec(name) for name in NEEDED):
        pytest.skip("NOT TESTED: torch, vLLM and Ray are not installed; tests/serving_environment")
    folder = tmp_path_factory.mktemp("serve")
    make_random(folder / "tiny")
    # Short: the names of Ray's sockets have an upper bound.
    scratch = [Path(tempfile.mkdtemp(prefix="s", dir="/tmp")) for _ in range(2)]
    one, other = (Served(folder, n, s) for n, s in zip(("one", "other"), scratch, strict=True))
    held = port_block(one.process.pid).http
    try:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", held))
            taken.listen()
            one.let_go()
            other.let_go()
            one.await_answers()
            other.await_answers()
            yield Two(one, other, held)
    finally:
        for served in (one, other):
            served.kill()
        for path in scratch:
            shutil.rmtree(path, ignore_errors=True)


def test_a_port_that_is_taken_leads_to_the_next_block(planes: Two) -> None:
    first, second = (port_block(planes.one.process.pid, attempt) for attempt in (0, 1))
    assert planes.held == first.http
    assert planes.one.order.ports == second
    assert planes.one.url == f"http://127.0.0.1:{second.http}/v1"


def test_two_at_once_share_no_port(planes: Two) -> None:
    one, other = planes.one.order.ports, planes.other.order.ports
    assert not set(one.all()) & set(other.all())


def test_who_shows_no_key_is_refused(planes: Two) -> None:
    theirs = secrets.read(planes.other.paths.key)
    for wrong in (None, "", "wrong", theirs):
        code, said = planes.one.ask(wrong)
        assert code == 401
        assert said["error"]["message"] == "wrong or missing API key"
        assert planes.one.ask(wrong, "/models")[0] == 401


PATHS = ("/health", "/ping", "/version", "/docs", "/openapi.json", "/metrics", "/load", "/", "/v1")


@pytest.mark.parametrize("path", PATHS)
def test_nothing_of_the_engine_s_server_answers_without_the_key(planes: Two, path: str) -> None:
    (replica,) = planes.one.replicas
    for url in (planes.one.url, replica):
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(url.removesuffix("/v1") + path, timeout=60)
        caught.value.close()
        assert caught.value.code == 401


def test_a_model_that_is_not_there_is_said_to_be_missing(planes: Two) -> None:
    key = secrets.read(planes.one.paths.key)
    code, said = planes.one.ask(key, model="other")
    assert code == 404
    assert "tiny" in said["error"]["message"]


def test_replies_are_handed_on_piece_by_piece_where_that_is_asked_for(planes: Two) -> None:
    body = {"model": "tiny", "messages": [{"role": "user", "content": "a"}], "max_tokens": 5}
    body |= {"stream": True, "ignore_eos": True}
    request = urllib.request.Request(
        f"{planes.one.url}/chat/completions",
        data=json.dumps(body).encode(),
        headers={
            "Authorization": f"Bearer {secrets.read(planes.one.paths.key)}",
            "Content-Type": "application/json",
        },
    )
    with urllib.request.urlopen(request, timeout=300) as reply:
        events = [line for line in reply if line.startswith(b"data: ")]
    assert events[-1] == b"data: [DONE]\n"
    assert len(events) > 5


def test_json_has_no_blanks_between_its_parts(planes: Two) -> None:
    """Random weights would write them for ever, were they allowed."""
    answers = {"type": "string", "enum": ["yes", "no"]}
    schema = {
        "type": "object",
        "properties": {"a": answers, "b": answers, "c": answers},
        "required": ["a", "b", "c"],
        "additionalProperties": False,
    }
    code, said = planes.one.ask(
        secrets.read(planes.one.paths.key),
        max_tokens=100,
        response_format={
            "type": "json_schema",
            "json_schema": {"name": "answers", "schema": schema, "strict": True},
        },
    )
    assert code == 200
    (choice,) = said["choices"]
    assert choice["finish_reason"] == "stop"
    text = choice["message"]["content"]
    assert json.loads(text).keys() == {"a", "b", "c"}
    assert not any(blank in text for blank in ("\n", "\t", "  "))


@pytest.mark.skipif(not importlib.util.find_spec("vllm"), reason="NOT TESTED: there is no vLLM")
def test_the_grammar_s_backend_reads_every_schema_of_a_reply() -> None:
    """It is named, so no other takes its place."""
    from vllm.v1.structured_output import backend_xgrammar  # noqa: PLC0415

    refused = [
        kind
        for kind, reply in stages.replies().items()
        if backend_xgrammar.has_xgrammar_unsupported_json_features(
            narrowed(reply.model_json_schema(), {})
        )
    ]
    assert refused == []


def test_with_the_key_it_answers(planes: Two) -> None:
    key = secrets.read(planes.one.paths.key)
    code, said = planes.one.ask(key)
    assert code == 200
    assert said["usage"]["completion_tokens"] == 3
    code, said = planes.one.ask(key, "/models")
    assert [model["id"] for model in said["data"]] == ["tiny"]


def test_the_lines_it_printed_work(planes: Two) -> None:
    stdout = planes.one.process.stdout
    assert stdout is not None
    printed = [stdout.readline() for _ in range(6)]
    key = secrets.read(planes.one.paths.key)
    assert key not in "".join(printed) + planes.one.said()
    assert printed[0] == "models:   tiny\n"
    curl = next(line for line in printed if line.startswith("ask it:")).partition(":")[2]
    if shutil.which("curl") is None:
        pytest.skip("NOT TESTED: there is no curl")
    done = subprocess.run(["bash", "-c", curl], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["model"] == "tiny"


def test_one_folder_is_served_from_once(planes: Two) -> None:
    again = [sys.executable, "-P", "-m", "hpcscientist.cli.main", "serve", "--model", "vllm:tiny"]
    before = planes.one.paths.request.read_bytes()
    done = subprocess.run(
        [*again, "--site", "one.toml", "--dir", "one"],
        cwd=planes.one.folder,
        env=os.environ | {"HPCSCI_SERVING_KV_CACHE_GB": "0.1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "already" in done.stderr and "--dir" in done.stderr
    assert planes.one.paths.request.read_bytes() == before


def test_one_ends_whole_and_the_other_goes_on(planes: Two) -> None:
    check_end(planes.other)
    assert planes.one.ask(secrets.read(planes.one.paths.key))[0] == 200


def test_the_last_one_ends_whole_though_it_is_killed(planes: Two) -> None:
    check_end(planes.one, killed=True)


def check_end(served: Served, *, killed: bool = False) -> None:
    """End a plane by SIGTERM, or kill who ordered it.

    No process, port, temporary folder or shared memory is left.
    """
    order, family = served.order, served.family()
    memory = shared_memory(family)
    assert memory
    names = [psutil.Process(pid).name() for pid in family]
    assert any("raylet" in name for name in names), names
    assert list(served.scratch.iterdir())
    if killed:
        served.process.kill()
        served.process.wait()
        until = time.monotonic() + END_S
        while any(map(psutil.pid_exists, family)) and time.monotonic() < until:
            time.sleep(0.2)
    else:
        assert served.end() == 0, served.said()
        assert "stopped by SIGTERM" in served.said()
    assert [pid for pid in family if psutil.pid_exists(pid)] == []
    assert ports_taken(order.ports.all(), {"127.0.0.1", order.head}) == []
    assert list(served.scratch.iterdir()) == []
    assert [path for path in memory if path.exists()] == []
    assert read_endpoint(served.paths) is None


def shared_memory(pids: list[int]) -> set[Path]:
    """The files of shared memory that processes use."""
    maps = [psutil.Process(pid).memory_maps(grouped=True) for pid in pids]
    return {Path(m.path) for listed in maps for m in listed if m.path.startswith("/dev/shm/")}
