"""How Slurm's commands are called, and how what sbatch prints is read."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from hpcscientist.errors import SchedulerRefused, SchedulerSilent
from hpcscientist.execution.backends.slurm import sweep
from hpcscientist.execution.backends.slurm.commands import Slurm, unshadowed
from hpcscientist.execution.backends.slurm.watching.queue import accounted, queue_table
from hpcscientist.records.site import Site, SlurmSite

_PROGRAM = """\
#!{python}
import os, pathlib, shlex, sys
name = pathlib.Path(sys.argv[0]).name
with open({log!r}, "a") as file:
    print(shlex.join([name, *sys.argv[1:]]), "SLURM_CLUSTERS" in os.environ, file=file)
answer = pathlib.Path({folder!r}, name + ".answer")
sys.stdout.write(answer.read_text() if answer.exists() else "")
sys.exit(int(os.environ.get("TEST_EXIT", "0")))
"""


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with commands that note how they are called; `NAME.answer` is what they print."""
    folder, log = tmp_path / "commands", tmp_path / "log"
    folder.mkdir()
    for name in ("sbatch", "squeue", "sacct", "scancel", "scontrol", "sacctmgr"):
        path = folder / name
        text = _PROGRAM.format(python=sys.executable, log=str(log), folder=str(folder))
        path.write_text(text)
        path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return folder


def called(folder: Path) -> list[list[str]]:
    return [shlex.split(line) for line in (folder.parent / "log").read_text().splitlines()]


def test_every_command_is_asked_of_the_profile_s_cluster(
    commands: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_CLUSTERS", "elsewhere")
    row = "\x1f".join(("7", "0", "RUNNING", "None", "n1", "name", "comment", "7", "p"))
    (commands / "squeue.answer").write_text(f"CLUSTER: teach\n{row}\n")
    slurm = Slurm.of(Site(slurm=SlurmSite(extra=("--clusters=teach",))))
    assert queue_table(slurm).unread == []  # the heading is no row
    accounted(slurm, ["1"])
    sweep.cancel_jobs(slurm, ["1"])
    slurm.run("scontrol", "show", "partition")
    slurm.run("sacctmgr", "--noheader", "show", "associations", "user=me")
    slurm.run("sacctmgr", "--noheader", "show", "qos", "normal")
    for line in called(commands):
        program, environment = line[0], line[-1]
        assert environment == "False"
        if program == "sacctmgr":
            assert ("cluster=teach" in line) == ("associations" in line)
        else:
            assert line[1] == "--clusters=teach", line


def test_hidden_partitions_and_their_jobs_are_asked_for(
    commands: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("squeue", "scontrol", "sinfo"):
        (commands / name).write_text("#!/bin/sh\nenv | grep ^${0##*/}_ -i | sort\n")
        (commands / name).chmod(0o755)
        monkeypatch.setenv(f"{name.upper()}_PARTITION", "another")
        assert Slurm().run(name, "x") == f"{name.upper()}_ALL=1\n"


def test_what_another_cluster_of_a_federation_runs_is_no_end(commands: Path) -> None:
    rows = [("7", "REVOKED", ""), ("7", "RUNNING", "n1")]
    lines = ["\x1f".join((a, "0", b, "None", c, "name", "comment", a, "p")) for a, b, c in rows]
    (commands / "squeue.answer").write_text("".join(f"{line}\n" for line in lines))
    table = queue_table(Slurm())
    assert [(row.state, row.node) for row in table.rows] == [("RUNNING", "n1")]
    assert table.unread == []


@pytest.mark.parametrize(
    ("cluster", "shown"),
    [("", "scancel 7"), ("teach", "scancel --clusters=teach 7")],
)
def test_what_people_are_told_to_run_names_the_cluster_too(cluster: str, shown: str) -> None:
    assert Slurm(cluster=cluster).hint("scancel 7") == shown


def test_a_command_may_be_given_less_time(commands: Path) -> None:
    (commands / "sacctmgr").write_text("#!/bin/sh\nexec sleep 60\n")
    with pytest.raises(SchedulerSilent, match=r"sacctmgr.* 0\.1 s"):
        Slurm().run("sacctmgr", "show", at_most_s=0.1)


def test_without_a_cluster_nothing_is_said_of_one(commands: Path) -> None:
    Slurm.of(Site()).run("squeue", "--me")
    assert called(commands) == [["squeue", "--me", "False"]]


@pytest.mark.parametrize(
    ("printed", "job"),
    [
        ("4100\n", "4100"),
        ("4100;teach\n", "4100"),
        ("Submitted batch job 4100\n", "4100"),
        ("Submitted batch job 4100 on cluster teach\n", "4100"),
        ("Your project used 99 h; last was job 99\n4100\n", "4100"),
        ("4100\nsbatch: job 99 of yours failed yesterday\n", "4100"),
        ("Submitted batch job 99 was your last\nSubmitted batch job 4100\n", "4100"),
        ("4100\n\n-- quota: 99 % --\n", "4100"),
        ("4100\n4100\n", "4100"),
    ],
)
def test_the_id_is_read_as_sbatch_writes_it(commands: Path, printed: str, job: str) -> None:
    (commands / "sbatch.answer").write_text(printed)
    assert Slurm().submit("script.sh") == job
    assert called(commands)[0][:3] == ["sbatch", "--parsable", "script.sh"]


@pytest.mark.parametrize(
    "printed", ["", "job 99\n", "99\n4100\n", "Submitted batch job\n", "4100x\n"]
)
def test_no_id_or_two_are_silence(commands: Path, printed: str) -> None:
    (commands / "sbatch.answer").write_text(printed)
    with pytest.raises(SchedulerSilent):
        Slurm().submit("script.sh")


@pytest.mark.parametrize(("printed", "kind"), [("4100\n", SchedulerSilent), ("", SchedulerRefused)])
def test_a_wrapper_that_fails_may_have_submitted(
    commands: Path, printed: str, kind: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEST_EXIT", "1")
    (commands / "sbatch.answer").write_text(printed)
    with pytest.raises(kind):
        Slurm().submit("script.sh")


@pytest.mark.parametrize(
    ("script", "given", "left"),
    [
        ("--mem=5M", {"SBATCH_MEM_PER_CPU": "9", "SBATCH_MEM_PER_GPU": "9"}, {}),
        ("--mem-per-cpu=5M", {"SBATCH_MEM_PER_NODE": "9"}, {}),
        ("--gres=gpu:1", {"SBATCH_GPUS": "9", "SBATCH_GRES": "x"}, {}),
        ("--cpus-per-task=1", {"SBATCH_GRES": "lic:1"}, {"SBATCH_GRES": "lic:1"}),
        ("--no-requeue", {"SBATCH_REQUEUE": "1"}, {}),
        ("--output=x", {"SBATCH_OUTPUT": "y", "SBATCH_ERROR": "z"}, {}),
        ("--mem=1M", {"SBATCH_WAIT": "1", "SBATCH_QOS": "q"}, {"SBATCH_QOS": "q"}),
    ],
)
def test_no_variable_beats_a_script(
    script: str, given: Mapping[str, str], left: Mapping[str, str]
) -> None:
    assert unshadowed(given, f"#SBATCH {script}\n") == left
