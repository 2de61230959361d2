"""A cluster's life: up, down, changed settings, and its state in words."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

from devlib import (
    cgroups,
    config,
    image,
    kernel,
    network,
    nodes,
    packages,
    people,
    processes,
    relay,
    services,
)
from devlib.base import CONTROLLER, Failed, run, say, wait_until, write
from devlib.places import Cluster, Places
from devlib.processes import SUPERVISOR

_MOST_NODES = 64
_HERE = Path(__file__).resolve().parent


def is_up(places: Places) -> bool:
    """Say whether a cluster is up: complete once, and not being killed."""
    pid = processes.pid_of(places, SUPERVISOR)
    return pid is not None and (places.run / "ready").exists() and not processes.is_ending(pid)


def require(places: Places) -> Cluster:
    """Return the cluster that is up. Raises Failed."""
    if not is_up(places):
        raise Failed("no cluster is up: slurm/devcluster up")
    return Cluster.load(places)


def up(cluster: Cluster) -> None:
    """Bring a cluster up, or leave nothing of it but its logs. Raises Failed."""
    places = cluster.places
    if not 1 <= cluster.nodes <= _MOST_NODES:
        raise Failed(f"--nodes {cluster.nodes}: give 1 to {_MOST_NODES}")
    if cluster.cpus < 1:
        raise Failed(f"--cpus {cluster.cpus}: give at least 1")
    if is_up(places):
        _check_same(cluster)
        return
    packages.install()
    if not cgroups.hierarchies():
        say("warning: no cgroups of version 1 here: memory limits are polled, and a job's daemons")
        say("         survive scancel")
    _wipe(places)
    with _leaving_nothing(places):
        _bring_up(cluster)
    say(f"up: {_summary(cluster)}")
    say(f'in your shell: eval "$({_HERE.parent / "devcluster"} env)"')


def down(places: Places) -> None:
    """Leave nothing of a cluster, whole or half. Raises Failed."""
    was_there = places.run.exists()
    _ignore_signals()  # half done would leave something behind
    _wipe(places)
    shutil.rmtree(places.log, ignore_errors=True)
    with contextlib.suppress(OSError):
        places.cache.rmdir()  # unless there is an image
    places.lock.unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        places.folder.rmdir()
    say("down" if was_there else "down already")


def change(cluster: Cluster, assignments: list[str]) -> None:
    """Change keys of slurm.conf, an empty value meaning the default's; jobs are kept."""
    before = dict(cluster.settings)
    cluster.settings = config.assigned(before, assignments)
    config.write_slurm_conf(cluster)
    try:
        _read_again(cluster)
    except Failed as failure:
        cluster.settings = before
        config.write_slurm_conf(cluster)
        _read_again(cluster)
        raise Failed(f"Slurm does not take {' '.join(assignments)}: {failure}") from None
    cluster.save()


def status(cluster: Cluster) -> list[tuple[str, bool, str]]:
    """Return a row for each part: its name, whether all is well, and what is seen."""
    places = cluster.places

    def runs(name: str) -> bool:
        return processes.pid_of(places, name) is not None

    answers = runs("slurmctld") and services.controller_answers(places)
    rows = [
        _row("munge", runs("munged"), runs("munged") and services.munge_answers(places)),
        _row("controller", runs("slurmctld"), answers),
        _row("relay", runs("relay"), runs("relay")),
    ]
    if cluster.accounting:
        rows.append(_row("database", runs("mariadbd"), services.database_answers(places)))
        well = runs("slurmdbd") and services.accounting_answers(places)
        rows.append(_row("accounting", runs("slurmdbd"), well))
    seen = nodes.states(cluster) if answers else {}
    for node in cluster.names:
        running, link = nodes.runs(places, node), network.link_is_up(places, node)
        state = seen.get(node, "unknown")
        words = f"{'runs' if running else 'dead'}, link {'up' if link else 'cut'}, Slurm: {state}"
        rows.append((node, running and link and nodes.in_service(state), words))
    return rows


def environment(cluster: Cluster) -> dict[str, str]:
    """Return the variables by which a shell uses the cluster."""
    places = cluster.places
    found = {"SLURM_CONF": str(places.slurm_conf), "HPCSCI_DEVCLUSTER_USER": cluster.user}
    if image.path(places).exists():
        found["HPCSCI_DEVCLUSTER_IMAGE"] = str(image.path(places))
    return found


