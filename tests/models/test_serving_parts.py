"""The parts of a model plane that need neither Ray nor an engine."""

from __future__ import annotations

import asyncio
import mmap
import os
import secrets as random_names
import socket
import stat
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcscientist.config.layers import KEY_VARIABLES
from hpcscientist.config.settings import ServingSettings
from hpcscientist.errors import ServingError
from hpcscientist.models.serving import secrets
from hpcscientist.models.serving.fitting.drafting import PlaneAllocation, draft, names_of
from hpcscientist.models.serving.fitting.layout import Layout, Machine
from hpcscientist.models.serving.nodes import caches, leftovers, node, offline
from hpcscientist.models.serving.nodes.offline import KEY_FILE, Gate
from hpcscientist.models.serving.order import (
    Order,
    ServingPaths,
    hold_port,
    port_block,
    ports_taken,
)
from hpcscientist.records.site import Site

JOBS = st.integers(min_value=1, max_value=10**9)


@given(number=JOBS, attempt=st.integers(min_value=0, max_value=7))
def test_ports_are_distinct_and_below_those_of_the_kernel(number: int, attempt: int) -> None:
    block = port_block(number, attempt).all()
    assert len(set(block)) == len(block)
    assert all(1024 < port < 32_768 for port in block)


@given(number=JOBS)
def test_neighbours_and_attempts_share_no_port(number: int) -> None:
    blocks = [port_block(number), port_block(number + 1), port_block(number, 1)]
    assert len({port for block in blocks for port in block.all()}) == sum(
        len(block.all()) for block in blocks
    )


def test_port_that_is_held_is_taken() -> None:
    with socket.socket() as held:
        # Bound so, it is free for another until somebody listens, and no third gets it meanwhile.
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
        assert ports_taken([port], ["127.0.0.1"]) == []
        held.listen()
        assert ports_taken([port], ["127.0.0.1"]) == [port]


def test_a_block_is_one_plane_s_while_it_serves() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    held = hold_port(port)
    assert held is not None
    with held:
        assert hold_port(port) is None
        with socket.socket() as other, pytest.raises(ConnectionRefusedError):
            other.connect(("127.0.0.1", port))
    again = hold_port(port)
    assert again is not None
    again.close()


def test_secret_is_made_once_and_read_by_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "key"
    secrets.make(path)
    made = secrets.read(path)
    secrets.make(path)
    assert secrets.read(path) == made
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [child.name for child in tmp_path.iterdir()] == ["key"]


@pytest.mark.parametrize(("text", "mode"), [("x" * 64, 0o640), ("", 0o600)])
def test_secret_that_cannot_be_trusted_is_refused(tmp_path: Path, text: str, mode: int) -> None:
    path = tmp_path / "key"
    path.write_text(text)
    path.chmod(mode)
    with pytest.raises(ServingError, match="delete it"):
        secrets.read(path)


def ask(gate: Gate, *headers: tuple[bytes, bytes]) -> int:
    sent: list[MutableMapping[str, Any]] = []

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    async def receive() -> MutableMapping[str, Any]:
        raise AssertionError("nothing is read before the key was shown")

    asyncio.run(gate({"type": "http", "headers": list(headers)}, receive, send))
    return int(sent[0]["status"])


def test_gate_lets_through_who_shows_the_key_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def behind(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})

    path = tmp_path / "key"
    secrets.make(path)
    monkeypatch.setenv(KEY_FILE, str(path))
    gate, key = Gate(behind), secrets.read(path).encode()
    right = (b"authorization", b"Bearer " + key)
    assert ask(gate, right) == 200
    assert ask(gate) == 401
    assert ask(gate, (b"authorization", key)) == 401
    assert ask(gate, (b"authorization", b"Bearer " + key[:-1])) == 401
    assert ask(gate, right, (b"authorization", b"Bearer x")) == 401


def test_environment_keeps_everything_here(tmp_path: Path) -> None:
    given_ = {"HTTPS_PROXY": "p", "RAY_ADDRESS": "a", "PATH": "/bin"}
    given_ |= dict.fromkeys(KEY_VARIABLES, "k")
    found = offline.environment(given_, ServingPaths(tmp_path))
    assert found["PATH"] == "/bin"
    assert not {"HTTPS_PROXY", "RAY_ADDRESS", *KEY_VARIABLES} & found.keys()
    assert found["HF_HUB_OFFLINE"] == found["VLLM_NO_USAGE_STATS"] == "1"
    assert found["RAY_AUTH_MODE"] == "token"
    assert found["RAY_AUTH_TOKEN_PATH"] == str(tmp_path / "token")
    assert found[KEY_FILE] == str(tmp_path / "key")


def test_models_of_one_name_are_told_apart(tmp_path: Path) -> None:
    one, other = tmp_path / "a" / "llama", tmp_path / "b" / "llama"
    assert names_of([one, other, one]) == {one: "llama", other: "b-llama"}
    cached = tmp_path / "models--meta--llama-8b" / "snapshots" / ("0" * 40)
    assert names_of([cached]) == {cached: "llama-8b"}


def order_of(folder: Path, layout: Layout, nodes: int, cores: int) -> Order:
    return draft(
        *(folder, "owner", {folder / "m": layout}),
        PlaneAllocation(nodes=tuple(f"n{i}" for i in range(nodes)), address="127.0.0.1", number=1),
        Machine(nodes=nodes, gpus=0, gpu_memory_mb=0, cpus=cores, memory_mb=0),
        *(ServingSettings(), Site()),
    )


