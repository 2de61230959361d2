"""Compaction keeps everything, at whatever step it is interrupted."""

from __future__ import annotations

import errno
import os
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from result_makers import FAILED, make_report, make_spec, put

from hpcscientist.errors import RunDirectoryError
from hpcscientist.files.rundir import RunPaths
from hpcscientist.records.trial import MachineFailed, MachineFailure, TrialSpec
from hpcscientist.results import compact as compaction
from hpcscientist.results import logs, store
from hpcscientist.results.aggregate import overview
from hpcscientist.results.compact import MANY_PARTS, compact
from hpcscientist.results.scan import part_files, scan
from hpcscientist.results.store import read_result

LOST = MachineFailed(failure=MachineFailure.LOST, detail="gone")


@pytest.fixture
def paths(tmp_path: Path) -> RunPaths:
    return RunPaths(tmp_path)


def fill(paths: RunPaths, count: int = 4) -> None:
    for seed in range(count):
        outcome = FAILED if seed == 1 else {"accuracy": seed / 10, "loss": 1.0}
        put(paths, make_spec(f"t-{seed}", seed=seed), outcome, log=f"log of {seed}\n")


def inodes(paths: RunPaths) -> int:
    return sum(1 for _ in paths.root.rglob("*"))


def compacted(paths: RunPaths, trial_id: str, name: str) -> bytes | None:
    """What any reader of Parquet finds in a column of the logs."""
    (file,) = logs.log_files(paths)
    (value,) = pq.read_table(file, columns=[name], filters=[("trial", "=", trial_id)])[name]
    return value.as_py()


def test_folders_become_two_files(paths: RunPaths) -> None:
    fill(paths)
    before = overview(paths, "accuracy")
    assert compact(paths) == 4
    assert overview(paths, "accuracy") == before
    assert list(paths.trials.iterdir()) == []
    assert sorted(p.name for p in paths.results.iterdir()) == [
        "logs-000001.parquet",
        "part-000001.parquet",
    ]


