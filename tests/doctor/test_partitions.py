from __future__ import annotations

import pytest

from hpcscientist.doctor import slurm
from hpcscientist.doctor.check import CheckState
from hpcscientist.doctor.slurm import Partition

# As Slurm 22.05 and 23.11 write it, shortened.
SCONTROL = """\
PartitionName=low
   AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL
   AllocNodes=ALL Default=YES QoS=N/A
   DefaultTime=NONE DisableRootJobs=NO ExclusiveUser=NO GraceTime=0 Hidden=NO
   MaxNodes=UNLIMITED MaxTime=1-00:00:00 MinNodes=0 LLN=NO MaxCPUsPerNode=UNLIMITED
   Nodes=n[1-4]
   PriorityJobFactor=1 PriorityTier=1 RootOnly=NO ReqResv=NO OverSubscribe=NO
   OverTimeLimit=NONE PreemptMode=REQUEUE
   State=UP TotalCPUs=8 TotalNodes=4 SelectTypeParameters=NONE

PartitionName=gpu
   AllowGroups=ALL AllowAccounts=physics,chemistry AllowQos=normal
   AllocNodes=ALL Default=NO QoS=N/A
   MaxNodes=2 MaxTime=UNLIMITED MinNodes=0
   Nodes=g[1-3]
   PreemptMode=OFF
   State=UP TotalCPUs=192 TotalNodes=3

PartitionName=old
   AllowAccounts=ALL AllowQos=ALL Default=NO
   MaxNodes=UNLIMITED MaxTime=01:00:00
   PreemptMode=OFF
   State=DOWN TotalCPUs=4 TotalNodes=1
"""
SINFO = """\
low|1/3/0/4|2|4000|(null)
gpu|0/0/2/2|64|512000+|gpu:a100:4(S:0-1),nvme:1
gpu|0/1/0/1|64|512000|gpu:h100:8
old|0/1/0/1|4|8000|(null)
odd line
"""


@pytest.fixture
def found() -> dict[str, Partition]:
    return {p.name: p for p in slurm.parse(SCONTROL, SINFO)}


def test_limits_are_read(found: dict[str, Partition]) -> None:
    low, gpu = found["low"], found["gpu"]
    assert (low.is_default, low.state, low.max_time, low.usable) == (True, "UP", "1-00:00:00", 4)
    assert (gpu.is_default, gpu.max_nodes, gpu.accounts) == (False, "2", "physics,chemistry")
    assert [(kind.usable, kind.total, kind.memory_mb) for kind in gpu.kinds] == [
        (0, 2, 512000),
        (1, 1, 512000),
    ]
    assert gpu.gpus == "gpu:a100:4(S:0-1), gpu:h100:8"


def test_description_names_what_is_limited(found: dict[str, Partition]) -> None:
    said = slurm.describe(found["low"])
    for words in ("default", "up", "4 nodes (4 usable)", "2 CPUs", "1-00:00:00", "requeue"):
        assert words in said
    said = slurm.describe(found["gpu"])
    for words in ("gpu:a100:4", "at most 2 nodes", "accounts physics,chemistry only"):
        assert words in said
    assert "preemption" not in said


def states(found: dict[str, Partition], name: str) -> dict[str, CheckState]:
    return {c.name: c.state for c in slurm.partition_checks(list(found.values()), name)}


def test_only_the_chosen_partition_has_to_be_usable(found: dict[str, Partition]) -> None:
    assert states(found, "") == {
        "partition low": CheckState.OK,
        "partition gpu": CheckState.OK,
        "partition old": CheckState.WARNING,
    }
    assert states(found, "old")["partition old"] is CheckState.MISSING


def test_unknown_partition_is_missing_and_others_are_named(found: dict[str, Partition]) -> None:
    (first, *_) = slurm.partition_checks(list(found.values()), "hgih")
    assert first.state is CheckState.MISSING
    assert "'hgih'" in first.found
    assert "low, gpu, old" in first.found


def test_of_a_list_all_have_to_be_there_and_one_has_to_be_usable(
    found: dict[str, Partition],
) -> None:
    assert states(found, "old,low") == {
        "partition low": CheckState.OK,
        "partition gpu": CheckState.OK,
        "partition old": CheckState.WARNING,
    }
    (first, *rest) = slurm.partition_checks(list(found.values()), "low,hgih,nowhere")
    assert (first.name, first.state) == ("partition", CheckState.MISSING)
    assert "'hgih', 'nowhere'" in first.found
    assert "low" not in first.found.partition(";")[0]
    assert {c.state for c in rest} == {CheckState.OK, CheckState.WARNING}


def test_each_of_several_lists_has_to_be_usable(found: dict[str, Partition]) -> None:
    checks = slurm.partition_checks(list(found.values()), "low,gpu", "old")
    assert {c.name: c.state for c in checks}["partition old"] is CheckState.MISSING


def test_cluster_without_a_default_partition(found: dict[str, Partition]) -> None:
    (first, *_) = slurm.partition_checks([found["gpu"]], "")
    assert (first.state, first.mend) == (CheckState.MISSING, "give --partition")


def test_partition_without_usable_nodes() -> None:
    sinfo = SINFO.replace("1/3/0/4", "0/0/4/4")
    (first, *_) = slurm.partition_checks(slurm.parse(SCONTROL, sinfo), "low")
    assert first.state is CheckState.MISSING
    assert "sinfo -R" in first.mend


def test_large_counts_are_understood() -> None:
    (partition,) = slurm.parse("PartitionName=p Default=YES State=UP", "p|1K/1.5K/0/2.5K|1|1|")
    assert partition.usable == 2560
