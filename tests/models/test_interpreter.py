"""The interpreter that would serve is asked, whatever it is."""

from __future__ import annotations

import ast
import importlib.util
import sys
from pathlib import Path

import pytest

import hpcscientist
from hpcscientist.models.serving.checking.interpreter import INSTALL, ask, reason, unsupported
from hpcscientist.models.serving.nodes import supported


def script(path: Path, text: str) -> tuple[str]:
    """Write a program that stands where an interpreter should."""
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return (str(path),)


def test_interpreter_without_the_engine_names_the_mend(tmp_path: Path) -> None:
    bare = (sys.executable, "-I", "-S")  # no installed packages
    said = unsupported("LlamaForCausalLM", bare)
    assert said is not None
    assert "no module vllm" in said
    assert said.endswith(INSTALL)
    assert ask("LlamaForCausalLM", bare).python == ".".join(map(str, sys.version_info[:3]))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("echo broken >&2; exit 3", "broken"),
        ("exit 0", "no answer"),
        ("echo noise; echo '{}'", "no answer"),
    ],
)
def test_answers_that_are_none(tmp_path: Path, text: str, said: str) -> None:
    assert said in (unsupported("LlamaForCausalLM", script(tmp_path / "python", text)) or "")


def test_interpreter_that_is_not_there_or_hangs(tmp_path: Path) -> None:
    assert "cannot be started" in (unsupported("A", (str(tmp_path / "none"),)) or "")
    slow = script(tmp_path / "python", "exec sleep 60")
    assert ask("A", slow, timeout_s=0.2).fault == "no answer within 0.2 s"


@pytest.mark.serving
@pytest.mark.parametrize(
    ("architecture", "said"),
    [
        ("LlamaForCausalLM", None),
        ("BertModel", "writes no text"),
        ("NoSuchForCausalLM", "does not know NoSuchForCausalLM"),
    ],
)
def test_real_engine_knows_its_models(architecture: str, said: str | None) -> None:
    if importlib.util.find_spec("vllm") is None:
        pytest.skip("vLLM is not installed: use an environment with torch, vLLM and Ray")
    found = unsupported(architecture, (sys.executable,))
    assert found is None if said is None else said in (found or "")


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
    found = ask("Llama", (sys.executable,))
    assert (found.vllm, found.known) == ("9.0", True)
    assert found.lacks[:2] == (supported.SERVERS[0], supported.ARGUMENTS[0])
    said = reason("Llama", ("python",), found.model_copy(update={"ray": "2.60.0"}))
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
