"""The daemons beside the nodes: munged, MariaDB, slurmdbd, slurmctld, and the relay to them."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Callable, Sequence
from pathlib import Path

from devlib import config, network, nodes, processes
from devlib.base import CONTROLLER, Failed, run, wait_until, write
from devlib.places import Cluster, Places
from devlib.relay import listens

_GENTLY_S = 60.0
_ANSWERS_S = 120.0


def start_munge(places: Places) -> None:
    """Start munged with a key of its own. Raises Failed."""
    key = places.inside / "munge.key"
    write(key, secrets.token_bytes(1024), 0o600)
    argv = [
        *(
            "/usr/sbin/munged",
            "--foreground",
            f"--key-file={key}",
            f"--socket={places.munge_socket}",
        ),
        *(f"--pid-file={places.run}/munged.own", f"--log-file={places.log}/munged.log"),
        *(f"--seed-file={places.run}/munge.seed", "--num-threads=4"),
    ]
    _start(places, "munged", argv)
    _wait_for(places, "munged", lambda: munge_answers(places))


def munge_answers(places: Places) -> bool:
    """Say whether munged makes credentials."""
    argv = ["munge", f"--socket={places.munge_socket}", "--no-input"]
    return run(argv, places.environment, check=False, timeout=20).stdout.startswith("MUNGE:")


def start_relay(places: Places, sockets: Sequence[socket.socket]) -> None:
    """Carry this machine's connections to slurmctld's and slurmdbd's ports. Raises Failed."""
    ports = (config.CONTROLLER_PORT, config.DATABASE_PORT)
    pairs = [f"{bound.fileno()}:{port}" for bound, port in zip(sockets, ports, strict=True)]
    program = places.run / "relay.py"
    argv: list[str | Path] = [nodes.python(), "-IS", program, network.CONTROLLER_ADDRESS, *pairs]
    kept = [bound.fileno() for bound in sockets]
    processes.start(places, processes.Task("relay", argv, CONTROLLER, keep=kept)).close()


def start_database(places: Places) -> None:
    """Make a new database and start MariaDB. Raises Failed."""
    # MariaDB names its temporary tables by process id: in a folder that namespaces share, those
    # of two collide.
    common = [f"--datadir={places.database}/data", f"--tmpdir={places.database}/tmp", "--user=root"]
    common += ["--innodb-buffer-pool-size=64M", "--innodb-log-file-size=16M"]
    common += ["--innodb-flush-log-at-trx-commit=0"]
    by_socket = ("--auth-root-authentication-method=socket", "--auth-root-socket-user=root")
    make = ["/usr/bin/mariadb-install-db", "--no-defaults", "--skip-test-db", *by_socket, *common]
    _start(places, "database", make)
    if not wait_until(lambda: not processes.pid_of(places, "database"), _ANSWERS_S):
        raise Failed(f"no database: {processes.last_words(places, 'database')}")
    local = [f"--socket={places.database_socket}", f"--pid-file={places.run}/mariadbd.own"]
    small = ["--skip-networking", "--performance-schema=OFF", "--skip-log-bin"]
    patient = ["--innodb-lock-wait-timeout=900"]
    argv = ["/usr/sbin/mariadbd", "--no-defaults", *common, *local, *small, *patient]
    _start(places, "mariadbd", argv)
    _wait_for(places, "mariadbd", lambda: database_answers(places))


def database_answers(places: Places) -> bool:
    """Say whether MariaDB answers."""
    where = (f"--socket={places.database_socket}", "--user=root")
    argv = ["mariadb", "--no-defaults", *where, "--batch", "--skip-column-names"]
    done = run([*argv, "--execute=select 42"], places.environment, check=False, timeout=20)
    return done.stdout.strip() == "42"


def start_accounting(places: Places) -> None:
    """Start slurmdbd, unless it runs, and wait until sacctmgr gets an answer. Raises Failed."""
    _start(places, "slurmdbd", ["/usr/sbin/slurmdbd", "-D"])
    _wait_for(places, "slurmdbd", lambda: accounting_answers(places))


def stop_accounting(places: Places) -> None:
    """End slurmdbd; the database stays. Raises Failed."""
    processes.end(places, "slurmdbd", _GENTLY_S)
    _wait_until_refused(places, config.DATABASE_PORT)


def accounting_answers(places: Places) -> bool:
    """Say whether sacctmgr gets an answer."""
    argv = ["sacctmgr", "-n", "-P", "show", "cluster"]
    return run(argv, places.environment, check=False, timeout=20).returncode == 0


def define_accounts(cluster: Cluster) -> None:
    """Make the cluster, the account with its users, and the two QOS. Raises Failed."""
    for words in (
        f"add cluster {config.NAME}",
        "add qos limited set MaxSubmitJobsPerUser=8",
        f"add account {config.ACCOUNT} cluster={config.NAME} "
        f"Description={config.ACCOUNT} Organization={config.ACCOUNT}",
        f"add user {cluster.user} account={config.ACCOUNT}",
        f"add user root account={config.ACCOUNT}",
        f"modify user root set DefaultAccount={config.ACCOUNT}",
        f"modify account {config.ACCOUNT} set qos=normal,limited DefaultQOS=normal",
    ):
        run(["sacctmgr", "-i", "-Q", *words.split()], cluster.places.environment, timeout=120)


def start_controller(places: Places) -> None:
    """Start slurmctld, unless it runs, and wait until it answers. Raises Failed."""
    _start(places, "slurmctld", ["/usr/sbin/slurmctld", "-D"])
    _wait_for(places, "slurmctld", lambda: controller_answers(places))


def stop_controller(places: Places, kill: bool = False) -> None:
    """End slurmctld alone: what runs on the nodes goes on. Raises Failed.

    kill: at once, so that it forgets what it accepted since it last saved its state.
    """
    processes.end(places, "slurmctld", 0.0 if kill else _GENTLY_S)
    _wait_until_refused(places, config.CONTROLLER_PORT)


def controller_answers(places: Places) -> bool:
    """Say whether the controller answers."""
    done = run(["scontrol", "ping"], places.environment, check=False, timeout=20)
    return "UP" in done.stdout


def _start(places: Places, name: str, argv: Sequence[str | Path]) -> None:
    if processes.pid_of(places, name) is None:
        processes.start(places, processes.Task(name, argv, CONTROLLER)).close()


def _wait_for(places: Places, name: str, answers: Callable[[], bool]) -> None:
    """Wait for a daemon; its end is a failure at once. Raises Failed."""

    def there() -> bool:
        # First: what answers may be another's.
        if processes.pid_of(places, name) is None:
            raise Failed(f"{name} ended: {processes.last_words(places, name)}")
        return answers()

    if not wait_until(there, _ANSWERS_S):
        said = processes.last_words(places, name)
        raise Failed(f"{name} does not answer; it said last: {said} (all is in {places.log})")


def _wait_until_refused(places: Places, port: int) -> None:
    """Wait until the relay has noticed, too, that a daemon is gone. Raises Failed."""
    cluster = Cluster.load(places)
    outside = config.outside(cluster)
    at = outside.controller_port if port == config.CONTROLLER_PORT else outside.database_port
    if not wait_until(lambda: not listens("self", at), 60):
        raise Failed(f"something still listens on port {at}: slurm/devcluster down")
