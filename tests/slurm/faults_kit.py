"""Faults of the development cluster, made by root; whatever was broken is fixed afterwards."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from slurm_kit import DEVCLUSTER, DEVCLUSTER_COMMAND, Cluster, devcluster, is_devcluster

T = TypeVar("T")

# Nothing here is expected to take as long: it is when a test is given up as hanging.
LIMIT_S = 300


def until(what: str, condition: Callable[[], T | None], limit_s: float = LIMIT_S) -> T:
    """Return what the condition returns once it is true."""
    end = time.monotonic() + limit_s
    while not (found := condition()):
        assert time.monotonic() < end, f"not within {limit_s} s: {what}"
        time.sleep(0.1)
    return found


def why_no_faults() -> str | None:
    """Say why no faults can be made here; None if they can."""
    if os.geteuid() != 0:
        return "only root can break the development cluster"
    if not os.access(DEVCLUSTER_COMMAND, os.X_OK):
        return f"there is no {DEVCLUSTER_COMMAND}"
    if not is_devcluster():
        return "the Slurm that answers is not the development cluster (slurm/devcluster env)"
    return None


def signal_worker(record: Path, node: str, name: str) -> None:
    """Send a worker a signal, as root on its node: no candidate could. `record`: worker.json."""
    pid = json.loads(record.read_text())["pid"]
    done = devcluster("exec", node, "--", "kill", f"-{name}", str(pid), timeout=LIMIT_S)
    assert done.returncode == 0, done.stdout


@dataclass
class Faults:
    """Breaks the development cluster; `heal` fixes all that was broken."""

    cluster: Cluster
    _undo: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    def devcluster(self, *arguments: str) -> None:
        done = devcluster(*arguments, timeout=LIMIT_S)
        assert done.returncode == 0, done.stdout

    def kill(self, node: str) -> None:
        """End every process of a node at once."""
        self._undo.callback(self.devcluster, "start", node)
        self.devcluster("kill", node)

    def cut(self, node: str) -> None:
        """Cut a node's link; its processes go on."""
        self._undo.callback(self.devcluster, "restore", node)
        self.devcluster("cut", node)

    def stop(self, daemon: str) -> None:
        """Stop the `controller` or the `accounting`."""
        self._undo.callback(self.devcluster, daemon, "start")
        self.devcluster(daemon, "stop")

    def start(self, daemon: str) -> None:
        """Start what was stopped."""
        self.devcluster(daemon, "start")

    def configure(self, **settings: str) -> None:
        """Change settings of slurm.conf."""
        self._undo.callback(self.devcluster, "set", *(f"{name}=" for name in settings))
        self.devcluster("set", *(f"{name}={value}" for name, value in settings.items()))

    def set_partition(self, name: str, state: str) -> None:
        """Take a partition out of service, or back: UP, DOWN, DRAIN, INACTIVE."""
        command = ("scontrol", "update", f"PartitionName={name}")
        self._undo.callback(_checked, *command, "State=UP")
        _checked(*command, f"State={state}")

    def on_node(self, node: str, *command: str) -> None:
        """Run a command as root on a node, with that node's files."""
        self.devcluster("exec", node, "--", *command)

    def enter(self, node: str) -> list[str]:
        """What stands before a command that root runs on a node, with all that is that node's."""
        where = f"HPCSCI_DEVCLUSTER_DIR={DEVCLUSTER}"
        return ["env", where, str(DEVCLUSTER_COMMAND), "exec", node, "--"]

    def first_process(self, node: str) -> int:
        """The process, as this machine numbers it, whose namespaces are the node's."""
        return int(devcluster("pid", node).stdout)

    def give_private_disks(self, folder: Path, mib: int) -> None:
        """Give each node a small disk of its own."""
        small = ("-o", f"size={mib}m,mode=1777", "tmpfs", str(folder))
        for node in self.nodes():
            self.on_node(node, "mount", "-t", "tmpfs", *small)
            self._undo.callback(self.on_node, node, "umount", "--lazy", str(folder))

    def mount_small_disk(self, folder: Path, mib: int) -> None:
        """Mount a small disk that all nodes and this machine share."""
        folder.mkdir()
        _checked("mount", "-t", "tmpfs", "-o", f"size={mib}m", "tmpfs", str(folder))
        self._undo.callback(_checked, "umount", "--lazy", str(folder))
        for node in self.nodes():
            _checked(
                sys.executable, "-c", _MOUNT_ELSEWHERE, str(self.first_process(node)), str(folder)
            )
            self._undo.callback(self.on_node, node, "umount", "--lazy", str(folder))

    def nodes(self) -> list[str]:
        """The nodes' names."""
        done = self.cluster.run("sinfo", "--noheader", "--format=%n", cwd=self.cluster.folder)
        return sorted(set(done.stdout.split()))

    def heal(self) -> None:
        """Fix everything, and wait until all nodes can work."""
        self._undo.close()
        until("every node is idle", self.is_idle)

    def is_idle(self) -> bool:
        """Whether every node is there and has nothing to do."""
        done = self.cluster.run("sinfo", "--noheader", "--format=%T", cwd=self.cluster.folder)
        return set(done.stdout.split()) == {"idle"}


def _checked(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (command, done.stderr)


# Mounts what is mounted on a folder here in another process's mount namespace, too: the nodes
# see nothing of what is mounted after their start. See open_tree(2), move_mount(2).
_MOUNT_ELSEWHERE = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
pid, folder = sys.argv[1], os.fsencode(sys.argv[2])
HERE, OPEN_TREE, MOVE_MOUNT = -100, 428, 429
CLONE, FROM_DESCRIPTOR, NEWNS = 1, 4, 0x20000
tree = libc.syscall(OPEN_TREE, HERE, folder, CLONE)
space = os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY)
if tree < 0 or libc.setns(space, NEWNS) or libc.syscall(
    MOVE_MOUNT, tree, b"", HERE, folder, FROM_DESCRIPTOR
):
    sys.exit(os.strerror(ctypes.get_errno()))
"""
