"""The texts of slurm.conf, slurmdbd.conf and cgroup.conf."""

from __future__ import annotations

import re
from dataclasses import dataclass

from devlib import cgroups
from devlib.base import CONTROLLER, Failed, write
from devlib.network import CONTROLLER_ADDRESS, SUBNET, hosts
from devlib.places import Cluster

CONTROLLER_PORT, NODE_PORT, DATABASE_PORT = 26817, 26818, 26819
ACCOUNT = "research"
NAME = "devcluster"
# Nominal: nothing of it is set aside. An engine's step asks for 11000.
MEMORY_MB = 12000

# What changing would break the cluster itself.
_OURS = re.compile(
    r"(?i)^(ClusterName|.*Host|.*Port|.*PidFile|.*LogFile|AuthInfo|StateSave.*|"
    r"SlurmdSpoolDir|NodeName|PartitionName|Include|SlurmUser|SlurmdUser|FirstJobId)$"
)


@dataclass(frozen=True)
class View:
    """Where the daemons are found: from the nodes, and otherwise from this machine's own shells."""

    address: str
    controller_port: int
    database_port: int


INSIDE = View(CONTROLLER_ADDRESS, CONTROLLER_PORT, DATABASE_PORT)


def outside(cluster: Cluster) -> View:
    """Return where this machine's shells find the daemons: the relay's ports."""
    return View("127.0.0.1", cluster.controller_port, cluster.database_port)


def first_job_id(now: float) -> int:
    """Return where job ids begin: it grows with time, so no earlier cluster's id comes back."""
    return int(now) % 6_000_000 * 10 + 1


def assigned(settings: dict[str, str], assignments: list[str]) -> dict[str, str]:
    """Return settings, NAME=VALUE words heeded; an empty value takes one away. Raises Failed."""
    changed = dict(settings)
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        if not equals or not name.isalnum() or "\n" in value:
            raise Failed(f"{assignment!r}: give NAME=VALUE, a key of slurm.conf")
        if _OURS.match(name):
            raise Failed(f"{name} is the development cluster's own: set another key")
        for same in [key for key in changed if key.lower() == name.lower()]:
            del changed[same]
        if value:
            changed[name] = value
    return changed


def slurm_keys(cluster: Cluster, view: View, has_cgroups: bool) -> dict[str, str]:
    """Return slurm.conf's keys as `up` sets them, before anybody's `set`."""
    places = cluster.places
    keys = {
        "ClusterName": NAME,
        "SlurmctldHost": f"{CONTROLLER}({view.address})",
        "SlurmctldPort": str(view.controller_port),
        "SlurmdPort": str(NODE_PORT),
        "AuthType": "auth/munge",
        # A requeued job waits until its credential has expired, by default 120 s.
        "AuthInfo": f"socket={places.munge_socket},cred_expire=10",
        "SlurmUser": "root",
        "SlurmdUser": "root",
        "StateSaveLocation": str(places.state),
        "SlurmdSpoolDir": str(places.node("%n") / "spool"),
        "SlurmctldPidFile": str(places.run / "slurmctld.own"),
        "SlurmdPidFile": str(places.run / "slurmd-%n.own"),
        "SlurmctldLogFile": str(places.log / "slurmctld.log"),
        "SlurmdLogFile": str(places.log / "%n.log"),
        "FirstJobId": str(cluster.first_job),
        "ProctrackType": "proctrack/cgroup" if has_cgroups else "proctrack/linuxproc",
        "TaskPlugin": "task/cgroup" if has_cgroups else "task/none",
        "MpiDefault": "none",
        "SelectType": "select/cons_tres",
        "SelectTypeParameters": "CR_Core_Memory",
        "DefMemPerCPU": "1000",
        "SlurmdParameters": "config_overrides",  # CPUs and memory whatever the machine has
        "PropagateResourceLimits": "NONE",
        "JobAcctGatherType": "jobacct_gather/linux",
        "JobAcctGatherFrequency": "task=1",
        "PreemptType": "preempt/partition_prio",
        "PreemptMode": "REQUEUE",
        "JobRequeue": "1",
        "ReturnToService": "2",
        "SlurmdTimeout": "15",
        "KillWait": "5",
        "MinJobAge": "300",
        "MaxArraySize": "1001",
        "MailProg": "/usr/bin/true",
        "TreeWidth": "65533",  # the controller asks each node itself: a cut one delays no other
        "SchedulerParameters": "batch_sched_delay=0,sched_interval=2,bf_interval=2,"
        "default_queue_depth=1000",
        "SlurmctldDebug": "info",
        "SlurmdDebug": "info",
    }
    if not has_cgroups:
        keys["JobAcctGatherParams"] = "OverMemoryKill"
    return keys | _accounting_keys(cluster, view)


