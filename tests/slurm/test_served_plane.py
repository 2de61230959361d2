"""`hpcsci serve` on two nodes: who may reach it, what requests may do to it, and what it survives.

It takes minutes to start, so all tests share one start, in the order in which they stand; the last
one ends it.
"""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from campaigns import TinyCampaign
from faults_kit import Faults, until, why_no_faults
from served_asking import MANY, SCHEMA, SLOTS, TOKENS
from served_kit import LIMIT_S, READY_S, Served, below
from served_stranger import STRANGER, check_refused, files_of, knock, outcome, readable
from slurm_kit import Cluster, engine_python

from hpcscientist.history import journal
from hpcscientist.records.events import IdeaEnded

pytestmark = [pytest.mark.slurm, pytest.mark.serving, pytest.mark.timeout(1800)]

TESTS = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def served(cluster: Cluster) -> Iterator[Served]:
    engine = engine_python()
    reason = why_no_faults()
    if reason is not None:
        pytest.skip(f"NOT TESTED: {reason}")
    model = cluster.make_folder("model") / "tiny"
    make = [engine, TESTS / "tiny_models.py", model]
    subprocess.run(make, check=True, capture_output=True, timeout=LIMIT_S)
    faults = Faults(cluster)
    until("nobody uses the cluster", faults.is_idle)
    plane = Served(cluster, faults, engine, cluster.make_folder("serve"))
    plane.start(model)
    try:
        plane.await_answers()
        yield plane
    finally:
        plane.end()
        faults.heal()
        plane.sweep()


@pytest.fixture(scope="module")
def head(served: Served) -> str:
    return served.order.nodes[0]


@pytest.fixture(scope="module")
def worker(served: Served) -> str:
    return served.order.nodes[1]


def test_it_says_how_it_is_reached(served: Served, head: str, worker: str) -> None:
    printed = (served.folder / "out").read_text()
    port = served.order.ports.http
    assert f"endpoint: http://127.0.0.1:{port}/v1, on {head}, {worker}" in printed
    assert f"-L {port}:127.0.0.1:{port} {served.cluster.user}@{head}" in printed
    assert [len(served.engines(node)) for node in (head, worker)] == [1, 1]


def test_no_port_gives_anything_without_the_key(served: Served, head: str, worker: str) -> None:
    """Each port that any process of the user's listens on, from the same node and from another."""
    (elsewhere, *_) = (node for node in served.faults.nodes() if node not in (head, worker))
    for node, other in ((head, worker), (worker, elsewhere)):
        listeners = served.listeners(node)
        ports = sorted({one.port for one in listeners})
        assert {served.order.ports.http, served.order.ports.node_manager} <= set(ports)
        places = ((node, "127.0.0.1"), (node, served.address(node)), (other, served.address(node)))
        tries = [(source, host, knock(served, source, host, ports)) for source, host in places]
        gone = {one.port for one in listeners} - {one.port for one in served.listeners(node)}
        heard: set[int] = set()
        for source, host, process in tries:
            for port, given in outcome(process).items():
                (one, *_) = (one for one in listeners if one.port == int(port))
                print(f"{node} {one.address}:{port} ({one.name}) from {source} at {host}: {given}")
                check_refused(one, host, given)
                heard |= set() if given["said"] == "refused" else {int(port)}
        assert heard | gone >= set(ports)  # each was really there to be tried


def test_ray_s_own_client_is_refused_without_the_token(served: Served, worker: str) -> None:
    address = f"{served.order.head}:{served.order.ports.gcs}"
    status = ["-P", "-m", "ray.scripts.scripts", "status", f"--address={address}"]
    answers = []
    for user, token in (
        (STRANGER, ["RAY_AUTH_MODE=disabled"]),
        (served.cluster.user, ["RAY_AUTH_MODE=token", f"RAY_AUTH_TOKEN_PATH={served.paths.token}"]),
    ):
        command = served.as_other(worker, user, *token, served.engine, *status)
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=LIMIT_S, check=False, cwd="/"
        )
        answers.append((done.returncode, done.stdout + done.stderr))
    (refused, why), (accepted, shown) = answers
    assert refused != 0
    assert "nauthenticated" in why or "authentication" in why.lower(), why
    assert accepted == 0, shown
    assert "plane" in shown  # the resource that replicas are placed by


def test_others_can_read_none_of_its_files(served: Served, head: str, worker: str) -> None:
    for secret in (served.paths.key, served.paths.token):
        assert secret.stat().st_mode & 0o777 == 0o600
    for node in (head, worker):
        left = served.leftovers(node)
        assert any(path.name.startswith("hpcsci-") for path in left)
        private = [path for place in left for path in files_of(served, node, place)]
        assert readable(served, node, [*below(served.paths.root), *private]) == []


def test_no_process_and_no_log_shows_a_secret(served: Served, head: str, worker: str) -> None:
    shown = [path.read_bytes().strip() for path in (served.paths.key, served.paths.token)]
    kinds = set()
    for process in psutil.process_iter():
        for name in ("cmdline", "environ"):
            try:
                text = Path(f"/proc/{process.pid}/{name}").read_bytes()
            except OSError:
                continue
            assert not any(secret in text for secret in shown), (process, name)
            kinds.add(name)
    assert kinds == {"cmdline", "environ"}
    written = [path for path in below(served.folder) if path.stat().st_size < 2**26]
    for node in (head, worker):
        for place in served.leftovers(node):
            if place.parts[1] == "tmp":
                written += below(served.inside(node, place))
    assert any("raylet" in path.name for path in written)
    holding = {path for path in written if any(s in path.read_bytes() for s in shown)}
    assert holding == {served.paths.key, served.paths.token}


