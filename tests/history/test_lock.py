from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from hpcscientist.errors import CampaignBusy
from hpcscientist.files import lock as lock_module
from hpcscientist.history.status import STALE_S, DriverLock, read_holder


def test_held_by_one_and_given_back(tmp_path: Path) -> None:
    lock = DriverLock(tmp_path / "lock")
    with pytest.raises(CampaignBusy, match=str(os.getpid())):
        DriverLock(tmp_path / "lock")
    lock.release()
    assert read_holder(tmp_path / "lock") is None
    again = DriverLock(tmp_path / "lock")
    assert again.generation == lock.generation + 1
    again.release()


def test_holder_that_was_killed_is_replaced(tmp_path: Path) -> None:
    code = (
        "import os, sys; from pathlib import Path\n"
        "from hpcscientist.history.status import DriverLock\n"
        "DriverLock(Path(sys.argv[1])); os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "lock")], check=False)
    holder = read_holder(tmp_path / "lock")
    assert holder is not None
    assert not holder["alive"]
    DriverLock(tmp_path / "lock").release()


def foreign(tmp_path: Path, age_s: float) -> Path:
    folder = tmp_path / "lock"
    folder.mkdir()
    path = folder / "1.json"
    path.write_text(json.dumps({"host": "elsewhere", "boot": "b", "pid": 1, "started": 1}))
    beat = time.time() - age_s
    os.utime(path, (beat, beat))
    return folder


def test_holder_elsewhere_is_alive_while_its_heart_beats(tmp_path: Path) -> None:
    with pytest.raises(CampaignBusy, match="elsewhere"):
        DriverLock(foreign(tmp_path, age_s=STALE_S / 2))


def test_holder_elsewhere_is_replaced_when_its_heart_stopped(tmp_path: Path) -> None:
    lock = DriverLock(foreign(tmp_path, age_s=2 * STALE_S))
    assert lock.generation == 2
    lock.release()


def test_reused_process_id_is_not_the_holder(tmp_path: Path) -> None:
    lock = DriverLock(tmp_path / "lock")
    path = tmp_path / "lock" / "1.json"
    data = json.loads(path.read_text())
    lock.release()
    path.write_text(json.dumps({**data, "started": data["started"] - 1}))
    holder = read_holder(tmp_path / "lock")
    assert holder is not None
    assert not holder["alive"]


@pytest.mark.parametrize(
    "content",
    [b"", b"\xff\xfe", b"[]", b"7", b"{}", b'{"host": 1, "boot": "b", "pid": "x"}', b"[" * 99_999],
)
@pytest.mark.parametrize("is_young", [True, False])
def test_a_record_that_names_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes, is_young: bool
) -> None:
    """Whoever makes one fills it at once: a young one means somebody, an old one is of the dead."""
    monkeypatch.setattr(lock_module, "_FILLED_S", 0.0)
    folder = foreign(tmp_path, age_s=0.0)
    (folder / "1.json").write_bytes(content)
    if not is_young:
        os.utime(folder / "1.json", (1.0, 1.0))
        DriverLock(folder).release()
        return
    with pytest.raises(CampaignBusy) as busy:
        DriverLock(folder)
    assert "process 0" not in str(busy.value)
    assert "?" not in str(busy.value)


def test_a_record_that_is_not_filled_yet_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = foreign(tmp_path, age_s=0.0)
    record = (folder / "1.json").read_bytes()
    (folder / "1.json").write_bytes(record[:7])
    waits = []

    def fill(seconds: float) -> None:
        waits.append(seconds)
        (folder / "1.json").write_bytes(record)

    monkeypatch.setattr(lock_module.time, "sleep", fill)
    with pytest.raises(CampaignBusy, match="process 1 on elsewhere"):
        DriverLock(folder)
    assert len(waits) == 1


def test_many_takers_one_winner(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path\n"
        "from hpcscientist.history.status import DriverLock\n"
        "from hpcscientist.errors import CampaignBusy\n"
        "sys.stdin.readline()\n"
        "try:\n    DriverLock(Path(sys.argv[1])); print('won', flush=True)\n"
        "except CampaignBusy:\n    print('busy', flush=True)\n"
        "sys.stdin.read()\n"
    )
    takers = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path / "lock")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(6)
    ]
    for taker in takers:
        assert taker.stdin is not None
        taker.stdin.write("go\n")
        taker.stdin.flush()
    outcomes = [taker.stdout.readline().strip() for taker in takers if taker.stdout]
    for taker in takers:
        taker.communicate()
    assert sorted(outcomes) == ["busy"] * 5 + ["won"]


def test_driver_that_was_replaced_may_not_write(tmp_path: Path) -> None:
    lock = DriverLock(tmp_path / "lock")
    lock.check()
    (tmp_path / "lock" / f"{lock.generation + 1}.json").write_text("{}")
    with pytest.raises(CampaignBusy, match="hpcsci status"):
        lock.check()
    lock.release()


def test_taker_that_was_overtaken_looks_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Between its look and its file, two others took the campaign and gave it back.
    folder = tmp_path / "lock"
    DriverLock(folder).release()
    seen = lock_module._generations
    calls = iter([[1]])

    def late(path: Path) -> list[int]:
        stale = next(calls, None)
        if stale is not None:
            DriverLock(folder).release()
            DriverLock(folder).release()
            return stale
        return seen(path)

    with monkeypatch.context() as patch:
        patch.setattr(lock_module, "_generations", late)
        lock = DriverLock(folder)
    assert lock.generation == 4
    lock.release()


def test_signals_are_the_main_threads(tmp_path: Path) -> None:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    others = set(threading.enumerate())  # a driver that another test has killed leaves its lock's
    lock = DriverLock(tmp_path / ".driver")
    try:
        (thread,) = set(threading.enumerate()) - others
        status = Path(f"/proc/self/task/{thread.native_id}/status").read_text()
        (blocked,) = (line for line in status.splitlines() if line.startswith("SigBlk:"))
        mask = int(blocked.split()[1], 16)
        assert all(mask >> (n - 1) & 1 for n in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP))
        assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before
    finally:
        lock.release()


def test_full_disk_at_the_release_hides_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = DriverLock(tmp_path / "lock")

    def full(path: Path, value: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(lock_module, "write_json", full)
    lock.release()
    assert read_holder(tmp_path / "lock") is not None