def test_few_results_are_held_apart(paths: RunPaths, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each holds on to all of its file; a part of thousands of them may not hold thousands."""
    fill(paths, 12)
    monkeypatch.setattr(compaction, "_TABLES_AT_ONCE", 3)
    held: list[weakref.ref[object]] = []
    most = 0

    def read_table(file: Path) -> object:
        nonlocal most
        table = store.read_table(file)
        held.append(weakref.ref(table))
        most = max(most, sum(table() is not None for table in held))
        return table

    monkeypatch.setattr(compaction, "read_table", read_table)
    assert compact(paths) == 12
    assert len(held) == 12
    assert most <= 3 + 1


def test_it_is_idempotent(paths: RunPaths) -> None:
    fill(paths)
    compact(paths)
    files = {p: p.read_bytes() for p in paths.results.iterdir()}
    assert compact(paths) == 0
    assert {p: p.read_bytes() for p in paths.results.iterdir()} == files


def test_nothing_to_compact(paths: RunPaths) -> None:
    assert compact(paths) == 0


def test_logs_specs_and_progress_stay_reachable(paths: RunPaths) -> None:
    fill(paths)
    paths.trial("t-1").log.write_bytes(b"not \xff text\n")
    put(paths, make_spec("t-9", run=2), FAILED, log="second run\n")
    loose = {t: logs.read(paths, t) for t in ("t-0", "t-1", "t-9")}
    assert loose["t-1"] == "not � text\n"
    assert logs.progress(paths, "t-0", 1) == '{"step": 1}\n'
    compact(paths)
    assert {t: logs.read(paths, t) for t in loose} == loose
    assert logs.progress(paths, "t-0", 1) == '{"step": 1}\n'
    assert logs.progress(paths, "t-0", 2) == logs.progress(paths, "t-x", 1) == ""
    assert TrialSpec.model_validate_json(compacted(paths, "t-9", "spec")) == make_spec("t-9", run=2)
    assert compacted(paths, "t-0", "progress") == b'{"step": 1}\n'
    with pytest.raises(RunDirectoryError, match="no trial 't-x'"):
        logs.read(paths, "t-x")


def test_the_latest_run_s_log_is_read(paths: RunPaths) -> None:
    put(paths, make_spec("t-1", run=1), LOST, log="first\n")
    compact(paths, only={"t-1"})
    put(paths, make_spec("t-1", run=2), FAILED, log="second\n")
    assert logs.read(paths, "t-1") == "second\n"
    compact(paths)
    assert logs.read(paths, "t-1") == "second\n"
    assert sorted(scan(paths, ["run"]).table["run"].to_pylist()) == [1, 2]


def test_what_the_candidate_links_to_is_not_taken(paths: RunPaths) -> None:
    put(paths, make_spec("link"), FAILED)
    put(paths, make_spec("pipe"), FAILED)
    secret = paths.root / "secret"
    secret.write_text("labels")
    for trial in ("link", "pipe"):
        (paths.trial(trial).out / "progress.jsonl").unlink()
    (paths.trial("link").out / "progress.jsonl").symlink_to(secret)
    os.mkfifo(paths.trial("pipe").out / "progress.jsonl")
    compact(paths)
    assert compacted(paths, "link", "progress") is None
    assert compacted(paths, "pipe", "progress") is None
    assert secret.exists()


def test_trials_that_are_not_over_stay(paths: RunPaths) -> None:
    fill(paths, 1)
    put(paths, make_spec("lost"), LOST)  # may be run again
    put(paths, make_spec("torn"), FAILED)
    paths.trial("torn").result.write_bytes(b"ARROW1")
    put(paths, make_spec("again"), LOST)
    paths.trial("again").spec.write_text(make_spec("again", run=2).model_dump_json())
    put(paths, make_spec("runs"), FAILED)
    paths.trial("runs").result.unlink()
    assert compact(paths) == 1
    assert sorted(p.name for p in paths.trials.iterdir()) == ["again", "lost", "runs", "torn"]
    assert compact(paths, only={"lost", "again", "runs", "torn"}) == 1
    assert sorted(p.name for p in paths.trials.iterdir()) == ["again", "runs", "torn"]


def test_only_the_named_trials_go(paths: RunPaths) -> None:
    fill(paths)
    assert compact(paths, only={"t-2", "t-absent"}) == 1
    assert sorted(p.name for p in paths.trials.iterdir()) == ["t-0", "t-1", "t-3"]


class Killed(BaseException):
    """The process is no more: nothing it would still do happens."""


@contextmanager
def killed_at(step: int) -> Iterator[list[int]]:
    """Let the process die at its nth change of the file system, clean-up handlers included."""
    count = [0]
    with pytest.MonkeyPatch.context() as patch:

        def dying(original: Callable[..., object]) -> Callable[..., object]:
            def call(*args: object, **kwargs: object) -> object:
                count[0] += 1
                if count[0] >= step:
                    raise Killed
                return original(*args, **kwargs)

            return call

        for name in ("rename", "replace", "unlink", "rmdir", "mkdir", "fsync"):
            patch.setattr(os, name, dying(getattr(os, name)))
        yield count


def test_a_kill_at_every_step_loses_and_doubles_nothing(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    step, ended = 0, False
    while not ended:
        step += 1
        paths = RunPaths(tmp_path_factory.mktemp("run"))
        fill(paths, 3)
        before = overview(paths, "accuracy")
        text = {f"t-{seed}": logs.read(paths, f"t-{seed}") for seed in range(3)}
        try:
            with killed_at(step) as count:
                compact(paths)
            ended = True
        except Killed:
            pass
        assert overview(paths, "accuracy") == before, count
        assert {trial: logs.read(paths, trial) for trial in text} == text
        compact(paths)
        assert overview(paths, "accuracy") == before
        assert {trial: logs.read(paths, trial) for trial in text} == text
        assert inodes(paths) <= 6
    assert step > 15


def test_a_kill_at_every_step_of_a_merge(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "MANY_PARTS", 2)
    step, ended = 0, False
    while not ended:
        step += 1
        paths = RunPaths(tmp_path_factory.mktemp("run"))
        for seed in range(2):
            put(paths, make_spec(f"t-{seed}", seed=seed), {"accuracy": seed / 10})
            compact(paths)
        put(paths, make_spec("t-2", seed=2), {"accuracy": 0.5})
        before = overview(paths, "accuracy")
        try:
            with killed_at(step):
                compact(paths)
            ended = True
        except Killed:
            pass
        assert overview(paths, "accuracy") == before
        compact(paths)
        assert overview(paths, "accuracy") == before
        assert [logs.read(paths, f"t-{seed}") for seed in range(3)] == ["log\n"] * 3
    assert len(part_files(paths)) == 1


@pytest.mark.full
def test_inodes_do_not_grow_with_trials(paths: RunPaths) -> None:
    seed = 0
    for _ in range(MANY_PARTS + 2):
        for _ in range(2):
            put(paths, make_spec(f"t-{seed:03d}", seed=seed), {"accuracy": 0.5})
            seed += 1
        compact(paths)
    assert inodes(paths) <= 10
    assert set(overview(paths, "accuracy").validation.of("idea-0001", 1)) == set(range(seed))
    assert logs.read(paths, "t-000") == "log\n"


def test_a_broken_part_is_left_alone_by_a_merge(
    paths: RunPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "MANY_PARTS", 2)
    for seed in range(4):
        put(paths, make_spec(f"t-{seed}", seed=seed), {"accuracy": 0.5})
        if seed == 3:
            broken = part_files(paths)[0]
            broken.write_bytes(b"PAR1 no more")
        compact(paths)
    assert broken.exists()
    assert overview(paths, "accuracy").unreadable == 1


def test_a_full_disk_keeps_every_folder(paths: RunPaths, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(paths)
    before = overview(paths, "accuracy")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match=f"Errno {errno.ENOSPC}"):
            compact(paths)
    assert list(paths.results.iterdir()) == []
    assert len(list(paths.trials.iterdir())) == 4
    assert overview(paths, "accuracy") == before


def test_a_compacted_trial_has_no_result_file_any_more(paths: RunPaths) -> None:
    spec = make_spec("t-1")
    report = put(paths, spec, {"accuracy": 0.5})
    assert read_result(paths.trial("t-1")) == report == make_report(spec, {"accuracy": 0.5})
    compact(paths)
    assert read_result(paths.trial("t-1")) is None


def test_a_newer_result_stops_compaction_and_loses_nothing(paths: RunPaths) -> None:
    fill(paths, 2)
    file = paths.trial("t-1").result
    table = pa.ipc.open_file(file.read_bytes()).read_all()
    table = table.replace_schema_metadata({b"hpcscientist.result_schema": b"99"})
    with pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    with pytest.raises(RunDirectoryError, match="upgrade"):
        compact(paths)
    assert len(list(paths.trials.iterdir())) == 2


def test_a_part_of_many_row_groups_and_another_after_it(paths: RunPaths) -> None:
    """Logs of more than 128 trials are several row groups, each with a dictionary of its own."""
    each = 130
    for number in range(3):
        for seed in range(number * each, (number + 1) * each):
            put(paths, make_spec(f"t-{seed:03d}", seed=seed), {"accuracy": 0.5})
        put(paths, make_spec("t-again", run=number + 1), FAILED)
        compact(paths)
    kept = [pq.ParquetFile(file).num_row_groups for file in logs.log_files(paths)]
    assert min(kept) > 1
    assert set(overview(paths, "accuracy").validation.of("idea-0001", 1)) == set(range(3 * each))
    assert sorted(set(scan(paths, ["run"]).table["run"].to_pylist())) == [1, 2, 3]
    assert {logs.read(paths, f"t-{seed:03d}") for seed in range(0, 3 * each, 65)} == {"log\n"}


def test_much_text_is_compacted_and_merged_a_little_at_a_time(
    paths: RunPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "MANY_PARTS", 2)
    monkeypatch.setattr(compaction, "_BYTES_AT_ONCE", 10_000)
    for seed in range(9):
        put(paths, make_spec(f"t-{seed}", seed=seed), FAILED, log=f"{seed}" * 4_000)
        if seed % 3 == 2:
            compact(paths)
    (merged,) = logs.log_files(paths)
    opened = pq.ParquetFile(merged).metadata
    held = [opened.row_group(number).num_rows for number in range(opened.num_row_groups)]
    assert sum(held) == 9
    assert max(held) < 4
    assert [logs.read(paths, f"t-{seed}") for seed in range(9)] == [
        f"{seed}" * 4_000 for seed in range(9)
    ]


def test_a_part_that_breaks_in_its_middle_is_left_by_a_merge(
    paths: RunPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "MANY_PARTS", 2)
    monkeypatch.setattr(compaction, "_BYTES_AT_ONCE", 1_000)
    for seed in range(8):
        put(paths, make_spec(f"t-{seed}", seed=seed), {"accuracy": 0.5}, log=f"{seed}" * 4_000)
        if seed == 2:
            broken = logs.log_files(paths)[0]
            groups = pq.ParquetFile(broken).metadata
            data = bytearray(broken.read_bytes())
            start = groups.row_group(groups.num_row_groups - 1).column(3).data_page_offset
            data[start : start + 16] = bytes(16)
            broken.write_bytes(data)
        if seed % 2:
            compact(paths)
    assert broken.exists()
    assert [logs.read(paths, f"t-{seed}") for seed in range(2, 8)] == [
        f"{seed}" * 4_000 for seed in range(2, 8)
    ]
