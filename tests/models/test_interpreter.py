"""The interpreter that would serve is asked, whatever it is."""

from __future__ import annotations

import ast
import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from checkpoint_kit import write_json, write_model

import hpcscientist
from hpcscientist.models.serving.checking.interpreter import INSTALL, ask, reason
from hpcscientist.models.serving.checking.weights import check
from hpcscientist.models.serving.nodes import supported


def unsupported(folder: Path, python: Sequence[str]) -> str:
    return reason(folder, python, ask(folder, python)) or ""


def require_vllm() -> None:
    if importlib.util.find_spec("vllm") is None:
        pytest.skip("vLLM is not installed: use an environment with torch, vLLM and Ray")


def script(path: Path, text: str) -> tuple[str]:
    """Write a program that stands where an interpreter should."""
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return (str(path),)


def test_interpreter_without_the_engine_names_the_fix(tmp_path: Path) -> None:
    bare = (sys.executable, "-I", "-S")  # no installed packages
    said = unsupported(tmp_path, bare)
    assert "module vllm" in said
    assert said.endswith(INSTALL)
    assert ask(tmp_path, bare).python == ".".join(map(str, sys.version_info[:3]))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("echo broken >&2; exit 3", "broken"),
        ("exit 0", "no answer"),
        ("echo noise; echo '{}'", "no answer"),
    ],
)
def test_answers_that_are_none(tmp_path: Path, text: str, said: str) -> None:
    assert said in unsupported(tmp_path, script(tmp_path / "python", text))


def test_interpreter_that_is_not_there_or_hangs(tmp_path: Path) -> None:
    assert "be started: " in unsupported(tmp_path, (str(tmp_path / "none"),))
    slow = script(tmp_path / "python", "exec sleep 60")
    assert ask(tmp_path, slow, timeout_s=0.2).fault.endswith(" 0.2 s")


def test_the_engine_is_given_config_json_and_is_asked_once(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "m")
    answer = '{"python": "3", "vllm": "1", "config": {"num_hidden_layers": 7}}'
    counting = f"cat > {tmp_path}/config; echo x >> {tmp_path}/asked; echo '{answer}'"
    python = script(tmp_path / "python", counting)
    for _ in range(2):
        assert ask(folder, python).config == {"num_hidden_layers": 7}
    assert (tmp_path / "config").read_text() == (folder / "config.json").read_text()
    assert (tmp_path / "asked").read_text() == "x\n"


@pytest.mark.serving
@pytest.mark.parametrize(
    ("architecture", "said"),
    [
        ("LlamaForCausalLM", ""),
        ("BertModel", "BertModel writes"),
        ("NoSuchForCausalLM", "know NoSuchForCausalLM"),
    ],
)
def test_real_engine_knows_its_models(architecture: str, said: str, tmp_path: Path) -> None:
    require_vllm()
    folder = write_model(tmp_path / "m", architectures=[architecture])
    found = unsupported(folder, (sys.executable,))
    assert said in found if said else not found


@pytest.mark.serving
def test_real_engine_says_what_config_json_leaves_out(tmp_path: Path) -> None:
    """LLaVA's text model is Llama's in all that is not said; one layer of eight of Jamba's has
    attention.
    """
    require_vllm()
    llava = write_model(tmp_path / "llava")
    text = {"model_type": "llama", "vocab_size": 32_064}
    config = {"architectures": ["LlavaForConditionalGeneration"], "model_type": "llava"}
    write_json(llava / "config.json", config | {"text_config": text})
    whole = check(llava, ask(llava, (sys.executable,)).config)
    assert [(kept.heads, kept.size) for kept in whole.caches] == [(32, 256)] * 32
    sizes = {"num_hidden_layers": 16, "attn_layer_period": 8, "attn_layer_offset": 4}
    jamba = write_model(tmp_path / "jamba", model_type="jamba", **sizes)
    found = ask(jamba, (sys.executable,)).config
    assert [n for n, kept in enumerate(check(jamba, found).caches) if kept.heads] == [4, 12]
    assert found["layers_block_type"][4] == "attention"


def test_an_engine_that_keeps_its_server_elsewhere_is_seen_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a vLLM might that is newer than all that were tried."""
    for package in ("vllm", "vllm/entrypoints", "vllm/model_executor/models"):
        (tmp_path / package).mkdir(parents=True)
        (tmp_path / package / "__init__.py").write_text("__version__ = '9.0'\n")
    registry = "class ModelRegistry:\n    get_supported_archs = staticmethod(lambda: ['Llama'])\n"
    (tmp_path / "vllm/model_executor/models/registry.py").write_text(registry)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    folder = write_model(tmp_path / "m", architectures=["Llama"])
    found = ask(folder, (sys.executable,))
    assert (found.vllm, found.known) == ("9.0", True)
    assert found.lacks[:2] == (supported.SERVERS[0], supported.ARGUMENTS[0])
    said = reason(folder, ("python",), found.model_copy(update={"ray": "2.60.0"}))
    assert said is not None
    assert supported.SERVERS[0] in said


def test_ray_s_own_serving_of_models_is_not_used() -> None:
    """Each release of it goes with one release of vLLM; Ray itself goes with any."""
    package = Path(hpcscientist.__file__).parent
    used = {
        name
        for path in package.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [f"{node.module}.{alias.name}" for alias in node.names]
            if isinstance(node, ast.ImportFrom)
            else []
        )
        if name.partition(".")[0] == "ray"
    }
    assert used == {"ray"}
