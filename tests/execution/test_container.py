from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
from trialkit import CAMPAIGN, Bench, contained

from hpcscientist.execution import trial
from hpcscientist.execution.bounds.supervise import CommandEnd, Reason
from hpcscientist.execution.sandbox.container import (
    BEGUN,
    Places,
    apptainer_command,
    note,
    of_candidate,
    start_failure,
    unbindable,
    unreadable,
)
from hpcscientist.execution.trial_outcome import classify_failure
from hpcscientist.records.site import Host
from hpcscientist.records.trial import IdeaFailed, MachineFailed, MachineFailure

INSIDE = [
    "CUDA_VISIBLE_DEVICES=",
    f"HPCSCI_CAMPAIGN={CAMPAIGN}",
    "HPCSCI_TRIAL=trial-1",
    "HOME=/work",
    "LANG=C.UTF-8",
    "MKL_NUM_THREADS=1",
    "MPLBACKEND=Agg",
    "NUMEXPR_NUM_THREADS=1",
    "OMP_NUM_THREADS=1",
    "OPENBLAS_NUM_THREADS=1",
    "PYTHONDONTWRITEBYTECODE=1",
    "PYTHONHASHSEED=7",
    "TMPDIR=/work",
]


def places(image: str = "/i.sif", **changes: Any) -> Places:
    known: dict[str, Any] = {"code": Path("/s/code"), "data": Path("/d"), "out": Path("/r/out")}
    return Places(image, **(known | {"work": Path("/s/work")} | changes))


def test_one_of_several_processes_sees_its_parts_alone(bench: Bench) -> None:
    spec = contained(bench.trial("predict()"), "/i.sif")
    parts = {"train": Path("/d/train"), "fit": Path("/s/handed/fit")}
    line = apptainer_command(spec, places(parts=parts), {}, process="encode")
    binds = [line[at + 1] for at, word in enumerate(line) if word == "--bind"]
    assert [bind for bind in binds if ":/data" in bind] == [
        "/d/train:/data/train:ro",
        "/s/handed/fit:/data/fit:ro",
    ]
    assert line[-2:] == ["--process", "encode"]


def test_command(bench: Bench) -> None:
    spec = contained(bench.trial("predict()"), "/images/digits.sif")
    line = apptainer_command(spec, places("/node/copy.sif"), {})
    at = line.index("-c")
    del line[at - 1 : at + 3]  # the shell that says when the container has started
    assert line == [
        *("apptainer", "--silent", "exec", "--containall", "--no-home"),
        *("--no-mount", "sys,bind-paths", "--net", "--network", "none"),
        *("--pwd", "/work"),
        *("--bind", "/s/code:/code:ro"),
        *("--bind", "/d:/data:ro"),
        *("--bind", "/r/out:/out"),
        *("--bind", "/s/work:/work", "--bind", "/s/work:/tmp"),
        *("--bind", "/s/work:/var/tmp", "--bind", "/s/work:/dev/shm"),
        "/node/copy.sif",
        *("env", *sorted(INSIDE)),
        *("python3", "-B", "/code/experiment.py"),
        *("--data", "/data", "--out", "/out", "--seed", "7"),
        *("--budget", "full", "--split", "validation"),
    ]


def test_root_and_gpus(bench: Bench) -> None:
    spec = contained(bench.trial("predict()", gpus=1), "/i.sif")
    host = {"CUDA_VISIBLE_DEVICES": "0,1", "OPENAI_API_KEY": "secret"}
    line = apptainer_command(spec, places(), host, is_root=True)
    assert line[5:7] == ["--no-mount", "bind-paths"]
    assert line[10:14] == ["--no-privs", "--security", "uid:65534,gid:65534", "--nv"]
    assert "CUDA_VISIBLE_DEVICES=0,1" in line
    assert not any("secret" in part for part in line)


