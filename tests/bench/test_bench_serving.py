"""What `bench serving` compares, and one small run with the real engine; no time is asserted."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from checkpoint_kit import write_model

from hpcscientist.bench.serving import arms, figures, first
from hpcscientist.bench.serving.alone import Taken
from hpcscientist.bench.serving.arms import draw_requests
from hpcscientist.bench.serving.figures import ServingMeasurement
from hpcscientist.cli import bench as command
from hpcscientist.cli.main import run
from hpcscientist.config.settings import IDEATION, ServingSettings, Settings
from hpcscientist.errors import HpcsciError, ServingError, UsageError
from hpcscientist.models.serving.checking.interpreter import ServingEngine
from hpcscientist.models.serving.order import ServedModel
from hpcscientist.records.model_calls import ModelRequest
from hpcscientist.records.site import ServingSite, Site
from hpcscientist.system import processes

NEEDED = ("torch", "vllm", "ray", "transformers")
SERVED = ServedModel(
    name="m",
    folder="/nowhere",
    replicas=1,
    workers=1,
    within_node=True,
    bundle={},
    engine={},
    variables={},
)


def test_prompts_follow_from_their_seed_and_share_no_beginning() -> None:
    drawn = draw_requests("run1-3", 3, 100, 7, IDEATION)
    assert drawn == draw_requests("run1-3", 3, 100, 7, IDEATION)
    other = draw_requests("run2-3", 3, 100, 7, IDEATION)
    begins = [request.messages[0].content[:8] for request in (*drawn, *other)]
    assert len(set(begins)) == 6
    assert len({request.seed for request in (*drawn, *other)}) == 6
    assert len({request.subject for request in (*drawn, *other)}) == 6
    for request in drawn:
        assert len(request.messages[1].content) == 100
        assert 4 <= request.max_tokens <= 10
        assert request.ignore_eos
        assert request.temperature == IDEATION.temperature


def test_files_that_are_forgotten_are_intact(tmp_path: Path) -> None:
    file = tmp_path / "a" / "weights"
    file.parent.mkdir()
    file.write_bytes(b"x" * 100_000)
    (tmp_path / "a" / "link").symlink_to(file)
    os.mkfifo(tmp_path / "a" / "pipe")
    first.evict([tmp_path, tmp_path / "missing"])
    assert file.read_bytes() == b"x" * 100_000


def test_packages_are_those_of_the_interpreter() -> None:
    found = first.packages([sys.executable])
    assert any(Path(pytest.__file__).is_relative_to(folder) for folder in found)
    assert first.packages(["/bin/true"]) == []


def test_packages_may_lie_below_a_folder_with_spaces(tmp_path: Path) -> None:
    own = tmp_path / "my environment"
    venv.create(own)
    (found,) = first.packages([str(own / "bin" / "python")])
    assert found.is_relative_to(own)


def test_cores_are_given_back() -> None:
    own = figures.own_cores()
    with figures.only_cores(own[:1]):
        assert figures.own_cores() == own[:1]
        seen = subprocess.run(
            [sys.executable, "-c", "import os; print(len(os.sched_getaffinity(0)))"],
            capture_output=True,
            text=True,
            check=True,
        )
        assert seen.stdout == "1\n"
    assert figures.own_cores() == own


def test_cores_that_are_taken_are_those_of_all_processes_below() -> None:
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as busy:
        while not figures.cores_used(0.1):
            assert busy.poll() is None
        busy.kill()


class Counted:
    """An arm of its own pace. `asked`: each turn's requests in flight, all requests, tokens."""

    def __init__(self, seconds: float, turns: list[str], name: str, short: int = 0) -> None:
        self._seconds, self._turns, self._name, self._short = seconds, turns, name, short
        self.asked: list[tuple[int, int, int]] = []

    def run(self, requests: Sequence[ModelRequest], in_flight: int) -> Taken:
        tokens = sum(request.max_tokens for request in requests) - self._short
        self._turns.append(self._name)
        self.asked.append((in_flight, len(requests), tokens))
        return Taken(seconds=self._seconds, prompt_tokens=1, tokens=tokens)


def measured(tmp_path: Path, said: list[str]) -> ServingMeasurement:
    options = figures.ServingOptions(
        folder=tmp_path, site=Site(), settings=Settings(), in_flight=(1, 4), tokens=16, runs=2
    )
    return ServingMeasurement(options, arms.ServingGround(tmp_path, tmp_path, Site(), said.append))


