from __future__ import annotations

from pathlib import Path

import pytest

from hpcscientist.config.settings import ClientSettings
from hpcscientist.errors import ModelSpecError
from hpcscientist.models.endpoint.client import OpenAIModel
from hpcscientist.models.open import FORMS, ModelSpec, open_model, parse_spec
from hpcscientist.models.playbook import PlaybookModel

SETTINGS = ClientSettings()


@pytest.mark.parametrize(
    ("spec", "parsed"),
    [
        (
            "http://n1:8000/v1#a/B-7b",
            ModelSpec(kind="http", base_url="http://n1:8000/v1", name="a/B-7b"),
        ),
        ("https://n1/v1/#m#2", ModelSpec(kind="http", base_url="https://n1/v1", name="m#2")),
        ("http://[::1]:80/v1#m", ModelSpec(kind="http", base_url="http://[::1]:80/v1", name="m")),
        ("playbook", ModelSpec(kind="playbook")),
        ("playbook:a:b.jsonl", ModelSpec(kind="playbook", file="a:b.jsonl")),
        ("search", ModelSpec(kind="search")),
        ("vllm:/models/x", ModelSpec(kind="vllm", name="/models/x")),
    ],
)
def test_valid_specs(spec: str, parsed: ModelSpec) -> None:
    assert parse_spec(spec) == parsed


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("", "valid forms"),
        ("gpt", "valid forms"),
        ("playbok", "mean playbook?"),
        ("Search", "mean search?"),
        ("search:3", "mean search?"),
        ("playbook:", "mean playbook?"),
        ("vlm:x", "mean vllm:PATH_OR_NAME?"),
        ("vllm", "mean vllm:PATH_OR_NAME?"),
        ("htp://n1/v1#m", "lacks http://"),
        ("n1:8000/v1#m", "lacks http://"),
        ("http://n1:8000/v1", " http://n1:8000/v1#NAME"),
        ("http://n1:8000/v1#", " http://n1:8000/v1#NAME"),
        ("http://n1:8000/v1# ", " http://n1:8000/v1#NAME"),
        ("http://#m", "no address"),
        ("http://n1:port/v1#m", "no address"),
        ("http://n1:99999/v1#m", "no address"),
        ("http://[::1/v1#m", "no address"),
        ("http://n 1/v1#m", "no address"),
        ("http://né/v1#m", "no address"),
        ("http:n1#m", "no address"),
        ("http://n1/v1/chat/completions#m", "leave /chat/completions out"),
        ("http://me:secret@n1/v1#m", "HPCSCI_API_KEY"),
        ("http://n1/v1?key=secret#m", "HPCSCI_API_KEY"),
        ("me:secret@n1/v1#m", "lacks http://"),
        ("me:secret@n1/v1", "lacks http://"),
    ],
)
def test_invalid_specs(spec: str, said: str) -> None:
    with pytest.raises(ModelSpecError) as caught:
        parse_spec(spec)
    message = str(caught.value)
    assert said in message
    assert "\n" not in message
    assert "secret" not in message
    if "valid forms" in message:
        assert all(form in message for form in FORMS)


def test_open_playbooks(tmp_path: Path) -> None:
    for name in ("own.jsonl", "given.jsonl"):
        (tmp_path / name).write_text('{"idea": 1, "stage": "propose", "text": "x"}\n')
    own = tmp_path / "own.jsonl"
    model = open_model("playbook", own, SETTINGS)
    assert isinstance(model, PlaybookModel)
    assert model.name == "playbook:own.jsonl"
    given = open_model(f"playbook:{tmp_path / 'given.jsonl'}", own, SETTINGS)
    assert given.name == "playbook:given.jsonl"
    with pytest.raises(ModelSpecError, match=r"\bplaybook:FILE .*--model$"):
        open_model("playbook", None, SETTINGS)


async def test_open_an_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HPCSCI_API_KEY", "k")
    model = open_model("http://n1:8000/v1#tiny", None, SETTINGS)
    assert isinstance(model, OpenAIModel)
    assert model.name == "tiny"
    await model.close()


@pytest.mark.parametrize(
    ("spec", "said"), [("search", "^search .*control"), ("vllm:x", "give http://HOST:PORT")]
)
def test_what_is_not_opened_here(spec: str, said: str) -> None:
    with pytest.raises(ModelSpecError, match=said):
        open_model(spec, None, SETTINGS)
