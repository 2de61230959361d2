"""From where a campaign's requests go out to the models that are served beside its driver."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import cast

import pytest
from misbehaving_endpoint import Endpoint as Server
from misbehaving_endpoint import answer, completion, error

from hpcscientist.config.settings import ClientSettings, FanOutChoice, ServingSettings, Settings
from hpcscientist.errors import PlaneLost
from hpcscientist.launching.serving import plane_model
from hpcscientist.launching.serving.beside import Beside
from hpcscientist.models.serving import secrets
from hpcscientist.models.serving.fitting.layout import Machine
from hpcscientist.models.serving.order import Endpoint
from hpcscientist.models.serving.paths import ServingPaths
from hpcscientist.models.serving.plane import Plane
from hpcscientist.records.asked.model import Message, ModelRequest

REQUEST = ModelRequest(
    idea_id="idea-0001",
    stage="propose",
    ordinal=1,
    messages=(Message(role="user", content="what next?"),),
)


class Gone:
    """A plane that has ended."""

    def __init__(self, why: str = "") -> None:
        self.lost = why


def served_by(
    url: str, folder: Path, choice: FanOutChoice, python: str = "python3", lost: str = ""
) -> Beside:
    """What stands beside a driver once models answer at `url`; the key's file is there."""
    paths = ServingPaths(folder)
    secrets.make(paths.key)
    return Beside(
        plane=cast("Plane", Gone(lost)),
        endpoint=Endpoint(
            nonce="n",
            url=url,
            models=("tiny",),
            nodes=("n1",),
            head="127.0.0.1",
            ray_address="127.0.0.1:1",
            contexts={"tiny": 2048},
            started=0.0,
        ),
        machine=Machine(nodes=2, gpus=0, gpu_memory_mb=0, cpus=2, memory_mb=1000),
        settings=Settings(
            serving=ServingSettings(fan_out=choice), client=ClientSettings(retries=0, timeout_s=10)
        ),
        paths=paths,
        folders={"vllm:/w/tiny": Path("/w/tiny")},
        since=0.0,
        python=python,
        fan_out=choice,
    )


async def test_from_here_requests_carry_the_key_of_the_campaign(tmp_path: Path) -> None:
    async with Server() as server:
        server.script = [answer(completion("an idea"))]
        served = served_by(server.url, tmp_path, "threads")
        (place,) = served.served().values()
        model = place.open()
        assert (model.name, place.context) == ("tiny", 2048)
        assert (await model.complete(REQUEST)).text == "an idea"
        await model.close()
        (seen,) = server.posts
    key = secrets.read(ServingPaths(tmp_path).key)
    assert seen.headers["authorization"] == f"Bearer {key}"


@pytest.mark.parametrize("choice", ["auto", "ray"])
async def test_elsewhere_they_are_tasks_of_the_plane_s_ray(
    choice: FanOutChoice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody listens there: what fails is the way to Ray, and not to the endpoint."""
    monkeypatch.setattr(plane_model, "_HEARD_S", 0.0)
    async with Server() as server:
        served = served_by(server.url, tmp_path, choice, sys.executable, lost="it has ended")
        model = served.served()["vllm:/w/tiny"].open()
        with pytest.raises(PlaneLost) as lost:
            await model.complete(REQUEST)
        await model.close()
        assert server.seen == []
    assert "no connection to the Ray cluster at 127.0.0.1:1" in str(lost.value.__cause__)


async def test_trouble_of_a_plane_that_has_ended_is_no_endpoint_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plane_model, "_HEARD_S", 0.0)
    async with Server() as server:
        server.script = [error(500, "gone")]
        served = served_by(server.url, tmp_path, "threads", lost="node n2 was lost")
        model = served.served()["vllm:/w/tiny"].open()
        with pytest.raises(PlaneLost, match="node n2 was lost"):
            await model.complete(REQUEST)
        await model.close()