def test_arms_take_turns_and_the_first_round_only_warms_up(tmp_path: Path) -> None:
    turns: list[str] = []
    whole, alone = Counted(2.0, turns, "whole"), Counted(1.0, turns, "alone")
    rates = measured(tmp_path, [])._rates({"whole": whole, "alone": alone})
    assert whole.asked == alone.asked
    sizes = [(in_flight, count) for in_flight, count, _ in whole.asked]
    assert sizes == [(1, 1), (4, 4), (1, 4), (4, 16), (1, 4), (4, 16)]
    asked = {(1, 0): 2, (1, 1): 4, (4, 0): 3, (4, 1): 5}  # in flight and run, by turn
    for (in_flight, number), turn in asked.items():
        tokens = whole.asked[turn][2]
        assert rates["whole"][in_flight][number] == tokens / 2.0
        assert rates["alone"][in_flight][number] == tokens / 1.0
    one, other = ["whole", "alone"], ["alone", "whole"]
    assert turns == [*one, *one, *other, *other, *one, *one]


def test_replies_that_were_cut_short_are_no_figure(tmp_path: Path) -> None:
    arm = Counted(1.0, [], "whole", short=1)
    with pytest.raises(ServingError, match="give fewer --tokens"):
        measured(tmp_path, [])._rates({"whole": arm})


def test_sizes_for_a_gpu_are_for_machines_that_have_one(tmp_path: Path) -> None:
    options = figures.ServingOptions(
        folder=tmp_path, site=Site(), settings=Settings(), **(figures.ON_GPU | {"tokens": 16})
    )
    assert (options.in_flight, options.tokens, options.parts) == (
        (1, 8, 64, 256),
        16,
        ("throughput",),
    )
    said = ServingMeasurement(options, arms.ServingGround(tmp_path, tmp_path, Site(), print))
    said._gpus = 0
    with pytest.raises(UsageError, match="--gpu"):
        said.check()


def test_a_rate_stands_beside_the_others_median(tmp_path: Path) -> None:
    found = measured(tmp_path, [])._rate("n", [9.0, 8.0, 1.0], "alone", [10.0, 10.0, 99.0], 0.9)
    assert (found.value, found.ratio, found.spread, found.runs) == (8.0, 0.8, 8.0, 3)
    assert found.compared_with == "alone: 10 tokens/s"
    assert (found.target, found.at_least, found.is_met) == (0.9, True, False)


def test_two_replicas_that_do_not_fit_are_refused_before_anything_starts(tmp_path: Path) -> None:
    write_model(tmp_path / "model")
    for parts in (("throughput", "replicas"), ("start",)):
        options = figures.ServingOptions(
            folder=tmp_path,
            site=Site(),
            settings=Settings(serving=ServingSettings(pipeline_parallel=2)),
            parts=parts,
        )
        ground = arms.ServingGround(tmp_path, tmp_path / "model", Site(), lambda text: None)
        with pytest.raises(HpcsciError) as caught:
            ServingMeasurement(options, ground).check()
        assert isinstance(caught.value, UsageError) is ("replicas" in parts)


def site_of(folder: Path, script: str) -> Site:
    file = folder / "my python"
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)
    return Site(serving=ServingSite(python=str(file)))


def test_an_engine_that_ends_is_reported_with_its_last_words(tmp_path: Path) -> None:
    site = site_of(tmp_path, "echo 'no memory' >&2; exit 3")
    ground = arms.ServingGround(tmp_path, tmp_path, site, lambda text: None)
    with (
        pytest.raises(ServingError, match="status 3: no memory"),
        arms.alone(ground, SERVED),
    ):
        pass


def test_an_engine_that_does_not_end_is_ended_with_its_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    halt = processes.halt

    def patient(roots: Iterable[int]) -> list[int]:
        """From here on what is waited for is the end of those that were killed."""
        monkeypatch.setattr(arms, "_END_S", 300.0)
        return halt(roots)

    monkeypatch.setattr(arms, "_END_S", 2.0)
    monkeypatch.setattr(processes, "halt", patient)
    answer = '{"dtype":"d","max_num_seqs":1,"max_num_batched_tokens":1,"chunked_prefill":false,'
    answer += '"executor":"mp"}'
    site = site_of(tmp_path, f"read it; echo '{answer}'; sleep 600 & echo $! >{tmp_path}/pid; wait")
    ground = arms.ServingGround(tmp_path, tmp_path, site, lambda text: None)
    with arms.alone(ground, SERVED) as engine:
        assert engine.resolved.executor == "mp"
        while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
            pass
    assert not processes.is_alive(int((tmp_path / "pid").read_text()))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--model", "playbook"], "vllm:PATH"),
        (["--model", "vllm:nowhere"], "nowhere"),
        (["--part", "all"], "'throughput', 'start', 'replicas'"),
        (["--requests", "0"], "'--requests'"),
        (["--dir", "nowhere"], "'--dir'"),
        (["--gpu", "--model", "vllm:nowhere"], "nowhere"),
    ],
)
def test_bad_input_is_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    words: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["bench", "serving", *arguments]) in {1, 2}
    out, err = capsys.readouterr()
    assert out == ""
    assert words in err
    assert list(tmp_path.iterdir()) == []