@pytest.fixture(scope="module")
def asked(served: Served, worker: str) -> dict[str, Any]:
    """What became of requests that go wrong, sent from the second node."""
    return served.ask(worker, "bounds")


@pytest.mark.parametrize("shown", ["wrong key", "no key"])
def test_who_shows_another_key_is_told_what_to_do(asked: dict[str, Any], shown: str) -> None:
    assert asked[shown]["error"] == "EndpointError"
    assert "401" in asked[shown]["said"]
    assert "set HPCSCI_API_KEY" in asked[shown]["said"]


def test_a_prompt_beyond_the_context_is_refused_in_numbers(asked: dict[str, Any]) -> None:
    refused = asked["too long"]
    assert refused["error"] == "ContextOverflow", refused
    assert refused["context"] == 32_768
    assert "longer context" in refused["said"]


def test_a_schema_is_obeyed_by_a_model_that_knows_nothing(asked: dict[str, Any]) -> None:
    reply = json.loads(asked["schema"]["text"])
    assert sorted(reply) == sorted(SCHEMA["required"])
    assert isinstance(reply["odd"], bool)
    assert reply["kind"] in ("prime", "square")
    assert len(reply["digits"]) == 2
    assert set(reply["digits"]) <= {1, 2}


def test_a_model_that_never_stops_is_stopped(asked: dict[str, Any]) -> None:
    """By the reply's bound; and by the deadline, after which its place is free for others."""
    assert asked["bounded"]["finish"] == "length"
    assert asked["bounded"]["tokens"] == 100
    assert all("15 s (client.timeout_s)" in given["said"] for given in asked["endless"])
    # Two in a row are the requests' fault, as the endpoint answers a short one; more are its own.
    blamed = Counter(given["error"] for given in asked["endless"])
    assert blamed == {"ReplyError": 2, "EndpointError": 2 * SLOTS - 2}, asked["endless"]
    assert [reply["tokens"] for reply in asked["after"]] == [5] * 2 * SLOTS, asked["after"]


def test_a_campaign_whose_prompts_are_too_long_fails_its_ideas_alone(
    served: Served, head: str
) -> None:
    folder = served.cluster.make_folder("campaign")
    campaign = TinyCampaign.prepare(folder)
    recipe = folder / "tiny" / "recipe.toml"
    recipe.write_text(recipe.read_text().replace("Say which", f"{'Odd. ' * 8000}Say which"))
    served.cluster.own(folder)
    # As the card says: the key is read where it is used.
    use = f"HPCSCI_API_KEY=$(cat {served.paths.key}) exec "
    model = f"http://127.0.0.1:{served.order.ports.http}/v1#tiny"
    launch = ("launch", "--recipe", "./tiny", "--run-dir", "run", "--ideas", "2")
    options = (*launch, "--backend", "local", "--allow-unsandboxed", "--model", model)
    command = [*served.cluster.hpcsci_command, *options]
    step = served.step(head, "sh", "-c", f'{use} "$@"', "sh", *command)
    done = served.cluster.run(*step, cwd=folder, timeout=LIMIT_S)
    assert done.returncode == 3, done.stderr
    ended = [e for e in journal.read(campaign.paths.journal) if isinstance(e, IdeaEnded)]
    assert [event.status for event in ended] == ["failed", "failed"]
    assert all("context" in (event.reason or "") for event in ended), ended


def test_a_replica_killed_with_requests_in_flight_loses_none(
    served: Served, head: str, worker: str
) -> None:
    run = served.cluster.make_folder("run")
    command = served.step(head, *served.asking("many", run))
    asking = served.cluster.start(*command, cwd=served.folder)

    def begun() -> bool:
        assert asking.poll() is None, asking.communicate()
        return any(run.glob("ideas/*/chat.jsonl"))

    until("a reply is recorded", begun, LIMIT_S)
    (killed,) = served.engines(worker)
    killed.kill()
    out, err = asking.communicate(timeout=LIMIT_S)
    assert asking.returncode == 0, err + served.said()
    found = json.loads(out.splitlines()[-1])
    assert [reply.get("tokens") for reply in found["replies"]] == [TOKENS] * MANY, found["replies"]
    names = [f"idea-{n:04}" for n in range(MANY)]
    assert sorted(found["told"]) == names
    for name in names:
        assert len((run / "ideas" / name / "chat.jsonl").read_bytes().splitlines()) == 1
    until("another engine is started", lambda: served.engines(worker), READY_S)
    assert killed.pid not in [one.pid for one in served.engines(worker)]
    assert served.process.poll() is None


def test_a_lost_node_ends_the_job_and_leaves_nothing_on_the_other(
    served: Served, head: str, worker: str
) -> None:
    job = served.job_id
    served.faults.kill(worker)
    assert served.process.wait(LIMIT_S) == 1, served.said()
    assert f"job {job} has ended" in (served.folder / "err").read_text()
    until("the queue is empty", lambda: not served.cluster.queue("serve"))
    until("its processes have ended", lambda: not served.family(head))
    assert served.listeners(head) == []
    # Slurm kills what it ends for another node's sake. No memory is held by it; the private folder,
    # and an engine's semaphores of some bytes, are swept by the next plane there.
    left = {path.name.partition("-")[0] for path in served.leftovers(head)}
    assert left <= {"hpcsci", "sem.loky"}
    assert not served.paths.endpoint.exists()
