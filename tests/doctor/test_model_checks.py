"""What the doctor says of models that would be served; clusters by the text Slurm would print."""

from __future__ import annotations

import json
import os
import re
import struct
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from hpcscientist.cli.main import run
from hpcscientist.config.settings import Settings
from hpcscientist.doctor import model, places, slurm
from hpcscientist.doctor.check import CheckState
from hpcscientist.doctor.compute.records import NodeReport, Scratch
from hpcscientist.models.serving.checking.interpreter import INSTALL, ServingEngine, command
from hpcscientist.models.serving.checking.weights import Checkpoint, check
from hpcscientist.records.site import ControllerSite, ServingSite, Site, SlurmSite

SCONTROL = """\
PartitionName=cpu
   Default=YES MaxNodes=UNLIMITED State=UP

PartitionName=gpu
   Default=NO MaxNodes=2 State=UP

PartitionName=odd
   Default=NO MaxNodes=UNLIMITED State=UP
"""
SINFO = """\
cpu|0/4/0/4|64|256000|(null)
gpu|1/3/0/4|64|512000|gpu:a100:4(S:0-1)
gpu|0/0/1/1|64|512000|gpu:h100:8
odd|0/1/0/1|64|512000|gpu:mystery:2
"""
CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
    "dtype": "bfloat16",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a model of two small tensors."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", os.devnull)
    path = tmp_path / "m"
    path.mkdir()
    for name, said in (
        ("config.json", CONFIG),
        ("generation_config.json", {}),
        ("tokenizer.json", {"model": {}}),
        ("tokenizer_config.json", {"chat_template": "{{ messages }}"}),
    ):
        (path / name).write_text(json.dumps(said))
    header = json.dumps({"a": {"dtype": "BF16", "shape": [8], "data_offsets": [0, 16]}}).encode()
    (path / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + bytes(16))
    return path


@pytest.fixture
def large(folder: Path) -> Checkpoint:
    """The same with the weights of 8 billion numbers."""
    floats = 8_000_000_000
    update = {"floats": floats, "outside_floats": 10**9, "weight_bytes": 2 * floats}
    return check(folder).model_copy(update=update)


def report(**given: object) -> NodeReport:
    said: dict[str, object] = {
        "node": "g1",
        "written_at": 0.0,
        "python": "3.11.2",
        "executable": "python3",
        "package": "1",
        "cpus": 8,
        "memory_mb": 65536,
        "apptainer": "",
        "namespaces": True,
        "fuse": True,
        "gpus": (),
        "scratch": Scratch(path="/tmp"),
        "unseen": (),
        "exclusive": True,
        "rehearsals": (),
    }
    return NodeReport.model_validate(said | given)


def states(
    checkpoint: Checkpoint, name: str, found: NodeReport | None = None, nodes: int = 0
) -> dict[str, tuple[CheckState, str]]:
    where = places.places_of(slurm.parse(SCONTROL, SINFO), name, found)
    lines = model.fits([checkpoint], where, Settings(nodes=nodes))
    return {line.name: (line.state, line.found + line.mend) for line in lines}


def test_partitions_with_gpus_and_the_chosen_one_are_tried(large: Checkpoint) -> None:
    found = states(large, "")
    assert set(found) == {"m on cpu", "m on gpu (4 a100 a node)", "m on odd (2 mystery a node)"}
    state, said = found["m on gpu (4 a100 a node)"]
    assert state is CheckState.OK
    assert "--nodes 1: " in said
    assert "smallest a100" in said
    assert found["m on cpu"][0] is CheckState.OK


def test_unknown_gpus_are_a_warning_that_says_so(large: Checkpoint) -> None:
    state, said = states(large, "gpu")["m on odd (2 mystery a node)"]
    assert state is CheckState.WARNING
    assert re.search("memory .*not known: .*'mystery'", said)
    assert "--gpus 1" in said


def test_what_the_driver_says_beats_the_name(large: Checkpoint) -> None:
    there = report(gpus=("NVIDIA A100-SXM4-80GB",), gpu_memory_mb=(81920,))
    state, said = states(large, "gpu", there)["m on gpu (4 a100 a node)"]
    assert state is CheckState.OK
    assert "driver of g1" in said
    assert "80.0 GiB" in said


def test_model_that_fits_nowhere_says_why(large: Checkpoint) -> None:
    huge = large.model_copy(update={"floats": 400 * 10**9})
    found = states(huge, "gpu")
    state, said = found["m on gpu (4 a100 a node)"]
    assert state is CheckState.MISSING
    assert "lacks" in said
    assert "--nodes" in said
    assert states(huge, "odd")["m on gpu (4 a100 a node)"][0] is CheckState.WARNING


