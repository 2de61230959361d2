from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from trialkit import Bench, contained

from hpcscientist.errors import Interrupted
from hpcscientist.execution import folders, trial
from hpcscientist.execution.sandbox import container
from hpcscientist.files.hashing import hash_file
from hpcscientist.records.site import Host
from hpcscientist.records.trial import MachineFailed, MachineFailure, TrialSpec

USE = """
import sys, threading
from pathlib import Path
from hpcscientist.execution.sandbox import container
from hpcscientist.records.trial import TrialSpec
spec = TrialSpec.model_validate_json(Path(sys.argv[1]).read_bytes())
with container.on_node(spec, threading.Event()) as found:
    print(found.path, found.trouble, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    path = tmp_path / "shared.sif"
    path.write_bytes(os.urandom(1 << 20))
    return path


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "node"
    yield folder
    parts = [p for p in folder.rglob("*") if p.suffix not in (".sif", ".lock", ".known")]
    assert [path for path in parts if not path.is_dir()] == []


def of(bench: Bench, shared: Path, node: Path, **host: Any) -> TrialSpec:
    spec = contained(bench.trial("predict()", shared.stem), str(shared))
    provenance = spec.provenance.model_copy(update={"image_hash": hash_file(shared)})
    known = Host(**({"scratch": str(node), "copy_image": True} | host))
    return spec.model_copy(update={"provenance": provenance, "host": known})


def use(spec: TrialSpec) -> container.Image:
    with container.on_node(spec, threading.Event()) as found:
        return found


def images(node: Path) -> list[str]:
    return sorted(path.name for path in node.rglob("*.sif"))


def test_without_the_wish_the_shared_image_is_used(bench: Bench, shared: Path, node: Path) -> None:
    assert use(of(bench, shared, node, copy_image=False)) == container.Image(str(shared))
    assert images(node) == []


def test_a_shared_image_is_looked_at_once_a_node_until_it_changes(
    bench: Bench, shared: Path, node: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = of(bench, shared, node, copy_image=False)
    content, looked, real = shared.read_bytes(), [], hashlib.sha256

    def counted(data: bytes = b"") -> Any:
        looked.extend([1] if not data else [])
        return real(data)

    monkeypatch.setattr(hashlib, "sha256", counted)
    assert [use(spec) for _ in range(3)] == [container.Image(str(shared))] * 3
    assert len(looked) == 1
    (known,) = node.rglob("*.known")
    assert (known.stat().st_mode & 0o777, known.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    shared.write_bytes(b"another")
    for _ in range(2):
        with pytest.raises(container.WrongImage, match=str(shared)):
            use(spec)
    other = shared.with_name("restored")
    other.write_bytes(content)
    other.replace(shared)
    looked.clear()
    assert [use(spec) for _ in range(2)] == [container.Image(str(shared))] * 2
    assert len(looked) == 1


@pytest.mark.parametrize("trouble", ["no folder", "locked"])
def test_an_image_is_looked_at_where_nothing_can_be_kept(
    bench: Bench, shared: Path, node: Path, trouble: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = of(bench, shared, node, copy_image=False)
    use(spec)
    (known,) = node.rglob("*.known")
    known.write_bytes(b"")
    with known.open() as lock:
        if trouble == "locked":
            fcntl.flock(lock, fcntl.LOCK_EX)
            monkeypatch.setattr(container, "WAIT_S", 0.0)
        else:
            known.parent.chmod(0o755)
        assert use(spec) == container.Image(str(shared))
        shared.write_bytes(b"another")
        with pytest.raises(container.WrongImage):
            use(spec)


def test_looking_at_an_image_can_be_stopped(bench: Bench, shared: Path, node: Path) -> None:
    spec, stop = of(bench, shared, node, copy_image=False), threading.Event()
    stop.set()
    with pytest.raises(Interrupted), container.on_node(spec, stop):
        pass


def test_a_changed_image_is_the_machines_fault(
    bench: Bench, shared: Path, node: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "bin" / "apptainer"  # it is not come to
    program.parent.mkdir()
    program.write_text("")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    spec = of(bench, shared, node, copy_image=False)
    shared.write_bytes(b"another")
    paths = bench.run.trial(spec.trial_id)
    outcome = trial.run(spec, paths).outcome
    assert isinstance(outcome, MachineFailed)
    assert outcome.failure is MachineFailure.SETUP
    assert outcome.detail == str(container.WrongImage(shared))


def test_it_is_copied_once_a_node(bench: Bench, shared: Path, node: Path) -> None:
    spec = of(bench, shared, node)
    first = use(spec)
    copy = Path(first.path)
    assert (copy.parent.parent, first.trouble) == (node, "")
    assert copy.read_bytes() == shared.read_bytes()
    assert copy.stat().st_mode & 0o777 == 0o400
    assert copy.parent.stat().st_mode & 0o777 == 0o700
    before = copy.stat().st_ino
    shared.unlink()
    shared.write_bytes(b"")  # not looked into again
    assert use(spec) == first
    assert copy.stat().st_ino == before


def test_many_workers_copy_it_once_and_use_it_together(
    bench: Bench, shared: Path, node: Path
) -> None:
    spec = of(bench, shared, node)
    told = bench.root / "spec"
    told.write_text(spec.model_dump_json())
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    workers = [
        subprocess.Popen([sys.executable, "-c", USE, str(told)], text=True, **pipes)
        for _ in range(6)
    ]
    said = [worker.stdout.readline() for worker in workers if worker.stdout is not None]
    for worker in workers:
        worker.communicate("")
    assert len(set(said)) == 1  # all of them had it at once
    assert said[0].strip() == str(next(node.rglob("*.sif")))


def test_an_image_that_changed_since_launch_is_not_run(
    bench: Bench, shared: Path, node: Path
) -> None:
    spec = of(bench, shared, node)
    shared.write_bytes(b"another")
    with pytest.raises(container.WrongImage, match=str(shared)):
        use(spec)
    assert images(node) == []


@pytest.mark.parametrize("trouble", ["no hash", "folder", "missing", "not ours", "no room"])
def test_what_keeps_it_from_being_copied_is_said_and_does_no_harm(
    bench: Bench, shared: Path, node: Path, trouble: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec, said = of(bench, shared, node), ""
    match trouble:
        case "no hash":
            provenance = spec.provenance.model_copy(update={"image_hash": None})
            spec, said = spec.model_copy(update={"provenance": provenance}), "hash is not known"
        case "folder":
            shared.unlink()
            shared.mkdir()
            said = "a folder"
        case "missing":
            shared.unlink()
            said = "not there"
        case "not ours":
            (node / f"hpcsci-images-{os.getuid()}").mkdir(parents=True)
            (node / f"hpcsci-images-{os.getuid()}").chmod(0o755)
            said = "user's alone"
        case "no room":
            monkeypatch.setattr(folders, "free_mb", lambda _: 100.0)
            said = "100 MiB"
    found = use(spec)
    assert found.path == str(shared)
    assert said in found.trouble
    assert images(node) == []


def test_a_copy_that_cannot_be_written(
    bench: Bench, shared: Path, node: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "rename", full)
    found = use(of(bench, shared, node))
    assert found == container.Image(
        str(shared), "the image was not copied to this node: No space left on device"
    )
    assert images(node) == []


def test_unused_images_make_room_for_new_ones(
    bench: Bench, shared: Path, node: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec, others = of(bench, shared, node), []
    for number in range(3):
        path = tmp_path / f"other-{number}.sif"
        path.write_bytes(os.urandom(1 << 10))
        others.append(of(bench, path, node))
        use(others[-1])
        lock = node.rglob(f"{hash_file(path)}.lock")
        os.utime(next(lock), (number, number))  # the order they were used in
    free = {3: 0.0, 2: 1000.0}
    monkeypatch.setattr(folders, "free_mb", lambda _: free.get(len(images(node)), 0.0))
    with container.on_node(others[0], threading.Event()) as used:
        os.utime(next(node.rglob(f"{others[0].provenance.image_hash}.lock")), (0, 0))
        found = use(spec)
        assert Path(used.path).exists()  # the oldest, but in use
    assert found.trouble == ""
    gone = {f"{others[1].provenance.image_hash}.sif"}
    assert gone.isdisjoint(images(node))
    assert len(images(node)) == 3


def test_a_hanging_copier_is_waited_for_only_so_long(
    bench: Bench, shared: Path, node: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = of(bench, shared, node)
    folder = node / f"hpcsci-images-{os.getuid()}"
    folder.mkdir(parents=True, mode=0o700)
    with (folder / f"{spec.provenance.image_hash}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        monkeypatch.setattr(container, "WAIT_S", 0.0)
        assert " 0 s" in use(spec).trouble
        stop = threading.Event()
        stop.set()
        with pytest.raises(Interrupted), container.on_node(spec, stop):
            pass


def test_what_a_killed_copier_left_is_no_obstacle(bench: Bench, shared: Path, node: Path) -> None:
    spec = of(bench, shared, node)
    folder = node / f"hpcsci-images-{os.getuid()}"
    folder.mkdir(parents=True, mode=0o700)
    (folder / f"{spec.provenance.image_hash}.part").write_bytes(b"half")
    assert use(spec).trouble == ""