@pytest.mark.parametrize(("stages", "interface"), [(1, "lo"), (2, None)])
def test_an_engine_within_a_node_listens_on_no_network(
    tmp_path: Path, stages: int, interface: str | None
) -> None:
    layout = Layout(
        replicas=1,
        tensor_parallel=2,
        pipeline_parallel=stages,
        context=2048,
        gpus_per_replica=0,
        dtype="auto",
        kv_tokens=4096,
    )
    (model,) = order_of(tmp_path, layout, nodes=2, cores=2).models
    assert model.variables.get("GLOO_SOCKET_IFNAME") == interface


@pytest.mark.parametrize(
    ("cores", "replicas", "workers", "nodes", "threads"),
    [
        *[(8, 1, 1, 1, "8"), (8, 2, 1, 1, "4"), (8, 2, 1, 2, "8"), (8, 3, 1, 2, "4")],
        *[(2, 4, 1, 1, "1"), (8, 1, 2, 1, "4"), (16, 4, 2, 2, "4")],
    ],
)
def test_an_engine_computes_with_its_share_of_a_nodes_cores(
    tmp_path: Path, cores: int, replicas: int, workers: int, nodes: int, threads: str
) -> None:
    layout = Layout(
        replicas=replicas,
        tensor_parallel=workers,
        pipeline_parallel=1,
        context=2048,
        gpus_per_replica=0,
        dtype="auto",
        kv_tokens=4096,
    )
    order = order_of(tmp_path, layout, nodes, cores)
    assert order.models[0].variables["OMP_NUM_THREADS"] == threads
    share = order.models[0].bundle["plane"] * workers
    assert (-(-replicas // nodes)) * share <= 1 < (-(-replicas // nodes) + 1) * share


def test_who_needs_most_of_a_node_comes_first(tmp_path: Path) -> None:
    """Ray places replicas in this order, each where most is free."""
    common = {"pipeline_parallel": 1, "context": 2048, "dtype": "auto", "kv_tokens": 4096}
    small = Layout(replicas=4, tensor_parallel=1, gpus_per_replica=1, **common)
    big = Layout(replicas=1, tensor_parallel=4, gpus_per_replica=4, **common)
    order = draft(
        *(tmp_path, "owner", {tmp_path / "small": small, tmp_path / "big": big}),
        PlaneAllocation(nodes=("n0", "n1"), address="127.0.0.1", number=1),
        Machine(nodes=2, gpus=4, gpu_memory_mb=80_000, cpus=64, memory_mb=500_000),
        *(ServingSettings(), Site()),
    )
    assert [model.name for model in order.models] == ["big", "small"]


def test_what_an_engine_compiles_lies_in_its_own_folder(tmp_path: Path) -> None:
    found = caches.variables(tmp_path)
    assert {Path(folder).parent for folder in found.values()} == {tmp_path}
    assert len(set(found.values())) == len(found)


@pytest.fixture
def _caches_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (caches.FOLDER, *caches.variables(Path())):
        monkeypatch.setenv(name, "")  # and given back
        monkeypatch.delenv(name)


@pytest.mark.usefixtures("_caches_as_before")
def test_a_worker_on_another_node_has_caches_of_its_own_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, others = tmp_path / "own", tmp_path / "others"
    own.mkdir()
    before = dict(os.environ)
    caches.register()
    monkeypatch.setenv(caches.FOLDER, str(others))  # which is not on this node
    caches.register()
    assert dict(os.environ) == before | {caches.FOLDER: str(others)}  # no plane started this
    monkeypatch.setenv(caches.FOLDER, str(own))
    caches.use_own()
    replicas = {name: os.environ[name] for name in caches.variables(own)}
    caches.register()  # a worker beside its replica
    assert replicas == {name: os.environ[name] for name in replicas}
    for name, folder in caches.variables(others / "r-1").items():
        monkeypatch.setenv(name, folder)
    caches.register()
    caches.register()
    (mine,) = {Path(os.environ[name]).parent for name in replicas}
    assert mine.parent == own
    assert len(list(own.iterdir())) == 2
    assert not others.exists()


@pytest.mark.parametrize("given", [None, "FASTEST_FIRST"])
def test_gpus_are_numbered_as_the_driver_does(given: str | None) -> None:
    found = node.first_gpus(1, {"CUDA_DEVICE_ORDER": given} if given else {})
    assert found["CUDA_DEVICE_ORDER"] == (given or "PCI_BUS_ID")
    assert node.first_gpus(0, {}) == {}


@pytest.mark.parametrize(
    ("count", "listed", "seen"),
    [(2, "", "0,1"), (2, "4,5,6", "4,5"), (4, "0,1,2,3", "0,1,2,3"), (0, "0,1", None)],
)
def test_engines_see_the_first_gpus_alone(count: int, listed: str, seen: str | None) -> None:
    found = node.first_gpus(count, {"CUDA_VISIBLE_DEVICES": listed} if listed else {})
    assert found.get("CUDA_VISIBLE_DEVICES") == seen


def test_stop_is_meant_for_one_start(tmp_path: Path) -> None:
    paths = ServingPaths(tmp_path)
    paths.stop("first").touch()
    assert paths.is_stopped("first")
    assert not paths.is_stopped("second")


def test_shared_memory_that_is_mapped_is_found() -> None:
    name = f"hpcsci-test-{random_names.token_hex(4)}"
    path = Path("/dev/shm") / name
    try:
        path.write_bytes(bytes(4096))
        with path.open("r+b") as file, mmap.mmap(file.fileno(), 0):
            assert path in leftovers.shared_memory([os.getpid()])
    finally:
        path.unlink()
