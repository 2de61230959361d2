"""The interpreter that would serve is asked, whatever it is."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from hpcscientist.models.serving.checking.interpreter import INSTALL, ask, unsupported


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