def _bring_up(cluster: Cluster) -> None:
    places = cluster.places
    shutil.rmtree(places.log, ignore_errors=True)
    made = (places.etc, places.inside, places.run, places.log, places.state, places.database)
    for folder in (places.folder, *made, places.nodes):
        folder.mkdir(exist_ok=True)
        folder.chmod(0o755)
    for program in ("first.py", "relay.py"):
        shutil.copy(_HERE / program, places.run / program)
    with relay.bind(config.CONTROLLER_PORT) as one, relay.bind(config.DATABASE_PORT) as other:
        cluster.first_job = config.first_job_id(time.time())
        cluster.controller_port = one.getsockname()[1]
        cluster.database_port = other.getsockname()[1]
        cluster.save()
        config.write_slurm_conf(cluster)
        config.write_others(cluster)
        with _supervised(places):
            people.open_fuse()
            network.make_bridge(places)
            with people.user_made(cluster) as held:
                nodes.make(places, CONTROLLER, keep=(held,))
            services.start_munge(places)
            services.start_relay(places, (one, other))
            if cluster.accounting:
                services.start_database(places)
                services.start_accounting(places)
                services.define_accounts(cluster)
            services.start_controller(places)
            for node in cluster.names:
                nodes.start(cluster, node)
            nodes.wait_in_service(cluster, cluster.names)
            write(places.run / "ready", "")


@contextlib.contextmanager
def _supervised(places: Places) -> Iterator[None]:
    """Start the process whose end ends all, and until this is left ours ends it. Raises Failed."""

    def prepare() -> None:
        kernel.make_mounts_private()
        kernel.mount("proc", "/proc")

    argv: list[str | Path] = [nodes.python(), "-IS", places.run / "first.py", SUPERVISOR]
    first = processes.Task(SUPERVISOR, argv, spaces=kernel.NEW_ALL, prepare=prepare, hold=True)
    held = processes.start(places, first)

    def lost(_number: int, _frame: FrameType | None) -> None:
        raise Failed("the cluster's supervisor was killed: up again")

    # Its death closes the socket; whatever we wait for is interrupted then.
    before = signal.signal(signal.SIGIO, lost)
    fcntl.fcntl(held, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(held, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
    try:
        yield
        signal.signal(signal.SIGIO, signal.SIG_IGN)
        with contextlib.suppress(OSError):
            held.send(b"ready")
    finally:
        signal.signal(signal.SIGIO, signal.SIG_IGN)
        held.close()
        signal.signal(signal.SIGIO, before)


@contextlib.contextmanager
def _leaving_nothing(places: Places) -> Iterator[None]:
    try:
        yield
    except BaseException as failure:
        _ignore_signals()
        _wipe(places)
        if isinstance(failure, OSError):
            raise Failed(f"{failure}: see {places.log}") from failure
        raise


def _wipe(places: Places) -> None:
    """End what is left of a cluster and remove its files, but for image, logs and lock."""
    processes.end(places, SUPERVISOR)
    # Where the records were removed by hand.
    left = [pid for pid, of in processes.supervisors().items() if of == places]
    for pid in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    if not wait_until(lambda: not any(map(processes.start_time, left))):
        raise Failed(f"the supervisor {left} cannot be killed: see /proc/{left[0]}/stack")
    cgroups.remove(places)
    people.remove_users(places)
    kept = (places.etc, places.inside, places.run, places.state, places.database, places.nodes)
    for folder in kept:
        shutil.rmtree(folder, ignore_errors=True)
    with contextlib.suppress(OSError):
        places.homes.rmdir()  # unless another cluster's user lives there
    places.record.unlink(missing_ok=True)


def _check_same(cluster: Cluster) -> None:
    """Say that the cluster is up already. Raises Failed where it is broken, or another one."""
    found = Cluster.load(cluster.places)
    if not all(good for _, good, _ in status(found)):
        raise Failed("a cluster is up, but not whole (see status): fix it or take it down")
    asked = (cluster.nodes, cluster.cpus, cluster.accounting)
    if asked != (found.nodes, found.cpus, found.accounting):
        raise Failed("a cluster is up, with other options: slurm/devcluster down first")
    say(f"up already: {_summary(found)}")


def _read_again(cluster: Cluster) -> None:
    """Make controller and nodes read slurm.conf: the one anew, the others in their stride."""
    places = cluster.places
    services.stop_controller(places)
    services.start_controller(places)
    run(["scontrol", "reconfigure"], places.environment)
    alive = [
        node
        for node in cluster.names
        if nodes.runs(places, node) and network.link_is_up(places, node)
    ]
    if alive:
        nodes.wait_in_service(cluster, alive)


def _ignore_signals() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGIO):
        signal.signal(number, signal.SIG_IGN)


def _row(name: str, runs: bool, answers: bool) -> tuple[str, bool, str]:
    words = f"{'runs' if runs else 'dead'}, {'answers' if answers else 'does not answer'}"
    return name, runs and answers, words


def _summary(cluster: Cluster) -> str:
    accounts = "with" if cluster.accounting else "without"
    return f"{cluster.nodes} nodes, {accounts} accounting, ordinary user {cluster.user}"