def test_what_a_site_adds(bench: Bench) -> None:
    spec = contained(bench.trial("predict()"), "/i.sif")
    spec = spec.model_copy(update={"host": Host(network="open")})
    line = apptainer_command(spec, places(more=(("/sw/a", "/sets"), ("/b", "/b"))), {})
    assert "--network" not in line
    assert "--net" not in line
    at = line.index("--bind")
    assert line[at : at + 5] == ["--bind", "/sw/a:/sets:ro", "--bind", "/b:/b:ro", "--bind"]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"code": Path("/b:c")}, "cannot bind /b:c"),
        ({"work": Path("/b,c")}, "cannot bind /b,c"),
        ({"more": (("/b,c", "/x"),)}, "cannot bind /b,c"),
        ({"more": (("/b", "/data/x"),)}, r"host\.binds.* /data/x,"),
        ({"more": (("/b", "/tmp"),)}, r"host\.binds.* /tmp,"),
        ({"more": (("/b", "/x/../proc/sys"),)}, r"host\.binds.* /x/\.\./proc/sys,"),
        ({"more": (("/b", "/"),)}, r"host\.binds.* /,"),
        ({"more": (("/b c", "/datasets"),), "code": Path("/b c")}, None),
    ],
)
def test_paths_that_cannot_be_bound(changes: dict[str, Any], said: str | None) -> None:
    found = unbindable(places(**changes))
    assert found is None if said is None else re.search(said, str(found))


def test_data_that_only_root_may_read(bench: Bench) -> None:
    data = bench.root / "data"
    assert unreadable(data) is None
    (data / "train").chmod(0o700)
    assert unreadable(data) == data / "train"
    data.chmod(0o750)
    assert unreadable(data) == data


@pytest.mark.parametrize(
    ("log", "why"),
    [
        (f"WARNING: old\n{BEGUN}\nFATAL: mine\n", None),
        ("FATAL:   while opening\n: exit status 1\n", "FATAL:   while opening"),
        ("the image has no python3\n", "the image has no python3"),
        (f"{BEGUN} almost", f"{BEGUN} almost"),
        ("", "Apptainer printed nothing"),
        (note("no copy").decode(), "Apptainer printed nothing"),
        (note("no copy").decode() + f"{BEGUN}\nmine\n", None),
    ],
)
def test_start_failure(tmp_path: Path, log: str, why: str | None) -> None:
    path = tmp_path / "log.txt"
    path.write_text(log)
    assert start_failure(path) == why


def test_words_of_apptainer_are_not_the_candidates() -> None:
    assert of_candidate(f"WARNING: old\n{BEGUN}\nmine\n") == "mine\n"
    assert of_candidate("the end of a long log\n") == "the end of a long log\n"


@pytest.mark.parametrize(
    ("code", "failure", "said"),
    [
        (255, "error", "FATAL: a lie"),
        (1, "error", "FATAL: a lie"),
        (137, "out_of_memory", "signal 9"),
        (153, "error", "8 MiB"),
        (139, "error", "signal 11: FATAL: a lie"),
    ],
)
def test_ends_of_a_candidate_that_had_begun(
    bench: Bench, code: int, failure: str, said: str
) -> None:
    # With less memory in use a kill would be somebody else's doing.
    ended = CommandEnd(code, None, Reason.EXITED, wall=1.0, cpu_s=1.0, peak_mb=500.0)
    spec = contained(bench.trial("predict()"), "i.sif")
    outcome = classify_failure(spec, ended, "FATAL: a lie\n", None)
    assert isinstance(outcome, IdeaFailed)
    assert outcome.failure == failure
    assert said in outcome.detail


FAKES = {
    "fails": 'echo "FATAL:   no loop devices"; echo more; exit 255',
    "fails otherwise": "exit 1",
    "is killed": "kill -9 $$",
    "hangs": "exec sleep 600",
}


@pytest.mark.parametrize("fake", FAKES)
def test_a_container_that_does_not_start_is_the_machines_fault(
    bench: Bench, fake: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "bin" / "apptainer"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n{FAKES[fake]}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    limits: dict[str, Any] = {"deadline_s": 1.0} if fake == "hangs" else {}
    spec = contained(bench.trial("predict()", **limits), "i.sif")
    outcome = trial.run(spec, bench.run.trial(spec.trial_id)).outcome
    assert isinstance(outcome, MachineFailed)
    assert outcome.failure is MachineFailure.SETUP
    assert "apptainer exec i.sif true" in outcome.detail
    assert fake != "fails" or "loop devices;" in outcome.detail
