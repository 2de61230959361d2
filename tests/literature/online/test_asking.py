"""Politeness and patience, against a server that is overloaded, broken or hostile."""

from __future__ import annotations

import gzip
import json
import logging
import re
import socket
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from imitated_services import (
    Act,
    Imitation,
    answer,
    endless,
    hang,
    openalex,
    openalex_work,
    raw,
    s2,
    s2_paper,
    trickle,
)
from online_kit import Bench

from hpcscientist.errors import ConfigError, OutOfReach
from hpcscientist.literature.online import asking
from hpcscientist.literature.online.cache import Cache, normalised
from hpcscientist.literature.online.services import QueryRefused
from hpcscientist.literature.online.turns import HOLD_S

GOOD = answer(s2(s2_paper()))


def test_the_same_query_is_asked_once_ever(server: Imitation, tmp_path: Path) -> None:
    server.script = [GOOD]
    first = Bench(tmp_path, server.url).asker("semantic_scholar").ask("Graph  Networks")
    again = Bench(tmp_path, server.url).asker("semantic_scholar").ask(" graph networks\n")
    assert again == first
    assert len(server.asked) == 1


def test_a_replay_needs_no_network(server: Imitation, tmp_path: Path) -> None:
    server.script = [GOOD]
    first = Bench(tmp_path, server.url).asker("semantic_scholar").ask("words")
    nowhere = Bench(tmp_path, "http://127.0.0.1:1")
    assert nowhere.asker("semantic_scholar").ask("words") == first


def test_many_threads_ask_once(server: Imitation, tmp_path: Path) -> None:
    server.script = [GOOD]
    asker = Bench(tmp_path, server.url).asker("semantic_scholar")
    _together(lambda: asker.ask("words"), 8)
    assert len(server.asked) == 1


@pytest.mark.parametrize("shared", [True, False])
def test_requests_are_as_far_apart_as_a_service_wants(
    server: Imitation, tmp_path: Path, shared: bool
) -> None:
    bench = Bench(tmp_path, server.url)
    starts: list[float] = []
    server.script = [_noting(starts, bench)]
    asker = bench.asker("arxiv", shared)
    queries = iter(range(6))
    _together(lambda: asker.ask(f"words {next(queries)}"), 6)
    assert server.most_active == 1
    assert [round(b - a, 6) for a, b in pairwise(starts)] == [3.0] * 5


def test_they_are_so_across_processes_too(server: Imitation, tmp_path: Path) -> None:
    """A process that starts later, on the same clock, waits for what another one asked."""
    bench = Bench(tmp_path, server.url)
    with bench.turns("arxiv").take() as turn:
        turn.begin()
    later = Bench(tmp_path, server.url)
    later.clock.now = bench.clock.now + 1.0
    with later.turns("arxiv").take() as turn:
        turn.begin()
    assert later.clock.slept == [pytest.approx(2.0)]


def test_two_processes_never_hold_the_turn_together(tmp_path: Path) -> None:
    """Each adds to a number in two steps, which would lose some if they met."""
    number = tmp_path / "number"
    number.write_text("0")
    command = [sys.executable, "-c", COUNT_UP, str(tmp_path)]
    for worker in [subprocess.Popen(command) for _ in range(2)]:
        assert worker.wait() == 0
    assert number.read_text() == "40"


COUNT_UP = """
import os, pathlib, sys
from hpcscientist.literature.online.turns import Turns

folder = pathlib.Path(sys.argv[1])
turns = Turns("x", 0.0, folder, sleep=lambda _: os.sched_yield())
for _ in range(20):
    with turns.take():
        value = int((folder / "number").read_text())
        (folder / "number").write_text(str(value + 1))
"""


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b"\xff", b'{"boot": "x", "last": 1e99}'])
def test_a_damaged_file_of_turns_is_begun_anew(tmp_path: Path, content: bytes) -> None:
    bench = Bench(tmp_path, "http://127.0.0.1:1")
    with bench.turns("arxiv").take() as turn:
        turn.set_aside(1e12)
    (path,) = (tmp_path / "turns").iterdir()
    with bench.turns("arxiv").take() as turn:
        assert turn.left_alone_s == pytest.approx(86400)  # a day at most, whatever it asked
    path.write_bytes(content)
    with bench.turns("arxiv").take() as turn:
        assert turn.left_alone_s == 0
        turn.begin()
    assert bench.clock.slept == []


