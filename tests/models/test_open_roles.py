from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from misbehaving_endpoint import Endpoint, answer, completion

from hpcscientist.config.settings import CODE, ClientSettings, RoleSettings, Settings
from hpcscientist.errors import ModelSpecError, ReplyError
from hpcscientist.models.endpoint.client import OpenAIModel
from hpcscientist.models.open import Served, open_models, parse_spec, role_specs
from hpcscientist.models.playbook import PlaybookModel
from hpcscientist.records.model_calls import Message, ModelRequest, Role
from hpcscientist.records.trial import Stage

QUICK = ClientSettings(timeout_s=300, retries=0)


def settings(**models: str) -> Settings:
    roles = {role: RoleSettings(model=model) for role, model in models.items()}
    return Settings(client=QUICK).model_copy(update=roles)


@pytest.fixture
def playbook(tmp_path: Path) -> Path:
    path = tmp_path / "own.jsonl"
    path.write_text('{"idea": 1, "stage": "propose", "text": "x"}\n')
    return path


@pytest.fixture
async def endpoint() -> AsyncIterator[Endpoint]:
    async with Endpoint() as server:
        yield server


def request(stage: str, **more: Any) -> ModelRequest:
    message = Message(role="user", content="x" * 1000)
    role = more.pop("role", {"propose": "ideation", "code": "code"}.get(stage, "review"))
    return ModelRequest(subject="idea-0001", stage=stage, role=role, messages=(message,), **more)


def test_no_stage_of_a_trial_is_a_model() -> None:
    for stage in Stage:
        with pytest.raises(ModelSpecError):
            parse_spec(stage.value)


def test_one_model_for_all_is_the_default() -> None:
    assert role_specs(settings(), "playbook") == dict.fromkeys(
        ("ideation", "code", "review"), "playbook"
    )
    assert role_specs(settings(code="vllm:/w"), "playbook") == {
        "ideation": "playbook",
        "code": "vllm:/w",
        "review": "playbook",
    }


@pytest.mark.parametrize(
    ("role", "spec", "said"),
    [
        ("code", "playbok", "code.model: 'playbok' "),
        ("ideation", "http://n1/v1", "ideation.model: 'http://n1/v1' "),
        ("review", "search", "review.model: search "),
    ],
)
def test_a_bad_spec_names_its_key(role: str, spec: str, said: str) -> None:
    with pytest.raises(ModelSpecError) as caught:
        role_specs(settings(**{role: spec}), "playbook")
    assert str(caught.value).startswith(said)


@pytest.mark.parametrize(("spec", "said"), [("search", "search is"), ("x", "'x' names")])
def test_the_campaigns_own_spec_names_no_key(spec: str, said: str) -> None:
    with pytest.raises(ModelSpecError) as caught:
        role_specs(settings(), spec)
    assert str(caught.value).startswith(said)


def test_what_cannot_be_opened_names_its_key(tmp_path: Path) -> None:
    given = settings(code=f"playbook:{tmp_path / 'none.jsonl'}")
    with pytest.raises(ModelSpecError, match=r"^code\.model: .*none\.jsonl"):
        open_models(role_specs(given, "http://n1/v1#m"), None, given)
    with pytest.raises(ModelSpecError, match=r"^this recipe .*\bplaybook:FILE\b"):
        open_models(role_specs(settings(), "playbook"), None, settings())


async def test_each_model_is_opened_once(playbook: Path) -> None:
    given = settings(code="http://n1:1/v1#m")
    roles = open_models(role_specs(given, "playbook"), playbook, given)
    assert roles.ideation is roles.review
    assert isinstance(roles.ideation, PlaybookModel)
    assert isinstance(roles.code, OpenAIModel)
    assert roles.name == "playbook:own.jsonl, m"
    await roles.close()
    await roles.close()


async def test_requests_go_to_their_roles_model(endpoint: Endpoint, playbook: Path) -> None:
    endpoint.script = [answer(completion("coded"))]
    given = settings(code=f"{endpoint.url}#tiny")
    roles = open_models(role_specs(given, "playbook"), playbook, given)
    await roles.probe()
    assert [seen.method for seen in endpoint.seen] == ["GET"]
    assert (await roles.complete(request("propose"))).text == "x"
    assert (await roles.complete(request("code"))).text == "coded"
    assert (await roles.complete(request("propose", role="code"))).text == "coded"
    with pytest.raises(ReplyError, match=r"role embedding$"):
        await roles.complete(request("embed", role="embedding"))
    assert len(endpoint.posts) == 2
    await roles.close()


async def test_vllm_is_opened_where_it_is_served(endpoint: Endpoint) -> None:
    given = settings(review="vllm:/w/other")

    def place(name: str, context: int) -> Served:
        client = partial(OpenAIModel, endpoint.url, name, given.client, f"key of {name}")
        return Served(client, context, Path("/w/none"))

    served = {"vllm:/w/model": place("tiny", 9000), "vllm:/w/other": place("other", 0)}
    roles = open_models(role_specs(given, "vllm:/w/model"), None, given, served)
    assert roles.ideation is roles.code
    await roles.code.complete(request("code"))
    await roles.review.complete(request("judge"))
    sent = [(seen.body["model"], seen.headers["authorization"]) for seen in endpoint.posts]
    assert sent == [("tiny", "Bearer key of tiny"), ("other", "Bearer key of other")]
    assert [await roles.windows[role].context() for role in roles.windows] == [9000, 9000, 0]
    await roles.close()
    with pytest.raises(ModelSpecError):  # until it is served somewhere
        open_models(role_specs(settings(), "vllm:/w/model"), None, settings())


@pytest.mark.parametrize(("own", "listed", "context"), [(0, 7, 7), (5, 7, 5), (9, 7, 7)])
async def test_a_roles_setting_bounds_the_context(
    endpoint: Endpoint, own: int, listed: int, context: int
) -> None:
    endpoint.models = answer({"data": [{"id": "tiny", "max_model_len": listed}]})
    code = CODE.model_copy(update={"context": own})
    given = settings().model_copy(update={"code": code})
    roles = open_models(role_specs(given, f"{endpoint.url}#tiny"), None, given)
    found: dict[Role, int] = {role: await w.context() for role, w in roles.windows.items()}
    assert found == {"ideation": listed, "code": context, "review": listed}
    assert len(endpoint.seen) == 1
    await roles.close()
