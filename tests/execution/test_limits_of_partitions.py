"""What a site allows, as its own commands tell it."""

from __future__ import annotations

import pytest

from hpcscientist.execution.backends.slurm.commands import Slurm
from hpcscientist.execution.backends.slurm.limits import read_limits
from hpcscientist.records.site import SlurmSite

CONFIG = "MaxArraySize = 501\nMaxJobCount = 900\nSLURM_VERSION = 23.11.4\n"
PARTITIONS = """\
PartitionName=short Default=NO MaxTime=01:00:00 TotalCPUs=24 TotalNodes=3

PartitionName=long Default=YES MaxTime=7-00:00:00 TotalCPUs=32 TotalNodes=4
"""
# Two of the short ones' nodes are in both.
NODES = "n1|8\nn2|8\nn3|8\nn2|8\nn3|8\nn4|8\nn5|8\n"


class Site(Slurm):
    """Answers as a site without accounting does."""

    def run(self, program: str, *arguments: str, **_: object) -> str:  # type: ignore[override]
        if program == "sinfo":
            assert "--partition=short,long" in arguments
            return NODES
        return CONFIG if "config" in arguments else PARTITIONS


@pytest.mark.parametrize(
    ("partition", "nodes", "cpus", "minutes"),
    [
        ("", 4, 32, 10080),
        ("short", 3, 24, 60),
        ("short,long", 5, 40, 60),  # a packed task is to fit everywhere
    ],
)
def test_nodes_of_several_partitions_count_once(
    partition: str, nodes: int, cpus: int, minutes: int
) -> None:
    found = read_limits(Site(), SlurmSite(partition=partition))
    assert (found.nodes, found.cpus, found.max_minutes) == (nodes, cpus, minutes)
    assert (found.max_array, found.max_submit) == (500, 900)


@pytest.mark.parametrize(("said", "minutes"), [(0, 60), (30, 30), (600, 60)])
def test_a_packed_task_keeps_the_least_of_both_limits(said: int, minutes: int) -> None:
    site = SlurmSite(partition="short", max_minutes=said)
    assert read_limits(Site(), site).max_minutes == minutes
