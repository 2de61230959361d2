"""The private slurm.conf and slurmdbd.conf."""

from __future__ import annotations

import re

from devlib.base import CONTROLLER, Cluster, Failed
from devlib.network import CONTROLLER_ADDRESS, SUBNET

CONTROLLER_PORT, NODE_PORT, DATABASE_PORT = 26817, 26818, 26819
ACCOUNT = "research"
# Nominal: processes that share pages are counted in full, and engines share many.
CPUS, MEMORY_MB = 2, 12000

# What changing would break the cluster itself.
_OURS = re.compile(
    r"(?i)^(ClusterName|.*Host|.*Port|.*PidFile|.*LogFile|AuthInfo|StateSave.*|"
    r"SlurmdSpoolDir|NodeName|PartitionName|Include|SlurmUser|SlurmdUser)$"
)


def slurm_keys(cluster: Cluster) -> dict[str, str]:
    """Return slurm.conf's keys as `up` sets them, before anybody's `set`."""
    places = cluster.places
    keys = {
        "ClusterName": "devcluster",
        "SlurmctldHost": f"{CONTROLLER}({CONTROLLER_ADDRESS})",
        "SlurmctldPort": str(CONTROLLER_PORT),
        "SlurmdPort": str(NODE_PORT),
        "CommunicationParameters": "NoCtldInAddrAny",  # the controller listens on the bridge alone
        "AuthType": "auth/munge",
        # A requeued job waits until its credential has expired, by default 120 s.
        "AuthInfo": f"socket={places.munge_socket},cred_expire=10",
        "SlurmUser": "root",
        "SlurmdUser": "root",
        "StateSaveLocation": str(places.folder / "state"),
        "SlurmdSpoolDir": str(places.node("%n") / "spool"),
        "SlurmctldPidFile": str(places.run / "slurmctld.pid"),
        "SlurmdPidFile": str(places.run / "slurmd.%n.pid"),
        "SlurmctldLogFile": str(places.log / "slurmctld.log"),
        "SlurmdLogFile": str(places.log / "%n.log"),
        "ProctrackType": "proctrack/linuxproc",
        "TaskPlugin": "task/none",
        "MpiDefault": "none",
        "SelectType": "select/cons_tres",
        "SelectTypeParameters": "CR_Core_Memory",
        "DefMemPerCPU": "1000",
        "SlurmdParameters": "config_overrides",  # two CPUs a node, whatever the machine has
        "PropagateResourceLimits": "NONE",
        "JobAcctGatherType": "jobacct_gather/linux",
        "JobAcctGatherParams": "OverMemoryKill",
        "JobAcctGatherFrequency": "task=1",
        "PreemptType": "preempt/partition_prio",
        "PreemptMode": "REQUEUE",
        "JobRequeue": "1",
        "ReturnToService": "2",
        "SlurmdTimeout": "15",
        "KillWait": "5",
        "MinJobAge": "300",
        "MaxArraySize": "1001",
        "TreeWidth": "65533",  # the controller asks each node itself: a cut one delays no other
        "SchedulerParameters": "batch_sched_delay=0,sched_interval=2,bf_interval=2,"
        "default_queue_depth=1000",
        "SlurmctldDebug": "info",
        "SlurmdDebug": "info",
    }
    if cluster.accounting:
        keys |= {
            "AccountingStorageType": "accounting_storage/slurmdbd",
            "AccountingStorageHost": CONTROLLER,
            "AccountingStoragePort": str(DATABASE_PORT),
            "AccountingStoragePass": str(places.munge_socket),  # with munge: its socket
            "AccountingStorageEnforce": "associations,limits,qos",
            "AccountingStoreFlags": "job_comment",
        }
    else:
        keys["AccountingStorageType"] = "accounting_storage/none"
    return keys


def write_slurm_conf(cluster: Cluster) -> None:
    """Write slurm.conf, with what `set` changed. Raises Failed for a key that is not to be set."""
    for name in cluster.settings:
        if _OURS.match(name):
            raise Failed(f"{name} is the development cluster's own: set another key")
    keys = slurm_keys(cluster)
    by_lower = {name.lower(): name for name in keys}
    for name, value in cluster.settings.items():
        keys[by_lower.get(name.lower(), name)] = value
    last = cluster.nodes
    lines = [f"{name}={value}" for name, value in keys.items()]
    lines += [
        f"NodeName=n[1-{last}] NodeAddr={SUBNET}.[11-{10 + last}] "
        f"CPUs={CPUS} RealMemory={MEMORY_MB} State=UNKNOWN",
        "PartitionName=batch Nodes=ALL Default=YES PriorityTier=1 PreemptMode=REQUEUE "
        "MaxTime=2-00:00:00 DefaultTime=1:00:00",
        "PartitionName=scavenge Nodes=ALL PriorityTier=1 PreemptMode=CANCEL "
        "MaxTime=1-00:00:00 DefaultTime=1:00:00",
        "PartitionName=urgent Nodes=ALL PriorityTier=10 PreemptMode=OFF "
        "MaxTime=12:00:00 DefaultTime=1:00:00",
    ]
    new = cluster.places.slurm_conf.with_suffix(".new")
    new.write_text("\n".join(lines) + "\n")
    new.rename(cluster.places.slurm_conf)


def write_slurmdbd_conf(cluster: Cluster) -> None:
    """Write slurmdbd.conf, which only root may read."""
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
        "PidFile": str(places.run / "slurmdbd.pid"),
        "LogFile": str(places.log / "slurmdbd.log"),
        "CommitDelay": "1",
    }
    path = places.etc / "slurmdbd.conf"
    path.touch(mode=0o600)
    path.chmod(0o600)
    path.write_text("".join(f"{name}={value}\n" for name, value in keys.items()))


def write_cgroup_conf(cluster: Cluster) -> None:
    """Write cgroup.conf: slurmd looks for a cgroup file system even where it uses none."""
    (cluster.places.etc / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
