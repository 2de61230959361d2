"""A cluster's life: up, down, changed settings, and its state in words."""

from __future__ import annotations

import pwd
import shutil
import signal
from pathlib import Path

from devlib import config, image, network, nodes, packages, processes, services
from devlib.base import USER, Cluster, Failed, Places, run, say

_FUSE = Path("/dev/fuse")
_MOST_NODES = 64


def up(places: Places, count: int, accounting: bool) -> None:
    """Bring a cluster up, or leave nothing of it. Raises Failed."""
    if not 1 <= count <= _MOST_NODES:
        raise Failed(f"--nodes {count}: give 1 to {_MOST_NODES}")
    found = Cluster.load(places)
    if found is not None:
        if not all(good for _, good, _ in status(found)):
            raise Failed("a cluster is up, but not whole (see status): mend it or take it down")
        if (found.nodes, found.accounting) != (count, accounting):
            raise Failed("a cluster is up, with other options: slurm/devcluster down first")
        say(f"up already: {_summary(found)}")
        return
    _check_free(places)
    packages.install()
    cluster = Cluster(places, count, accounting, made_netns_mount=not network.has_mount())
    try:
        _bring_up(cluster)
    except BaseException:
        _take_down(places, cluster)
        raise
    say(f"up: {_summary(cluster)}")
    say(f'in your shell: eval "$({_program()} env)"')


def down(places: Places) -> None:
    """Leave nothing of a cluster, whole or half. Raises Failed."""
    cluster = Cluster.load(places)
    _take_down(places, cluster or Cluster(places))
    say("down" if cluster else "down already")


def change(cluster: Cluster, assignments: list[str]) -> None:
    """Change keys of slurm.conf, an empty value meaning the default's; jobs are kept."""
    before = dict(cluster.settings)
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        if not equals or not name.isalnum() or "\n" in value:
            raise Failed(f"{assignment!r}: give NAME=VALUE, a key of slurm.conf")
        for same in [key for key in cluster.settings if key.lower() == name.lower()]:
            del cluster.settings[same]
        if value:
            cluster.settings[name] = value
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
    rows = []
    answers = services.controller_answers(cluster)
    for name, daemon, well in (
        ("munge", "munged", places.munge_socket.exists()),
        ("controller", "slurmctld", answers),
    ):
        rows.append(_row(name, bool(processes.find(places, daemon)), well))
    if cluster.accounting:
        database = bool(processes.find(places, "mariadbd"))
        rows.append(_row("database", database, places.database_socket.exists()))
        running = bool(processes.find(places, "slurmdbd"))
        rows.append(_row("accounting", running, running and services.accounting_answers(cluster)))
    seen = nodes.states(cluster) if answers else {}
    for node in cluster.names:
        running, link = bool(network.pids(node)), network.link_is_up(node)
        state = seen.get(node, "unknown")
        words = f"{'runs' if running else 'dead'}, link {'up' if link else 'cut'}, Slurm: {state}"
        rows.append((node, running and link and nodes.in_service(state), words))
    return rows


def environment(cluster: Cluster) -> dict[str, str]:
    """Return the variables by which a shell uses the cluster."""
    found = {"SLURM_CONF": str(cluster.places.slurm_conf), "HPCSCI_DEVCLUSTER_USER": USER}
    if image.path(cluster.places).exists():
        found["HPCSCI_DEVCLUSTER_IMAGE"] = str(image.path(cluster.places))
    return found


def _bring_up(cluster: Cluster) -> None:
    places = cluster.places
    for folder in (places.folder, places.etc, places.run, places.log, places.folder / "state"):
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o755)
    cluster.save()
    _make_user(places)
    _open_fuse(cluster)
    network.make(cluster)
    config.write_slurm_conf(cluster)
    config.write_cgroup_conf(cluster)
    services.start_munge(cluster)
    if cluster.accounting:
        config.write_slurmdbd_conf(cluster)
        services.start_accounting(cluster)
        services.define_accounts(cluster)
    services.start_controller(cluster)
    for node in cluster.names:
        nodes.start(cluster, node)
    nodes.wait_in_service(cluster, cluster.names)


def _take_down(places: Places, cluster: Cluster) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # half done would leave something behind
    processes.end_all(network.all_pids)
    processes.end_all(lambda: processes.find(places))
    user = _our_user(places)
    if user is not None:
        processes.end_all(lambda: processes.of_user(user))
        run(["userdel", USER])
    if cluster.fuse_mode is not None and _FUSE.exists():
        _FUSE.chmod(cluster.fuse_mode)
    network.remove(cluster.made_netns_mount)
    if places.folder.exists():
        for path in places.folder.iterdir():
            if path == places.cache and any(path.glob("*.sif")):
                continue
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
        if not any(places.folder.iterdir()):
            places.folder.rmdir()


def _read_again(cluster: Cluster) -> None:
    """Make controller and nodes read slurm.conf: the one anew, the others in their stride."""
    services.stop_controller(cluster)
    services.start_controller(cluster)
    run(["scontrol", "reconfigure"], cluster.places)
    alive = [node for node in cluster.names if network.pids(node) and network.link_is_up(node)]
    if alive:
        nodes.wait_in_service(cluster, alive)


def _check_free(places: Places) -> None:
    others = processes.find(places) or network.all_pids()
    if others or any(path != places.cache for path in _entries(places.folder)):
        raise Failed("a cluster left something behind: slurm/devcluster down first")


def _entries(folder: Path) -> list[Path]:
    return list(folder.iterdir()) if folder.exists() else []


def _make_user(places: Places) -> None:
    try:
        pwd.getpwnam(USER)
    except KeyError:
        pass
    else:
        raise Failed(f"the user {USER} exists already and is not ours: use another machine")
    places.home.parent.mkdir(exist_ok=True)
    run(["useradd", "--create-home", "--home-dir", places.home, "--shell", "/bin/bash", USER])
    places.home.chmod(0o700)
    with (places.home / ".profile").open("a") as profile:  # for `su - researcher`
        profile.write(f"export SLURM_CONF={places.slurm_conf}\n")


def _our_user(places: Places) -> int | None:
    """Return the ordinary user's id, if `up` made it: its home lies in our folder."""
    try:
        entry = pwd.getpwnam(USER)
    except KeyError:
        return None
    return entry.pw_uid if Path(entry.pw_dir) == places.home else None


def _open_fuse(cluster: Cluster) -> None:
    if not _FUSE.exists():
        run(["modprobe", "fuse"], check=False)
    if not _FUSE.exists():
        say("warning: no /dev/fuse here: an ordinary user's containers will not start")
        return
    cluster.fuse_mode = _FUSE.stat().st_mode & 0o7777
    cluster.save()
    _FUSE.chmod(0o666)


def _row(name: str, runs: bool, answers: bool) -> tuple[str, bool, str]:
    words = f"{'runs' if runs else 'dead'}, {'answers' if answers else 'does not answer'}"
    return name, runs and answers, words


def _summary(cluster: Cluster) -> str:
    accounts = "with" if cluster.accounting else "without"
    return f"{cluster.nodes} nodes, {accounts} accounting, ordinary user {USER}"


def _program() -> Path:
    return Path(__file__).resolve().parent.parent / "devcluster"
