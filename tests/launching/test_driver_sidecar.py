"""A campaign's requests to the models that are served beside its driver, from their start on."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from misbehaving_endpoint import Endpoint as Server
from misbehaving_endpoint import answer, completion, error

from hpcscientist.config.settings import ClientSettings, Settings
from hpcscientist.errors import PlaneLost, ServingError
from hpcscientist.launching.serving import driver_sidecar
from hpcscientist.launching.serving.driver_sidecar import DriverSidecar
from hpcscientist.models.serving import secrets
from hpcscientist.models.serving.fitting.layout import Machine
from hpcscientist.models.serving.order import Address, Endpoint, ServingPaths
from hpcscientist.models.serving.plane import Plane
from hpcscientist.records.model_calls import Message, ModelRequest

REQUEST = ModelRequest(
    subject="idea-0001",
    stage="propose",
    ordinal=1,
    messages=(Message(role="user", content="what next?"),),
)


class Gone:
    """A plane; `lost`: why it has ended, "" where it has not."""

    order = SimpleNamespace(
        contexts={"tiny": 2048}, models=(SimpleNamespace(name="tiny", at_once=2),)
    )

    def __init__(self, why: str = "") -> None:
        self.lost = why


def endpoint(server: Server | None) -> Endpoint:
    return Endpoint(
        nonce="n",
        url=server.url if server else "http://127.0.0.1:1/v1",
        replicas=(Address(model="tiny", url=server.url),) if server else (),
        models=("tiny",),
        nodes=("n1",),
        head="127.0.0.1",
        contexts={"tiny": 2048},
        started=0.0,
    )


def served_by(folder: Path, lost: str = "") -> DriverSidecar:
    """What stands beside a driver whose plane starts; the key's file is there."""
    paths = ServingPaths(folder)
    secrets.make(paths.key)
    return DriverSidecar(
        plane=cast("Plane", Gone(lost)),
        answers=Future(),
        machine=Machine(nodes=2, gpus=0, gpu_memory_mb=0, cpus=2, memory_mb=1000),
        settings=Settings(client=ClientSettings(retries=0, timeout_s=10)),
        paths=paths,
        folders={"vllm:/w/tiny": Path("/w/tiny")},
        since=0.0,
    )


async def test_requests_wait_for_the_plane_and_carry_its_key(tmp_path: Path) -> None:
    async with Server() as server:
        server.script = [answer(completion("an idea"))]
        served = served_by(tmp_path)
        (place,) = served.served().values()
        model = place.open()
        assert (model.name, place.context) == ("tiny", 2048)
        asked = asyncio.create_task(model.complete(REQUEST))
        await asyncio.sleep(0)
        assert not served.is_ready
        write_endpoint(served, server)
        served.answers.set_result(endpoint(server))
        assert (await asked).text == "an idea"
        assert served.is_ready
        assert served.lost == ""
        await model.close()
        (seen,) = server.posts
    key = secrets.read(ServingPaths(tmp_path).key)
    assert seen.headers["authorization"] == f"Bearer {key}"


def write_endpoint(served: DriverSidecar, server: Server) -> None:
    served.paths.endpoint.write_text(endpoint(server).model_dump_json())


async def test_trouble_of_a_plane_that_has_ended_is_no_endpoint_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver_sidecar, "_HEARD_S", 0.0)
    async with Server() as server:
        server.script = [error(500, "gone")]
        served = served_by(tmp_path, lost="node n2 was lost")
        write_endpoint(served, server)
        served.answers.set_result(endpoint(server))
        model = served.served()["vllm:/w/tiny"].open()
        with pytest.raises(PlaneLost, match="node n2 was lost"):
            await model.complete(REQUEST)
        await model.close()


async def test_a_plane_that_does_not_start_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver_sidecar, "_HEARD_S", 0.0)
    served = served_by(tmp_path)
    served.answers.set_exception(ServingError("no memory"))
    assert not served.is_ready
    assert (served.lost, str(served.failure)) == ("no memory", "no memory")
    with pytest.raises(PlaneLost, match="no memory"):
        await served.served()["vllm:/w/tiny"].open().complete(REQUEST)
