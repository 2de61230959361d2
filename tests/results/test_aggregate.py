"""Values by seed, whatever the state of the files."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from result_makers import FAILED, make_report, make_spec, put

from hpcscientist.errors import RunDirectoryError
from hpcscientist.files.rundir import RunPaths
from hpcscientist.records.trial import Split, Stage
from hpcscientist.results import scan as scanning
from hpcscientist.results.aggregate import Scores, overview
from hpcscientist.results.compact import compact
from hpcscientist.results.scan import read_files, regular_files, scan
from hpcscientist.results.store import SCHEMA, VERSION, VERSION_KEY, encode, read_table


@pytest.fixture
def paths(tmp_path: Path) -> RunPaths:
    return RunPaths(tmp_path)


def scores(paths: RunPaths, metric: str) -> Scores:
    """Values on the validation split."""
    return overview(paths, metric).validation


def test_an_empty_campaign_has_no_scores(paths: RunPaths) -> None:
    assert scores(paths, "accuracy").values == {}
    assert scan(paths, ["idea", "value"]).table.num_rows == 0


def test_values_by_idea_attempt_and_seed(paths: RunPaths) -> None:
    for seed in range(3):
        base = make_spec(f"b-{seed}", idea="baseline", stage=Stage.BASELINE, seed=seed)
        put(paths, base, {"accuracy": 0.5 + seed, "loss": 1.0})
        put(paths, make_spec(f"i-{seed}", attempt=2, seed=seed), {"accuracy": 0.7 + seed})
    put(paths, make_spec("i-old", attempt=1, seed=0), {"accuracy": 0.1})
    put(paths, make_spec("i-pilot", attempt=2, stage=Stage.PILOT, seed=0), {"accuracy": 0.0})
    put(paths, make_spec("i-failed", attempt=3, seed=0), FAILED)
    found = scores(paths, "accuracy")
    assert found.values == {
        ("baseline", 1): {0: 0.5, 1: 1.5, 2: 2.5},
        ("idea-0001", 1): {0: 0.1},
        ("idea-0001", 2): {0: 0.7, 1: 1.7, 2: 2.7},
    }
    assert found.of("idea-0001", 3) == {}
    assert scores(paths, "loss").values == {("baseline", 1): dict.fromkeys(range(3), 1.0)}


def test_splits_are_kept_apart(paths: RunPaths) -> None:
    put(paths, make_spec("v"), {"accuracy": 0.7})
    put(paths, make_spec("c", stage=Stage.CONFIRM, split=Split.TEST, seed=9), {"accuracy": 0.6})
    found = overview(paths, "accuracy")
    assert found.validation.of("idea-0001", 1) == {0: 0.7}
    assert found.test.of("idea-0001", 1) == {9: 0.6}


def test_one_broken_file_discards_nothing_else(paths: RunPaths) -> None:
    # The AI Scientist dropped an idea's good runs when one result file was missing.
    for seed in range(20):
        put(paths, make_spec(f"t-{seed:02d}", seed=seed), {"accuracy": seed / 10})
    paths.trial("t-03").result.write_bytes(b"")
    paths.trial("t-11").result.write_bytes(paths.trial("t-12").result.read_bytes()[:-40])
    paths.trial("t-19").result.unlink()
    found = overview(paths, "accuracy")
    assert found.unreadable == 2
    assert set(found.validation.of("idea-0001", 1)) == set(range(20)) - {3, 11, 19}


def test_the_order_of_files_decides_nothing(paths: RunPaths) -> None:
    # Dolphin let a later run overwrite the verdict in the order of the file listing.
    put(paths, make_spec("a", run=2), {"accuracy": 0.9})
    put(paths, make_spec("b", run=1), {"accuracy": 0.1})
    assert scores(paths, "accuracy").of("idea-0001", 1) == {0: 0.9}


def test_values_that_are_not_finite_were_not_measured(paths: RunPaths) -> None:
    put(paths, make_spec("a", seed=0), {"accuracy": math.nan})
    put(paths, make_spec("b", seed=1), {"accuracy": math.inf})
    put(paths, make_spec("d", seed=3), {"accuracy": -1e160})
    put(paths, make_spec("c", seed=2), {"accuracy": 0.0})
    assert scores(paths, "accuracy").of("idea-0001", 1) == {2: 0.0}


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_loose_compacted_and_both_give_the_same(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    paths = RunPaths(tmp_path_factory.mktemp("run"))
    values = data.draw(st.lists(st.none() | st.floats(-1, 1), min_size=1, max_size=6))
    for seed, value in enumerate(values):
        outcome = FAILED if value is None else {"accuracy": value, "loss": -value}
        put(paths, make_spec(f"t-{seed}", seed=seed), outcome)
    before = overview(paths, "accuracy")
    again = data.draw(st.sets(st.integers(0, len(values) - 1)))
    kept = {seed: paths.trial(f"t-{seed}").result.read_bytes() for seed in again}
    compact(paths)
    assert overview(paths, "accuracy") == before
    for seed, content in kept.items():  # as a compaction that was interrupted leaves it
        paths.trial(f"t-{seed}").root.mkdir()
        paths.trial(f"t-{seed}").result.write_bytes(content)
    assert overview(paths, "accuracy") == before
    assert scan(paths, ["trial"]).table.num_rows == sum(1 if v is None else 2 for v in values)


def test_columns_an_older_file_lacks_are_null(paths: RunPaths) -> None:
    put(paths, make_spec("new", seed=0), {"accuracy": 0.5})
    put(paths, make_spec("old", seed=1), {"accuracy": 0.6})
    _rewrite(paths, "old", lambda t: t.drop_columns(["tokens", "gpu_s"]))
    table = scan(paths, ["trial", "tokens", "value"]).table.sort_by("trial")
    assert table["tokens"].to_pylist() == [10, None]
    assert table["value"].to_pylist() == [0.5, 0.6]


@pytest.mark.parametrize("compacted", [False, True])
def test_a_stage_that_had_another_word_is_read_as_todays(paths: RunPaths, compacted: bool) -> None:
    put(paths, make_spec("new", seed=0), {"accuracy": 0.5})
    put(paths, make_spec("old", seed=1), {"accuracy": 0.6})
    place, words = SCHEMA.names.index("stage"), pa.array(["search"])
    _rewrite(paths, "old", lambda t: t.set_column(place, SCHEMA.field(place), words))
    if compacted:
        compact(paths)
    assert scores(paths, "accuracy").of("idea-0001", 1) == {0: 0.5, 1: 0.6}
    table = scan(paths, ["trial", "stage"]).table
    assert table["stage"].to_pylist() == ["seeds", "seeds"]
    if not compacted:
        assert read_table(paths.trial("old").result)["stage"].to_pylist() == ["seeds"]


@pytest.mark.parametrize("compacted", [False, True])
def test_rows_of_a_newer_schema_are_noticed_also_when_filtered(
    paths: RunPaths, compacted: bool
) -> None:
    put(paths, make_spec("good"), {"accuracy": 0.5})
    put(paths, make_spec("newer"), {"loss": 0.5})
    column = pa.array([VERSION + 1], pa.int16())
    place = SCHEMA.names.index("schema_version")
    _rewrite(paths, "newer", lambda t: t.set_column(place, "schema_version", column))
    if compacted:
        compact(paths)
    with pytest.raises(RunDirectoryError, match="upgrade hpcscientist"):
        scores(paths, "accuracy")


def test_a_newer_file_with_other_types_is_refused_not_skipped(paths: RunPaths) -> None:
    put(paths, make_spec("good"), {"accuracy": 0.5})
    trial = paths.trial("newer")
    trial.root.mkdir()
    table = pa.table({"schema_version": ["two"]}).replace_schema_metadata({VERSION_KEY: b"99"})
    with pa.ipc.new_file(trial.result, table.schema) as writer:
        writer.write_table(table)
    with pytest.raises(RunDirectoryError, match=r"newer.result.arrow: .*schema 99"):
        scores(paths, "accuracy")


def test_a_broken_part_leaves_the_others(paths: RunPaths) -> None:
    put(paths, make_spec("a", seed=0), {"accuracy": 0.5})
    compact(paths)
    put(paths, make_spec("b", seed=1), {"accuracy": 0.6})
    compact(paths)
    first, _ = scanning.part_files(paths)
    first.write_bytes(first.read_bytes()[:100])
    found = scores(paths, "accuracy")
    assert found.unreadable == 1
    assert found.of("idea-0001", 1) == {1: 0.6}


def test_files_that_a_compaction_moves_meanwhile_are_found(
    paths: RunPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in range(4):
        put(paths, make_spec(f"t-{seed}", seed=seed), {"accuracy": 0.5})
    listed = scanning.part_files

    def list_then_compact(where: RunPaths) -> list[Path]:
        found = listed(where)  # the parts are listed, then the loose files vanish
        monkeypatch.setattr(scanning, "part_files", listed)
        compact(where)
        return found

    monkeypatch.setattr(scanning, "part_files", list_then_compact)
    assert set(scores(paths, "accuracy").of("idea-0001", 1)) == set(range(4))


def test_nothing_but_regular_files_is_opened(tmp_path: Path) -> None:
    """To open a pipe would wait for its other end for ever, and a device has no end."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "device").symlink_to("/dev/zero")
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    names = ("pipe", "file", "device", "folder")
    assert regular_files([tmp_path / name for name in names]) == [tmp_path / "file"]
    assert read_files([tmp_path / "pipe"], "ipc", ["trial"], None)[1] == 1