def test_an_interpreter_without_an_engine_is_named_with_the_fix(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "site.toml").write_text('[serving]\npython = "/bin/false"\n')
    assert run(["bench", "serving", "--site", "site.toml"]) == 1
    err = capsys.readouterr().err
    assert re.search("/bin/false .*model", err)
    assert "pip install 'hpcscientist[serving]'" in err
    assert [path.name for path in tmp_path.iterdir()] == ["site.toml"]


def test_an_interpreter_may_be_a_command_and_have_spaces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (python,) = arms.ServingGround(tmp_path, tmp_path, site_of(tmp_path, ""), print).python
    assert python == str(tmp_path / "my python")
    command = f"'{site_of(tmp_path, 'echo $1 >&2; exit 1').serving.python}' exec"
    (tmp_path / "site.toml").write_text(f'[serving]\npython = "{command}"\n')
    assert run(["bench", "serving", "--site", "site.toml"]) == 1
    assert re.search(f"{re.escape(command)} .*model: exec; ", capsys.readouterr().err)


def test_an_engine_in_an_image_is_refused_with_the_fix(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "site.toml").write_text('[serving]\nimage = "/images/vllm.sif"\n')
    assert run(["bench", "serving", "--site", "site.toml"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert re.search(r"serving\.image: .*--site .*\bpython\b.*\[serving\]", line)
    assert [path.name for path in tmp_path.iterdir()] == ["site.toml"]


def test_a_first_token_that_does_not_come_is_said_why(tmp_path: Path) -> None:
    model = write_model(tmp_path / "small", num_hidden_layers=2)
    place = tmp_path / "bench"
    place.mkdir()
    said: list[str] = []
    # It answers what is asked of an engine, and is none.
    knows = ServingEngine(
        python="3", vllm="0.1", ray="2.1", known=True, writes=True
    ).model_dump_json()
    site = site_of(tmp_path, f"[ \"$1\" = -c ] && echo '{knows}'")
    ground = arms.ServingGround(place, model, site, said.append)
    with pytest.raises(ServingError, match="first token: "):
        first.seconds(ground, Settings(serving=ServingSettings(kv_cache_gb=0.1)))
    assert any(line.startswith("small: ") for line in said)
    assert processes.naming(tmp_path, below=True) == []


def test_the_command_line_knows_the_same_parts() -> None:
    assert command._SERVING == figures.PARTS


def start(folder: Path, *arguments: str, temporary: str = "") -> subprocess.Popen[str]:
    if not all(importlib.util.find_spec(name) for name in NEEDED):
        pytest.skip("NOT TESTED: torch, vLLM and Ray are not installed; tests/serving_environment")
    asked = ["bench", "serving", "--json", "--dir", str(folder), *arguments]
    settings = {"HPCSCI_SERVING_KV_CACHE_GB": "1", "HPCSCI_SERVING_EAGER": "true"}
    settings |= {"TMPDIR": temporary} if temporary else {}
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "hpcscientist.cli.main", *asked],
        env=os.environ | settings,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def leaves_nothing(folder: Path) -> bool:
    return list(folder.iterdir()) == [] and processes.naming(folder, below=True) == []


@pytest.mark.serving
@pytest.mark.timeout(1800)
def test_a_small_run_with_the_real_engine(tmp_path: Path) -> None:
    sizes = ["--requests", "1", "--requests", "3", "--tokens", "4", "--prompt", "40", "--runs", "2"]
    with tempfile.TemporaryDirectory(prefix="t") as temporary:  # short, for names of sockets
        process = start(tmp_path, "--part", "throughput", *sizes, temporary=temporary)
        out, err = process.communicate()
        assert list(Path(temporary).iterdir()) == []
    assert process.returncode == 0, err
    rows: list[dict[str, Any]] = json.loads(out)
    assert [row["name"] for row in rows] == [
        "tokens per second, 1 in flight",
        "tokens per second, 3 in flight",
        "first token",
        "a plane at rest",
    ]
    assert 0 < rows.pop()["value"] <= len(figures.own_cores())
    for row in rows:
        assert row["value"] > 0
        assert row["ratio"] > 0
        assert row["runs"] == (1 if row["name"] == "first token" else 2)
        assert row["compared_with"].startswith("vLLM alone: ")
    assert leaves_nothing(tmp_path)


@pytest.mark.serving
@pytest.mark.timeout(1800)
def test_a_signal_ends_it_whole(tmp_path: Path) -> None:
    process = start(tmp_path, "--part", "start")
    assert process.stderr is not None
    while "imports the engine" not in (line := process.stderr.readline()):
        assert line, process.wait()
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate()
    assert process.returncode == 130, err
    assert out == ""
    assert leaves_nothing(tmp_path)
