"""Who was ended for lack of memory is read where the kernel counts it."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcscientist.execution.bounds.supervise import memory_kills, memory_kills_of_node

V1 = "9:pids:/a\n4:cpu,memory:{group}\n0::/\n"
V2 = "0::{group}\n"
MOUNT_V1 = "40 31 0:38 {root} {place} rw,relatime shared:9 - cgroup cgroup rw,cpu,memory\n"
MOUNT_V2 = "40 31 0:38 {root} {place} rw,relatime - cgroup2 cgroup2 rw,nsdelegate\n"
OTHER = "21 20 0:20 / /sys rw - sysfs sysfs rw\n22 20 0:21 / /pids rw - cgroup cgroup rw,pids\n"


@pytest.mark.parametrize(
    ("groups", "mount", "name"),
    [(V1, MOUNT_V1, "memory.oom_control"), (V2, MOUNT_V2, "memory.events")],
    ids=["version 1", "version 2"],
)
@pytest.mark.parametrize("root", ["/", "/node", "/node/job"])
def test_read_wherever_the_group_is_seen(
    tmp_path: Path, groups: str, mount: str, name: str, root: str
) -> None:
    """A node or a container may see a part of the hierarchy alone."""
    group = "/node/job"
    place = tmp_path / "seen"
    folder = place / (group[1:] if root == "/" else group[len(root) + 1 :])
    folder.mkdir(parents=True)
    (tmp_path / "cgroup").write_text(groups.format(group=group))
    whole, part = (mount.format(root=each, place=place) for each in ("/", root))
    (tmp_path / "mountinfo").write_text(OTHER + whole + part)  # as seen in a node
    assert memory_kills(tmp_path) == 0
    (folder / name).write_text("oom 9\noom_kill_disable 0\nunder_oom 0\noom_kill 3\n")
    assert memory_kills(tmp_path) == 3


@pytest.mark.parametrize("text", ["", "nonsense", "0::/elsewhere\n"])
def test_nothing_is_counted_where_nothing_can_be_read(tmp_path: Path, text: str) -> None:
    (tmp_path / "cgroup").write_text(text)
    (tmp_path / "mountinfo").write_text(OTHER + MOUNT_V2.format(root="/node", place=tmp_path))
    assert memory_kills(tmp_path) == 0
    assert memory_kills(tmp_path / "gone") == 0


def test_those_of_the_node(tmp_path: Path) -> None:
    counts = tmp_path / "vmstat"
    assert memory_kills_of_node(counts) is None
    counts.write_text("oom_kill_x 2\nnr_free_pages 7\n")
    assert memory_kills_of_node(counts) is None
    counts.write_text("nr_free_pages 7\noom_kill 3\ndrop_pagecache 0\n")
    assert memory_kills_of_node(counts) == 3


def test_one_s_own_can_be_read() -> None:
    assert memory_kills() >= 0
