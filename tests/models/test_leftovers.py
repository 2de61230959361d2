"""What a plane's node keeps on its machine: a folder of its own, memory without a name."""

from __future__ import annotations

import contextlib
import os
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path

import psutil
import pytest

from hpcscientist.models.serving.nodes import leftovers
from hpcscientist.models.serving.order import Order, ServingPaths, port_block


def an_order(scratch: Path) -> Order:
    return Order(
        nonce="n-0",
        owner="o",
        root="/nowhere",
        nodes=("n1",),
        head="127.0.0.1",
        ports=port_block(1),
        models=(),
        cpus=1,
        gpus=0,
        object_store=80,
        scratch=str(scratch),
        ready_s=600,
        lease_s=60,
    )


@pytest.mark.parametrize("length", [1, 200])
def test_the_folder_is_private_and_short_enough_for_sockets(tmp_path: Path, length: int) -> None:
    scratch = tmp_path / ("s" * length)
    scratch.mkdir()
    folder = leftovers.temporary_folder(an_order(scratch))
    try:
        assert folder.stat().st_mode & 0o777 == 0o700
        session = "session_2026-11-21_18-09-53_357790_1234567/sockets/plasma_store"
        socket = leftovers.of_ray(folder) / session
        assert len(str(socket)) <= 107
        # Ray opens to everybody what it is given: that must not be the folder itself.
        assert leftovers.of_ray(folder).parent == folder
    finally:
        folder.rmdir()


@pytest.fixture
def memory() -> Iterator[SharedMemory]:
    made = SharedMemory(create=True, size=4096)
    yield made
    made.close()
    Path("/dev/shm", made.name).unlink(missing_ok=True)


def test_memory_that_everybody_has_loses_its_name(memory: SharedMemory) -> None:
    others = leftovers.SharedMemory(lambda: [os.getpid()])
    others.unname()
    named = Path("/dev/shm") / memory.name
    assert named.exists()  # it was there before, and is another's
    ours = SharedMemory(create=True, size=4096)
    try:
        others.unname()
        assert not (Path("/dev/shm") / ours.name).exists()
        ours.buf[0] = 7  # whoever has it keeps it
        assert ours.buf[0] == 7
    finally:
        ours.close()


# What an engine's process does while it loads: it makes shared memory, says so, and stays.
ENGINE = """
import sys, time
from multiprocessing import resource_tracker, shared_memory
resource_tracker.register = lambda *_: None  # a process that is killed outright has none
made = shared_memory.SharedMemory(name=(sys.argv[1:] or [None])[0], create=True, size=1 << 20)
print(made.name, flush=True)
time.sleep(3600)
"""


@dataclass(slots=True)
class Engine:
    """A process that has shared memory, and where that lies."""

    process: subprocess.Popen[str]
    place: Path

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@contextlib.contextmanager
def started(*name: str) -> Iterator[Engine]:
    command = [sys.executable, "-c", ENGINE, *name]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        place = Path("/dev/shm", process.stdout.readline().strip())
        assert place.is_file()
        try:
            yield Engine(process, place)
        finally:
            process.kill()
            place.unlink(missing_ok=True)


class TestOfAnEngineThatIsGone:
    """Whoever ends a job ends node and engine at once: then the engine's maps tell no more."""

    def test_what_was_seen_is_removed(self) -> None:
        alive: list[int] = []
        memory = leftovers.SharedMemory(lambda: alive)
        with started(f"test-{secrets.token_hex(4)}") as engine:
            alive.append(engine.process.pid)
            memory.look()
            engine.kill()
            memory.remove()
            assert not engine.place.exists()

    def test_what_nobody_saw_is_removed_by_its_name(self) -> None:
        memory = leftovers.SharedMemory(list)
        with started() as engine:
            engine.kill()
            memory.remove()
            assert not engine.place.exists()

    def test_what_another_has_stays(self) -> None:
        memory = leftovers.SharedMemory(list)
        with started() as engine:
            memory.look()
            memory.remove()
            assert engine.place.exists()

    def test_what_was_there_before_stays(self) -> None:
        with started() as engine:
            memory = leftovers.SharedMemory(lambda: [engine.process.pid])
            memory.look()
            engine.kill()
            memory.remove()
            assert engine.place.exists()

    def test_files_that_people_put_there_stay(self) -> None:
        memory = leftovers.SharedMemory(list)
        weights = Path("/dev/shm", f"weights-{secrets.token_hex(4)}")
        weights.write_text("precious")
        try:
            memory.look()
            memory.remove()
            assert weights.exists()
        finally:
            weights.unlink()

    def test_a_name_that_is_another_s_by_now_stays(self) -> None:
        alive: list[int] = []
        memory = leftovers.SharedMemory(lambda: alive)
        with started(f"test-{secrets.token_hex(4)}") as engine:
            alive.append(engine.process.pid)
            memory.look()
            anew = engine.place.with_name(f"{engine.place.name}-anew")
            anew.touch()
            anew.rename(engine.place)
            memory.remove()
            assert engine.place.exists()

    def test_what_a_killed_node_listed_goes_with_the_next_one(self, short: Path) -> None:
        order, alive = an_order(short), list[int]()
        first = leftovers.temporary_folder(order)
        memory = leftovers.SharedMemory(lambda: alive)
        memory.keep_list(first)
        with started(f"test-{secrets.token_hex(4)}") as engine:
            alive.append(engine.process.pid)
            memory.look()
            engine.kill()
            leftovers.temporary_folder(order)
            assert engine.place.exists()  # that node is this process, and lives
            gone = first.with_name(first.name.replace(str(os.getpid()), str(2**22 - 1)))
            first.rename(gone)
            leftovers.temporary_folder(order)
            assert not engine.place.exists()
            assert not gone.exists()


