"""The daemons beside the nodes: munged, MariaDB, slurmdbd, slurmctld."""

from __future__ import annotations

import secrets
import shutil
import subprocess
from collections.abc import Callable

from devlib import processes
from devlib.base import CONTROLLER, USER, Cluster, Failed, run, wait_until
from devlib.config import ACCOUNT

_GENTLY_S = 15.0


def start_munge(cluster: Cluster) -> None:
    """Start munged with a key of its own."""
    places = cluster.places
    key = places.etc / "munge.key"
    key.touch(mode=0o600)
    key.write_bytes(secrets.token_bytes(1024))
    argv = [
        *("munged", "--foreground", f"--key-file={key}", f"--socket={places.munge_socket}"),
        *(f"--pid-file={places.run}/munged.pid", f"--log-file={places.log}/munged.log"),
        *(f"--seed-file={places.run}/munge.seed", "--num-threads=4"),
    ]
    started = processes.start(places, "munged", argv)
    _wait_for(cluster, "munged", places.munge_socket.exists, started)


def start_accounting(cluster: Cluster) -> None:
    """Start MariaDB and slurmdbd, those that do not run, and wait until sacctmgr answers."""
    places = cluster.places
    if not processes.find(places, "mariadbd"):
        _start_database(cluster)
    started = None
    if not processes.find(places, "slurmdbd"):
        # A name of its own for its host: slurmdbd compares it with DbdHost.
        argv = _named(CONTROLLER, "slurmdbd", "-D")
        socket = str(places.database_socket)
        started = processes.start(places, "slurmdbd", argv, {"MYSQL_UNIX_PORT": socket})
    _wait_for(cluster, "slurmdbd", lambda: accounting_answers(cluster), started)


def stop_accounting(cluster: Cluster) -> None:
    """End slurmdbd; the database stays."""
    processes.end(processes.find(cluster.places, "slurmdbd"), _GENTLY_S)


def accounting_answers(cluster: Cluster) -> bool:
    """Say whether sacctmgr gets an answer."""
    argv = ["sacctmgr", "-n", "-P", "show", "cluster"]
    return run(argv, cluster.places, check=False, timeout=20).returncode == 0


def define_accounts(cluster: Cluster) -> None:
    """Make the cluster, the account with its users, and the two QOS."""
    for words in (
        "add cluster devcluster",
        "add qos limited set MaxSubmitJobsPerUser=8",
        f"add account {ACCOUNT} cluster=devcluster Description={ACCOUNT} Organization={ACCOUNT}",
        f"add user {USER} account={ACCOUNT}",
        f"add user root account={ACCOUNT}",
        f"modify user root set DefaultAccount={ACCOUNT}",
        f"modify account {ACCOUNT} set qos=normal,limited DefaultQOS=normal",
    ):
        run(["sacctmgr", "-i", "-Q", *words.split()], cluster.places)


def start_controller(cluster: Cluster) -> None:
    """Start slurmctld, unless it runs, and wait until it answers."""
    started = None
    if not processes.find(cluster.places, "slurmctld"):
        argv = _named(CONTROLLER, "slurmctld", "-D")
        started = processes.start(cluster.places, "slurmctld", argv)
    _wait_for(cluster, "slurmctld", lambda: controller_answers(cluster), started)


def stop_controller(cluster: Cluster) -> None:
    """End slurmctld alone: what runs on the nodes goes on."""
    processes.end(processes.find(cluster.places, "slurmctld"), _GENTLY_S)


def controller_answers(cluster: Cluster) -> bool:
    """Say whether the controller answers."""
    done = run(["scontrol", "ping"], cluster.places, check=False, timeout=20)
    return "UP" in done.stdout


def _start_database(cluster: Cluster) -> None:
    places = cluster.places
    data = places.folder / "database"
    common = ["--no-defaults", f"--datadir={data}", "--user=mysql"]
    if not (data / "mysql").exists():
        data.mkdir(exist_ok=True)
        shutil.chown(data, "mysql", "mysql")
        run(["mariadb-install-db", *common, "--skip-test-db"], places)
    small = ["--innodb-buffer-pool-size=32M", "--performance-schema=OFF", "--skip-log-bin"]
    patient = ["--innodb-lock-wait-timeout=900", "--innodb-flush-log-at-trx-commit=2"]
    local = ["--skip-networking", f"--socket={places.database_socket}"]
    pid_file = f"--pid-file={data}/mariadbd.pid"
    # The socket's folder is root's: MariaDB, which runs as mysql, gets one it can write.
    places.database_socket.parent.mkdir(exist_ok=True)
    shutil.chown(places.database_socket.parent, "mysql", "mysql")
    argv = ["mariadbd", *common, *small, *patient, *local, pid_file]
    started = processes.start(places, "mariadbd", argv)
    _wait_for(cluster, "mariadbd", places.database_socket.exists, started)


def _named(host: str, *argv: str) -> list[str]:
    return ["unshare", "--uts", "sh", "-c", 'hostname "$0" && exec "$@"', host, *argv]


def _wait_for(
    cluster: Cluster,
    name: str,
    ready: Callable[[], bool],
    started: subprocess.Popen[bytes] | None,
) -> None:
    """Wait for a daemon; the end of one that was just started is a failure at once."""

    def there() -> bool:
        # First: what answers may be another's.
        if started and started.poll() is not None:
            raise Failed(f"{name} ended: {processes.last_words(cluster.places, name)}")
        return ready()

    if not wait_until(there):
        said = processes.last_words(cluster.places, name)
        raise Failed(
            f"{name} does not answer; it said last: {said} (all is in {cluster.places.log})"
        )