def test_only_the_columns_needed_are_read(paths: RunPaths, monkeypatch: pytest.MonkeyPatch) -> None:
    put(paths, make_spec("a"), {"accuracy": 0.5})
    asked: list[set[str]] = []
    original = scanning.read_files

    def spy(files: Any, form: str, columns: list[str], where: Any) -> Any:
        asked.append(set(columns))
        return original(files, form, columns, where)

    monkeypatch.setattr(scanning, "read_files", spy)
    overview(paths, "accuracy")
    assert asked[0] == {
        *("trial", "run", "position", "schema_version"),
        *("idea", "attempt", "stage", "seed", "split", "metric", "value", "status"),
    }


def test_a_tool_that_knows_only_arrow_can_read_the_parts(paths: RunPaths) -> None:
    spec = make_spec("a")
    put(paths, spec, {"accuracy": 0.5})
    loose = pa.ipc.open_file(encode(spec, make_report(spec, {"accuracy": 0.5}))).read_all()
    compact(paths)
    (part,) = scanning.part_files(paths)
    assert pq.read_schema(part).metadata[VERSION_KEY] == str(VERSION).encode()
    assert ds.dataset(part).to_table().to_pylist() == loose.to_pylist()
    assert scan(paths, SCHEMA.names).table.to_pylist() == loose.to_pylist()


def _rewrite(paths: RunPaths, trial: str, change: Any) -> None:
    file = paths.trial(trial).result
    table = change(pa.ipc.open_file(file.read_bytes()).read_all())
    with pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