# A Ray that never answers; below it an engine that loads, as a process of a session of its own.
RAY = f"""
import subprocess, sys
subprocess.Popen([sys.executable, "-c", {ENGINE!r}], start_new_session=True).wait()
"""


class TestOfANode:
    """A node whose plane is ended while models load."""

    @pytest.fixture
    def node(self, short: Path, tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], Order]]:
        scripts = tmp_path / "python" / "ray" / "scripts"
        scripts.mkdir(parents=True)
        (scripts.parent / "__init__.py").touch()
        (scripts / "__init__.py").touch()
        (scripts / "scripts.py").write_text(RAY)
        order = an_order(short).model_copy(
            update={"root": str(tmp_path / "plane"), "ports": port_block(os.getpid())}
        )
        paths = ServingPaths(order.folder)
        paths.root.mkdir(parents=True)
        paths.order.write_text(order.model_dump_json())
        environment = {**os.environ, "PYTHONPATH": str(tmp_path / "python")}
        command = [sys.executable, "-m", "hpcscientist.models.serving.nodes.node"]
        with subprocess.Popen(
            [*command, str(paths.order), "head"],
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        ) as process:
            yield process, order
            process.kill()

    @pytest.mark.parametrize("how", ["asked to", "all of it told at once", "engine dies first"])
    def test_leaves_no_shared_memory(
        self, how: str, node: tuple[subprocess.Popen[str], Order]
    ) -> None:
        process, order = node
        assert process.stdout is not None
        place = Path("/dev/shm", process.stdout.readline().strip())
        assert place.is_file()
        below = psutil.Process(process.pid).children(recursive=True)
        try:
            if how == "asked to":
                ServingPaths(order.folder).stop(order.nonce).touch()
            else:  # as Slurm does when a job is cancelled: whoever has gone first
                for one in reversed(below):
                    one.kill()
                psutil.wait_procs(below)
                if how == "all of it told at once":
                    process.terminate()
            process.wait()
            assert not place.exists()
        finally:
            place.unlink(missing_ok=True)


@pytest.fixture
def short() -> Iterator[Path]:
    """A folder whose path leaves room for Ray's sockets."""
    with tempfile.TemporaryDirectory(prefix="s", dir="/tmp") as folder:
        yield Path(folder)


def test_what_others_put_there_stops_nobody(short: Path, tmp_path: Path) -> None:
    order = an_order(short)
    first = leftovers.temporary_folder(order)
    assert first.parent == short
    prefix = first.name.removesuffix(str(os.getpid()))
    gone = 2**22 - 1  # no machine has that process
    endless = short / f"{prefix}{gone}-endless"
    endless.symlink_to(endless)
    precious = tmp_path / "precious"
    precious.mkdir()
    (short / f"{prefix}{gone}-link").symlink_to(precious)
    killed = short / f"{prefix}{gone}-killed"
    killed.mkdir()
    second = leftovers.temporary_folder(order)
    assert second != first
    assert first.is_dir()
    assert precious.is_dir()
    assert not killed.exists()


def test_a_plane_s_folder_that_was_removed_stays_so(tmp_path: Path) -> None:
    order = an_order(tmp_path).model_copy(update={"root": str(tmp_path / "removed")})
    logs = leftovers.of_ray(tmp_path) / "session_latest" / "logs"
    logs.mkdir(parents=True)
    for name in ("raylet.out", "worker-1a-2.out", "worker-1a-2.err", "dashboard.log"):
        (logs / name).write_text("told")
    leftovers.keep_logs(order, tmp_path)
    assert not (tmp_path / "removed").exists()
    order.folder.mkdir(parents=True)
    leftovers.keep_logs(order, tmp_path)
    kept = {path.name: path.read_text() for path in order.folder.rglob("*.*") if path.is_file()}
    assert kept == dict.fromkeys(("raylet.out", "worker-1a-2.out", "worker-1a-2.err"), "told")