def slurm_conf(cluster: Cluster, view: View, has_cgroups: bool) -> str:
    """Return slurm.conf, with what `set` changed."""
    keys = slurm_keys(cluster, view, has_cgroups)
    by_lower = {name.lower(): name for name in keys}
    for name, value in cluster.settings.items():
        keys[by_lower.get(name.lower(), name)] = value
    last = cluster.nodes
    lines = [f"{name}={value}" for name, value in keys.items()]
    lines += [
        f"NodeName=n[1-{last}] NodeAddr={SUBNET}.[11-{10 + last}] "
        f"CPUs={cluster.cpus} RealMemory={MEMORY_MB} State=UNKNOWN",
        "PartitionName=batch Nodes=ALL Default=YES PriorityTier=1 PreemptMode=REQUEUE "
        "MaxTime=2-00:00:00 DefaultTime=1:00:00",
        "PartitionName=scavenge Nodes=ALL PriorityTier=1 PreemptMode=CANCEL "
        "MaxTime=1-00:00:00 DefaultTime=1:00:00",
        "PartitionName=urgent Nodes=ALL PriorityTier=10 PreemptMode=OFF "
        "MaxTime=12:00:00 DefaultTime=1:00:00",
    ]
    return "\n".join(lines) + "\n"


def slurmdbd_conf(cluster: Cluster) -> str:
    """Return slurmdbd.conf, which only root may read."""
    places = cluster.places
    keys = {
        "DbdHost": CONTROLLER,
        "DbdAddr": CONTROLLER_ADDRESS,
        "DbdPort": str(DATABASE_PORT),
        "AuthType": "auth/munge",
        "AuthInfo": f"socket={places.munge_socket}",
        "SlurmUser": "root",
        "StorageType": "accounting_storage/mysql",
        "StorageHost": "localhost",
        "StorageUser": "root",
        "StorageLoc": "slurm_acct_db",
        "PidFile": str(places.run / "slurmdbd.own"),
        "LogFile": str(places.log / "slurmdbd.log"),
        "CommitDelay": "1",
    }
    return "".join(f"{name}={value}\n" for name, value in keys.items())


def cgroup_conf(has_cgroups: bool, limits_swap: bool) -> str:
    """Return cgroup.conf: slurmd looks for a cgroup file system even where it uses none."""
    lines = ["CgroupPlugin=cgroup/v1"]
    if has_cgroups:
        swap = "yes" if limits_swap else "no"
        lines += [f"CgroupMountpoint={cgroups.ROOT}", "CgroupAutomount=no"]
        lines += ["ConstrainRAMSpace=yes", f"ConstrainSwapSpace={swap}", "AllowedSwapSpace=0"]
    return "\n".join(lines) + "\n"


def write_slurm_conf(cluster: Cluster) -> None:
    """Write slurm.conf as the nodes see it, and as this machine does."""
    has_cgroups = bool(cgroups.hierarchies())
    places = cluster.places
    for folder, view in ((places.inside, INSIDE), (places.etc, outside(cluster))):
        write(folder / "slurm.conf", slurm_conf(cluster, view, has_cgroups))


def write_others(cluster: Cluster) -> None:
    """Write all configuration but slurm.conf."""
    inside = cluster.places.inside
    text = cgroup_conf(bool(cgroups.hierarchies()), cgroups.limits_swap())
    write(inside / "cgroup.conf", text)
    write(inside / "slurmdbd.conf", slurmdbd_conf(cluster), 0o600)
    write(inside / "hosts", hosts(cluster))


def _accounting_keys(cluster: Cluster, view: View) -> dict[str, str]:
    if not cluster.accounting:
        return {"AccountingStorageType": "accounting_storage/none"}
    return {
        "AccountingStorageType": "accounting_storage/slurmdbd",
        "AccountingStorageHost": view.address,
        "AccountingStoragePort": str(view.database_port),
        "AccountingStoragePass": str(cluster.places.munge_socket),  # with munge: its socket
        "AccountingStorageEnforce": "associations,limits,qos",
        "AccountingStoreFlags": "job_comment",
    }