def test_fewest_nodes_that_hold_it_are_named(large: Checkpoint) -> None:
    wide = large.model_copy(update={"floats": 90 * 10**9})
    assert "--nodes 2" in states(wide, "gpu")["m on gpu (4 a100 a node)"][1]


def test_more_nodes_than_there_are(large: Checkpoint) -> None:
    state, said = states(large, "gpu", nodes=3)["m on gpu (4 a100 a node)"]
    assert state is CheckState.WARNING
    assert "only 2 nodes" in said


def test_this_machine_with_and_without_gpus(large: Checkpoint) -> None:
    here = places.here(Site())
    alike = here.machine.model_copy(update={"gpus": 0, "memory_mb": 24_000, "short_numbers": True})
    bare = replace(here, machine=alike)  # whatever this machine is
    (line,) = model.fits([large], [bare], Settings())
    assert (line.name, line.state) == ("m on this machine", CheckState.OK)
    assert "CPU engine" in line.found
    assert "--nodes" not in line.found
    for memory_mb, state in ((8192, CheckState.MISSING), (0, CheckState.WARNING)):
        gpu = bare.machine.model_copy(update={"gpus": 1, "gpu_memory_mb": memory_mb})
        (line,) = model.fits([large], [replace(bare, machine=gpu)], Settings())
        assert line.state is state


@pytest.mark.parametrize("with_job", [True, False], ids=["job", "no job"])
@pytest.mark.parametrize("slurm", ["none", "silent"])
def test_where_no_cluster_answers_models_are_served_here_as_a_launch_would(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    slurm: str,
    with_job: bool,
) -> None:
    if slurm == "silent":
        for name in ("sbatch", "scontrol", "sinfo", "squeue", "scancel"):
            (folder / name).write_text("#!/bin/sh\nexit 1\n")
            (folder / name).chmod(0o755)
        monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
    run(["doctor", "--json", "--model", "vllm:m", *(() if with_job else ("--no-job",))])
    said = {line["name"]: line for line in json.loads(capfd.readouterr().out)}
    assert said["m on this machine"]["state"] == "ok"
    assert "serving" not in said


ENGINE = ServingEngine(python="3.11.2", vllm="0.32.0", ray="2.60.0", known=True, writes=True)


@pytest.mark.parametrize(
    ("engine", "found", "mend"),
    [
        (ENGINE, "vLLM 0.32.0 and Ray 2.60.0 (tried together)", ""),
        (ENGINE.model_copy(update={"vllm": "0.320"}), "together: vLLM 0.32", ""),
        (ENGINE.model_copy(update={"ray": "2.6"}), "together: vLLM 0.32", ""),
        (
            ENGINE.model_copy(update={"lacks": ("vllm.x", "b")}),
            "without vllm.x",
            r"take .*vLLM 0\.32",
        ),
        (ServingEngine(python="3.11.2", fault="no module"), "no module", re.escape(INSTALL)),
        (ENGINE.model_copy(update={"ray": ""}), "no Ray", re.escape(INSTALL)),
        (ENGINE.model_copy(update={"known": False}), "know Llama", "take .*newer vLLM"),
        (ENGINE.model_copy(update={"writes": False}), "writes no", "take .*causal"),
    ],
)
def test_engine(large: Checkpoint, engine: ServingEngine, found: str, mend: str) -> None:
    (line,) = model.engine(large, ("python3",), engine)
    assert (line.state is CheckState.OK) is (mend == "")
    assert found in line.found
    assert re.match(mend, line.mend)


def doctor(capfd: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, list[str]]]:
    code = run(["doctor", "--json", *arguments])
    rows: dict[str, list[str]] = {}
    for row in json.loads(capfd.readouterr().out):
        rows.setdefault(row["name"], []).append(f"{row['state']}: {row['found']} {row['mend']}")
    return code, rows


