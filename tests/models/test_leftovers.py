"""What a plane's node keeps on its machine: a folder of its own, memory without a name."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path

import pytest

from hpcscientist.models.serving import ports
from hpcscientist.models.serving.nodes import leftovers
from hpcscientist.models.serving.order import Order


def an_order(scratch: Path) -> Order:
    return Order(
        nonce="n-0",
        owner="o",
        root="/nowhere",
        nodes=("n1",),
        head="127.0.0.1",
        ports=ports.block(1),
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
    named = Path("/dev/shm") / memory.name
    leftovers.unname([os.getpid()], before={memory.name})
    assert named.exists()  # it was there before, and is another's
    leftovers.unname([os.getpid()], before=())
    assert not named.exists()
    memory.buf[0] = 7  # whoever has it keeps it
    assert memory.buf[0] == 7


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
