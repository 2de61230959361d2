"""A launch that is to serve models: what cannot be served is refused before anything is made."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
import queue_stand_in
from checkpoint_kit import write_json, write_model

from hpcscientist.cli.main import run
from hpcscientist.config.settings import ServingSettings, Settings
from hpcscientist.errors import ServingError
from hpcscientist.launching import launch
from hpcscientist.launching.serving import colocated_trials, models
from hpcscientist.models.serving.checking import interpreter
from hpcscientist.models.serving.checking.interpreter import ServingEngine
from hpcscientist.recipe.schema import Resources
from hpcscientist.records.site import ControllerSite, ServingSite, Site

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
    assert "cannot serve" in said
    assert interpreter.INSTALL in said


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
    assert re.search(r"vLLM 0\.1 .*know NoSuchForCausalLM", refused(says, capsys))


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
    knows = KNOWS.model_copy(update={"config": READ})
    says = engine(folder, f"echo '{knows.model_dump_json()}'")
    assert run([*LAUNCH, "--model", "vllm:small", *says, "--dry-run"]) == 0
    assert re.search("context 1024 tokens, .* own$", capsys.readouterr().err, re.MULTILINE)


NODES = ControllerSite(cpus=16, memory_mb=64_000)
READ = {"num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 64, "vocab_size": 128}
READ |= {"max_position_embeddings": 1024}


def of_nodes(folder: Path, script: str) -> Site:
    """A site whose interpreter runs a script and notes that it was asked."""
    engine(folder, f"echo asked >> {folder}/asked; {script}")
    return Site(controller=NODES, serving=ServingSite(python=str(folder / "python")))


def test_shapes_that_only_the_engine_reads_are_asked_for_nodes(folder: Path) -> None:
    """By launches whose engine runs in a job: the layout, also beside trials, and the refusals."""
    write_json(folder / "small" / "config.json", UNHEARD)
    site = of_nodes(folder, f"echo '{KNOWS.model_copy(update={'config': READ}).model_dump_json()}'")
    model, serving = (folder / "small",), ServingSettings(trials_inside=True)
    read = models.ask_engine(model, site)
    assert read == {model[0]: READ}
    assert "context 1024 tokens" in "".join(models.forecast(model, serving, site, 2, read))
    assert models.requests_at_once(model, serving, site, 2, read) > 0
    settings, needs = Settings(nodes=2, serving=serving), Resources(memory_mb=1_000, cpus=8)
    divided = colocated_trials.check(settings, site, needs, model)
    assert divided.at_once == 4
    assert "context 1024 tokens" in "".join(divided.lines)
    with pytest.raises(ServingError, match=r"3000 MiB .*not fit"):
        tight = site.model_copy(update={"controller": ControllerSite(cpus=4, memory_mb=6_000)})
        colocated_trials.check(settings, tight, Resources(memory_mb=3_000), model)


def test_shapes_that_nobody_reads_here_are_left_to_the_job(folder: Path) -> None:
    write_json(folder / "small" / "config.json", UNHEARD)
    site, model, serving = of_nodes(folder, "exit 1"), (folder / "small",), ServingSettings()
    read = models.ask_engine(model, site)
    (line,) = models.forecast(model, serving, site, 2, read)
    assert "num_hidden_layers" in line
    assert models.requests_at_once(model, serving, site, 2, read) == 0
    inside = Settings(nodes=2, serving=ServingSettings(trials_inside=True))
    divided = colocated_trials.check(inside, site, Resources(memory_mb=1_000, cpus=8), model)
    assert divided.at_once == 4
    assert "num_hidden_layers" in divided.lines[0]


def test_no_engine_is_started_for_shapes_that_are_read_here(folder: Path) -> None:
    site = of_nodes(folder, "exit 1")
    assert models.ask_engine((folder / "small",), site) == {}
    assert not (folder / "asked").exists()


def test_a_launch_with_nodes_asks_the_engine(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    queue_stand_in.install(folder, monkeypatch)
    write_json(folder / "small" / "config.json", UNHEARD)
    of_nodes(folder, f"echo '{KNOWS.model_copy(update={'config': READ}).model_dump_json()}'")
    with (folder / "site.toml").open("a") as site:
        site.write("[controller]\ncpus = 16\nmemory_mb = 64000\n")
    settings = Settings(
        model="vllm:small", backend="slurm", site="site.toml", nodes=2, allow_unsandboxed=True
    )
    assert "context 1024 tokens" in "".join(launch.check(settings, folder).layout)


def test_what_nobody_can_read_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_json(folder / "small" / "config.json", UNHEARD)
    says = engine(folder, f"echo '{KNOWS.model_dump_json()}'")
    assert "says no num_hidden_layers" in refused(says, capsys)
