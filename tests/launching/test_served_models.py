"""A launch that is to serve models: what cannot be served is refused before anything is made."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from checkpoint_kit import write_json, write_model

from hpcscientist.cli.main import run
from hpcscientist.models.serving.checking.interpreter import ServingEngine

LAUNCH = ["launch", "--recipe", "digits", "--ideas", "2", "--backend", "local"]
LAUNCH += ["--run-dir", "run", "--allow-unsandboxed"]
KNOWS = ServingEngine(python="python", vllm="0.1", ray="2.1", known=True, writes=True)
UNHEARD = {"architectures": ["NewForCausalLM"], "text_config": {"depth": 2}}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with a model, and a site whose interpreter says it can serve it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HPCSCI_SERVING_KV_CACHE_GB", "0.25")
    write_model(tmp_path / "small", num_hidden_layers=2)
    return tmp_path


def engine(folder: Path, script: str) -> list[str]:
    """Options that name an interpreter of the engine's."""
    python = folder / "python"
    python.write_text(f"#!/bin/sh\n{script}\n")
    python.chmod(0o755)
    (folder / "site.toml").write_text(f'[serving]\npython = "{python}"\n')
    return ["--site", "site.toml"]


def refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The one line that a launch and its dry run say, after which nothing is there."""
    there = sorted(Path().iterdir())
    said = []
    for more in ([], ["--dry-run"]):
        assert (
            run([*LAUNCH, "--allow-unsandboxed", "--model", "vllm:small", *arguments, *more]) == 1
        )
        out, err = capsys.readouterr()
        assert (out, len(err.splitlines())) == ("", 1)
        said.append(err)
    assert said[0] == said[1]
    assert sorted(Path().iterdir()) == there
    return said[0]


def test_an_interpreter_without_an_engine(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bare = engine(folder, f'exec {sys.executable} -S -E "$@"')
    said = refused(bare, capsys)
    assert "cannot serve models" in said
    assert "set python in the site profile's [serving]" in said


def test_weights_that_are_not_whole(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "small" / "model-00002-of-00002.safetensors").unlink()
    assert "model-00002-of-00002.safetensors" in refused([], capsys)


def test_weights_that_are_cut_off(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    part = folder / "small" / "model-00002-of-00002.safetensors"
    part.write_bytes(part.read_bytes()[:-7])
    assert part.name in refused([], capsys)


def test_a_layout_that_this_machine_cannot_have(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HPCSCI_SERVING_TENSOR_PARALLEL", "7")
    says = engine(folder, f"echo '{KNOWS.model_dump_json()}'")
    assert "serving.tensor_parallel" in refused(says, capsys)


def test_what_the_engine_does_not_know(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_model(folder / "small", num_hidden_layers=2, architectures=["NoSuchForCausalLM"])
    knows = ServingEngine(python="python", vllm="0.1", ray="2.1")
    says = engine(folder, f"echo '{knows.model_dump_json()}'")
    assert "vLLM 0.1 does not know NoSuchForCausalLM" in refused(says, capsys)


def test_how_it_will_be_laid_out_is_shown(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    says = engine(folder, f"echo '{KNOWS.model_dump_json()}'")
    shown = [*LAUNCH, "--model", "vllm:small", *says, "--dry-run"]
    assert run(shown) == 0
    assert "served   small: " in capsys.readouterr().err


def test_what_the_engine_reads_decides_the_layout(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """config.json says nothing that is known here; the engine's own reading has it all."""
    write_json(folder / "small" / "config.json", UNHEARD)
    read = {"num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 64, "vocab_size": 128}
    knows = KNOWS.model_copy(update={"config": read | {"max_position_embeddings": 1024}})
    says = engine(folder, f"echo '{knows.model_dump_json()}'")
    assert run([*LAUNCH, "--model", "vllm:small", *says, "--dry-run"]) == 0
    assert "context 1024 tokens, the model's own" in capsys.readouterr().err


def test_what_nobody_can_read_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_json(folder / "small" / "config.json", UNHEARD)
    says = engine(folder, f"echo '{KNOWS.model_dump_json()}'")
    assert "says no num_hidden_layers" in refused(says, capsys)