def test_doctor_reads_a_model_as_the_engine_does(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """config.json says nothing of layers that is known here."""
    unheard = {"architectures": ["NewForCausalLM"], "text_config": {"depth": 2}}
    (folder / "config.json").write_text(json.dumps(unheard))
    read = {"num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 64, "vocab_size": 128}
    knows = ENGINE.model_copy(update={"config": read | {"max_position_embeddings": 1024}})
    python = folder.parent / "python"
    python.write_text(f"#!/bin/sh\necho '{knows.model_dump_json()}'\n")
    python.chmod(0o755)
    (folder.parent / "site.toml").write_text(f'[serving]\npython = "{python}"\n')
    _, rows = doctor(capfd, "--model", "vllm:m", "--site", "site.toml")
    assert "NewForCausalLM" in rows["model m"][0]
    assert "context 1024;" in rows["model m"][0]
    assert "knows NewForCausalLM" in rows["serving engine"][0]


def test_doctor_looks_at_a_whole_model(
    folder: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder.parent / "site.toml").write_text(f'[serving]\npython = "{folder}/no-python"\n')
    code, rows = doctor(capfd, "--model", "vllm:m", "--site", "site.toml")
    assert "ok: " in rows["model m"][0]
    assert "LlamaForCausalLM" in rows["model m"][0]
    assert re.search("/no-python cannot .*: .*started: ", rows["serving engine"][0])
    assert INSTALL in rows["serving engine"][0]
    assert rows["m on this machine"]
    assert code == 1


def test_doctor_lists_all_that_is_missing(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (folder / "model.safetensors").write_bytes(b"")
    (folder / "tokenizer.json").unlink()
    code, rows = doctor(capfd, "--model", f"vllm:{folder}")
    said = rows[f"model {folder}"]
    assert len(said) == 2
    assert all(line.startswith("missing: ") for line in said)
    assert code == 1


def test_model_that_is_not_served_is_refused(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(["doctor", "--model", "search"]) == 2
    assert "give vllm:PATH" in capfd.readouterr().err


def test_hub_name_that_is_nowhere(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code, rows = doctor(capfd, "--model", "vllm:org/name")
    assert "hf download org/name" in rows["model org/name"][0]
    assert code == 1


def test_models_of_several_roles_are_laid_out_together(large: Checkpoint) -> None:
    """Each alone has all GPUs; together they share them, or do not fit."""
    other = large.model_copy(update={"folder": "/models/other"})
    where = places.places_of(slurm.parse(SCONTROL, SINFO), "gpu", None)
    lines = {line.name: line for line in model.fits([large, other], where, Settings(nodes=1))}
    line = lines["m, other on gpu (4 a100 a node)"]
    assert line.state is CheckState.OK
    assert "m: 2 replicas" in line.found
    assert "other: 2 replicas" in line.found
    wide = [one.model_copy(update={"floats": 60 * 10**9}) for one in (large, other)]
    alone = {line.name: line for line in model.fits(wide[:1], where, Settings(nodes=1))}
    assert alone["m on gpu (4 a100 a node)"].state is CheckState.OK
    lines = {line.name: line for line in model.fits(wide, where, Settings(nodes=1))}
    line = lines["m, other on gpu (4 a100 a node)"]
    assert line.state is CheckState.MISSING
    assert re.match("2 models .*not fit", line.found)


def test_what_a_launch_would_do_is_said_of_the_job_s_own_nodes(large: Checkpoint) -> None:
    site = Site(
        slurm=SlurmSite(gres="gpu:a100:{gpus}"),
        controller=ControllerSite(cpus=8, gpus=2, memory_mb=64_000),
    )
    (line,) = model.fits([large], [places.of_the_job(site, 2, None)], Settings(nodes=2))
    assert (line.name, line.state) == ("m on the job of --nodes", CheckState.OK)
    assert "of 4 GPUs" in line.found
    assert "their kind" in line.found
    there = report(gpus=("NVIDIA A10",), gpu_memory_mb=(8192,))
    (line,) = model.fits([large], [places.of_the_job(site, 2, there)], Settings(nodes=2))
    assert line.state is CheckState.MISSING


def test_nodes_on_which_a_model_fits_with_16_bits_alone_are_a_warning(large: Checkpoint) -> None:
    for memory_mb, state in ((24_000, CheckState.WARNING), (64_000, CheckState.OK)):
        site = Site(controller=ControllerSite(cpus=8, memory_mb=memory_mb))
        (line,) = model.fits([large], [places.of_the_job(site, 2, None)], Settings(nodes=2))
        assert line.state is state
        assert "fits with --nodes 2" in line.found
        assert ("AVX-512" in line.found) is (state is CheckState.WARNING)
        assert ("more memory" in line.mend) is (state is CheckState.WARNING)


def test_the_serving_interpreter(tmp_path: Path) -> None:
    assert command(Site()) == (sys.executable,)
    assert command(Site(slurm=SlurmSite(python="/opt/p"))) == ("/opt/p",)
    several = ServingSite(python="env A='b c' python3")
    assert command(Site(serving=several)) == ("env", "A=b c", "python3")
    spaced = tmp_path / "my python"
    spaced.touch()
    assert command(Site(serving=ServingSite(python=str(spaced)))) == (str(spaced),)
    inside = command(Site(serving=ServingSite(image="/i.sif", python="/opt/p")))
    assert inside[-2:] == ("/i.sif", "/opt/p")
    assert "apptainer" in inside


def test_an_interpreter_that_no_shell_could_read(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (folder.parent / "site.toml").write_text('[serving]\npython = "env \'A python3"\n')
    code, rows = doctor(capfd, "--model", "vllm:m", "--site", "site.toml")
    assert "No closing quotation" in rows["serving engine"][0]
    assert code == 1