def test_a_retry_after_is_heeded(server: Imitation, tmp_path: Path) -> None:
    server.script = [answer({"message": "Too Many Requests"}, 429, {"Retry-After": "7"}), GOOD]
    bench = Bench(tmp_path, server.url)
    assert bench.asker("semantic_scholar").ask("words").papers
    assert bench.clock.slept == [7.0]


def test_one_longer_than_our_patience_is_heeded_by_not_asking(
    server: Imitation, tmp_path: Path
) -> None:
    server.script = [answer({}, 429, {"Retry-After": "3600"}), GOOD]
    bench = Bench(tmp_path, server.url)
    asker = bench.asker("semantic_scholar")
    for words in ("one", "two"):
        with pytest.raises(OutOfReach):
            asker.ask(words)
    assert len(server.asked) == 1
    assert bench.clock.slept == []
    # Another process knows, too.
    with pytest.raises(OutOfReach, match=r" alone .* 3600 s$"):
        bench.asker("semantic_scholar").ask("three")
    bench.clock.now += 3601
    assert asker.ask("one").papers


def test_a_date_does_too(server: Imitation, tmp_path: Path) -> None:
    later = format_datetime(datetime.now(UTC) + timedelta(hours=2), usegmt=True)
    server.script = [answer({}, 503, {"Retry-After": later})]
    bench = Bench(tmp_path, server.url)
    with pytest.raises(OutOfReach, match="HTTP 503"):
        bench.asker("semantic_scholar").ask("words")
    with bench.turns("semantic_scholar").take() as turn:
        assert 7000 < turn.left_alone_s <= 7200


def test_pauses_grow_and_end(server: Imitation, tmp_path: Path) -> None:
    server.script = [answer(b"oops", 500)]
    bench = Bench(tmp_path, server.url)
    with pytest.raises(OutOfReach, match="HTTP 500"):
        bench.asker("semantic_scholar").ask("words")
    assert bench.clock.slept == [2.0, 4.0, 8.0]
    assert len(server.asked) == 4


@given(jitter=st.floats(0, 1, exclude_max=True), tries=st.integers(1, 3))
def test_jitter_is_bounded(jitter: float, tries: int, tmp_path_factory: Any) -> None:
    bench = Bench(tmp_path_factory.getbasetemp(), "http://127.0.0.1:1")
    whole = bench.asker("arxiv", jitter=1.0)._pause(tries)
    assert whole / 2 <= bench.asker("arxiv", jitter=jitter)._pause(tries) <= whole


def test_a_service_that_failed_is_left_alone_longer_each_time(
    server: Imitation, tmp_path: Path
) -> None:
    server.script = [answer({}, 500, {"Retry-After": "100"})] * 7 + [GOOD]
    bench = Bench(tmp_path, server.url)
    asker = bench.asker("semantic_scholar")
    held = []
    for n in range(7):
        with pytest.raises(OutOfReach):
            asker.ask(f"words {n}")
        with bench.turns("semantic_scholar").take() as turn:
            held.append(turn.left_alone_s)
            bench.clock.now += turn.left_alone_s
    assert held == [100, 120, 240, 480, 960, 960, 960]
    assert asker.ask("words").papers
    server.script = [answer({}, 500, {"Retry-After": "1000"})]
    with pytest.raises(OutOfReach):
        asker.ask("again")
    with bench.turns("semantic_scholar").take() as turn:
        assert turn.left_alone_s == 1000
    assert HOLD_S < 100


REDIRECT = "HTTP/1.1 302 Found\r\nLocation: {}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
BROKEN: dict[str, Act] = {
    "not JSON": answer(b"<html>captive portal</html>"),
    "cut off": answer(s2(s2_paper()), missing=500),
    "half of it": answer(json.dumps(s2(s2_paper())).encode()[:-7]),
    "no HTTP": raw(b"SSH-2.0-OpenSSH_9.2\r\n"),
    "closed": raw(b""),
    "another server": raw(REDIRECT.format("http://localhost:1/elsewhere").encode()),
    "a file": raw(REDIRECT.format("file:///etc/passwd").encode()),
    "in circles": raw(REDIRECT.format("/paper/search").encode()),
    "endless": endless(),
    "bomb": answer(gzip.compress(b" " * 2**22), headers={"Content-Encoding": "gzip"}),
    "gzip cut": answer(gzip.compress(b'{"total": 0}')[:-9], headers={"Content-Encoding": "gzip"}),
    "no gzip": answer(b'{"total": 0}', headers={"Content-Encoding": "gzip"}),
    "zstd": answer(b'{"total": 0}', headers={"Content-Encoding": "zstd"}),
}


@pytest.mark.parametrize("how", BROKEN)
def test_what_is_broken_is_tried_again_then_set_aside(
    server: Imitation, tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "BODY_LIMIT", 2**21)
    server.script = [BROKEN[how]]
    bench = Bench(tmp_path, server.url, HPCSCI_S2_API_KEY="secret-123")
    with pytest.raises(OutOfReach) as caught:
        bench.asker("semantic_scholar").ask("words")
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not caught.value.network
    assert not list(tmp_path.glob("cache/**/*.json"))
    asked = len(server.asked)
    with pytest.raises(OutOfReach, match="left alone"):
        bench.asker("semantic_scholar").ask("words")
    assert len(server.asked) == asked


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("HTTP_PROXY", "socks5://127.0.0.1:1"),
        ("http_proxy", "nonsense://x"),
        ("http_proxy", "http://127.0.0.1:1"),
        ("ALL_PROXY", "127.0.0.1:1"),
        ("http_proxy", "http://[bad"),
    ],
)
def test_a_proxy_that_cannot_be_used_is_no_network(
    server: Imitation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(OutOfReach) as caught:
        Bench(tmp_path, server.url).asker("arxiv").ask("words")
    assert caught.value.network
    assert server.asked == []


def test_a_proxy_is_asked_where_there_is_one(
    server: Imitation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", server.url)
    server.script = [GOOD]
    bench = Bench(tmp_path, "http://literature.invalid/graph/v1")
    assert bench.asker("semantic_scholar").ask("words").papers
    assert server.asked[0].headers["host"] == "literature.invalid"


def test_a_packed_answer_and_a_redirect_to_itself_are_fine(
    server: Imitation, tmp_path: Path
) -> None:
    packed = gzip.compress(json.dumps(s2(s2_paper())).encode())
    server.script = [
        raw(REDIRECT.format("/moved?query=words").encode()),
        answer(packed, headers={"Content-Encoding": "gzip"}),
    ]
    assert Bench(tmp_path, server.url).asker("semantic_scholar").ask("words").papers
    assert [asked.path for asked in server.asked] == ["/paper/search", "/moved"]


@pytest.mark.parametrize(
    "act",
    [
        hang,
        trickle(b"HTTP/1.1 200 OK\r\nX-Slow: "),
        trickle(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n"),
    ],
    ids=["silence", "slow head", "slow body"],
)
def test_a_slow_server_has_a_deadline(
    server: Imitation, act: Act, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "_GRACE_S", 300.0)  # past it, it would be no network
    server.script = [act]
    with pytest.raises(asking.Transient, match=r" answer .*\b0\.2 s$"):
        asking.ServiceClient(server.url).get("/x", {}, 0.2)


def test_no_network_is_known_as_such(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
    bench = Bench(tmp_path, f"http://127.0.0.1:{port}")
    with pytest.raises(OutOfReach) as caught:
        bench.asker("semantic_scholar").ask("words")
    assert caught.value.network
    assert bench.clock.slept == [2.0]


@pytest.mark.parametrize("status", [401, 403])
def test_a_refused_key_names_its_variable(server: Imitation, tmp_path: Path, status: int) -> None:
    server.script = [answer({"message": "Forbidden"}, status)]
    bench = Bench(tmp_path, server.url, HPCSCI_S2_API_KEY="secret-123")
    asker = bench.asker("semantic_scholar")
    with pytest.raises(OutOfReach, match="HPCSCI_S2_API_KEY") as caught:
        asker.ask("words")
    assert "secret-123" not in str(caught.value)
    with pytest.raises(OutOfReach, match="left alone"):
        asker.ask("words")
    assert len(server.asked) == 1
    server.script = [GOOD]  # whoever comes with a better key need not wait
    assert bench.asker("semantic_scholar").ask("words").papers


def test_a_refused_query_sets_nothing_aside(server: Imitation, tmp_path: Path) -> None:
    server.script = [answer({"error": "Unacceptable query\n"}, 400), GOOD]
    asker = Bench(tmp_path, server.url).asker("semantic_scholar")
    with pytest.raises(QueryRefused, match=r"HTTP 400: .*Unacceptable query"):
        asker.ask("odd words")
    assert asker.ask("good words").papers


def test_keys_are_in_no_log_and_no_file(
    server: Imitation, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    server.script = [answer({}, 500), answer(openalex(openalex_work()))]
    bench = Bench(
        tmp_path,
        server.url,
        HPCSCI_OPENALEX_API_KEY="oa-secret",
        HPCSCI_S2_API_KEY="s2-secret",
        HPCSCI_MAILTO="me@uni.edu",
    )
    bench.asker("openalex").ask("words")
    server.script = [GOOD]
    bench.asker("semantic_scholar").ask("words")
    assert server.asked[-1].headers["x-api-key"] == "s2-secret"
    assert server.asked[1].parameters["api_key"] == "oa-secret"
    written = b"".join(p.read_bytes() for p in tmp_path.rglob("*") if p.is_file())
    seen = caplog.text + repr(bench.asker("openalex")._exchange) + written.decode()
    assert "HTTP Request" in caplog.text
    for secret in ("oa-secret", "s2-secret", "me@uni.edu"):
        assert secret not in seen


@pytest.mark.parametrize("address", ["ftp://x", "host", "http://", "http://u:p@host", ""])
def test_an_address_that_is_none_is_refused(tmp_path: Path, address: str) -> None:
    if address:
        with pytest.raises(ConfigError):
            Bench(tmp_path, address).asker("arxiv")
    else:
        assert Bench(tmp_path, address).asker("arxiv").service.base.startswith("https://")


def test_a_key_that_no_header_holds_is_refused(tmp_path: Path) -> None:
    bench = Bench(tmp_path, "http://h", HPCSCI_S2_API_KEY="a\nX-Evil: b")
    with pytest.raises(ConfigError) as caught:
        bench.asker("semantic_scholar")
    assert "Evil" not in str(caught.value)


@pytest.mark.parametrize("damage", [b"", b"{}", b"\x00" * 100, b'{"version": 1'])
def test_a_damaged_answer_is_asked_for_again(
    server: Imitation, tmp_path: Path, damage: bytes
) -> None:
    server.script = [GOOD]
    asker = Bench(tmp_path, server.url).asker("semantic_scholar")
    first = asker.ask("words")
    (path,) = tmp_path.glob("cache/semantic_scholar/??/*.json")
    path.write_bytes(damage)
    assert asker.ask("words") == first
    assert asker.ask("words") == first
    assert len(server.asked) == 2


def test_an_answer_that_cannot_be_kept_is_used(server: Imitation, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file where the folder should be")
    server.script = [GOOD]
    bench = Bench(tmp_path, server.url)
    assert bench.asker("semantic_scholar").ask("words").papers
    assert re.match(f"answers .*kept: {tmp_path}/cache", bench.notes[0])


@given(st.text())
def test_a_normal_query_stays_as_it_is(words: str) -> None:
    query = normalised(words)
    assert normalised(query) == query
    assert len(query) <= 400
    assert query == " ".join(query.split())
    query.encode()


@given(one=st.text(max_size=20), other=st.text(max_size=20), page=st.integers(0, 3))
def test_what_is_kept_is_found_and_nothing_else(
    one: str, other: str, page: int, tmp_path_factory: Any
) -> None:
    cache = Cache(tmp_path_factory.mktemp("cache"))
    asker = Bench(tmp_path_factory.mktemp("x"), "http://127.0.0.1:1").asker("semantic_scholar")
    kept = asker._answered(one, page, asking.Page((), more=False))
    cache.put(kept)
    assert cache.get("semantic_scholar", one, page) == kept
    assert cache.get("semantic_scholar", one, page + 1) is None
    assert cache.get("arxiv", one, page) is None
    assert (cache.get("semantic_scholar", other, page) is None) == (one != other)


def _noting(starts: list[float], bench: Bench) -> Act:
    def act(connection: socket.socket, server: Imitation) -> None:
        starts.append(bench.clock())
        answer(_FEED)(connection, server)

    return act


_FEED = (
    b'<feed xmlns="http://www.w3.org/2005/Atom"><o:totalResults '
    b'xmlns:o="http://a9.com/-/spec/opensearch/1.1/">0</o:totalResults></feed>'
)


def _together(work: Any, count: int) -> None:
    failed: list[BaseException] = []

    def guarded() -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 (asserted below)
            failed.append(error)

    threads = [threading.Thread(target=guarded) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
