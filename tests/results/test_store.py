"""A trial's result file: whole or absent, and exactly what was reported."""

from __future__ import annotations

import errno
import json
import os
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from result_makers import FAILED, make_report, make_spec

from hpcscientist.errors import RunDirectoryError
from hpcscientist.files.rundir import TrialPaths
from hpcscientist.records.trial import (
    SELF_REPORTED,
    IdeaFailed,
    IdeaFailure,
    MachineFailed,
    MachineFailure,
    Outcome,
    Scored,
    TrialReport,
    TrialSpec,
    Usage,
)
from hpcscientist.results.store import (
    SCHEMA,
    VERSION,
    VERSION_KEY,
    encode,
    read_result,
    read_table,
    write_result,
)

finite = st.floats(allow_nan=False, allow_infinity=False)
numbers = st.floats(allow_nan=False)
counts = st.integers(1, 2**31)
text = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
maybe = st.none() | text

outcomes: st.SearchStrategy[Outcome] = st.one_of(
    st.builds(Scored, metrics=st.dictionaries(text, numbers, max_size=5)),
    st.builds(IdeaFailed, failure=st.sampled_from(IdeaFailure), detail=text),
    st.builds(MachineFailed, failure=st.sampled_from(MachineFailure), detail=text),
)
usages = st.builds(
    Usage,
    started_at=finite,
    ended_at=finite,
    cpu_s=finite,
    gpu_s=finite,
    peak_mb=finite,
    node=text,
    slurm_job=maybe,
    slurm_state=maybe,
)


@given(outcome=outcomes, usage=usages, run=counts, digest=maybe)
def test_a_report_comes_back_exactly(
    outcome: Outcome, usage: Usage, run: int, digest: str | None
) -> None:
    spec = make_spec("t-1", run=run)
    report = TrialReport(
        trial_id="t-1", run=run, outcome=outcome, usage=usage, predictions_hash=digest
    )
    with tempfile.TemporaryDirectory() as folder:
        trial = TrialPaths(Path(folder))
        trial.spec.write_text(spec.model_dump_json())
        write_result(trial, spec, report)
        assert read_result(trial) == report
        assert sorted(p.name for p in trial.root.iterdir()) == ["result.arrow", "spec.json"]


@given(cut=st.floats(0, 1, exclude_max=True))
def test_a_half_written_file_is_no_result(cut: float) -> None:
    spec = make_spec("t-1")
    data = encode(spec, make_report(spec, {"accuracy": 0.5}))
    with tempfile.TemporaryDirectory() as folder:
        trial = TrialPaths(Path(folder))
        trial.result.write_bytes(data[: int(len(data) * cut)])
        assert read_result(trial) is None


@given(garbage=st.binary(max_size=300))
def test_garbage_is_no_result(garbage: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        trial = TrialPaths(Path(folder))
        for content in (garbage, b"ARROW1\0\0" + garbage + b"ARROW1"):
            trial.result.write_bytes(content)
            assert read_result(trial) is None


@given(place=st.floats(0, 1, exclude_max=True), byte=st.integers(1, 255))
def test_a_flipped_byte_never_raises(place: float, byte: int) -> None:
    spec = make_spec("t-1")
    data = bytearray(encode(spec, make_report(spec, {"accuracy": 0.5, "loss": 1.0})))
    data[int(len(data) * place)] ^= byte
    with tempfile.TemporaryDirectory() as folder:
        trial = TrialPaths(Path(folder))
        trial.result.write_bytes(bytes(data))
        try:
            report = read_result(trial)
        except RunDirectoryError:  # the flipped byte was the version's
            return
        assert report is None or isinstance(report, TrialReport)


def test_nothing_is_no_result(tmp_path: Path) -> None:
    assert read_result(TrialPaths(tmp_path / "absent")) is None


@pytest.mark.parametrize("asked", [{"run": 2}, {"trial_id": "t-2"}])
def test_the_result_of_another_run_or_trial_does_not_count(
    tmp_path: Path, asked: dict[str, Any]
) -> None:
    trial, spec = TrialPaths(tmp_path), make_spec("t-1")
    write_result(trial, spec, make_report(spec, FAILED))
    assert read_result(trial) is not None
    trial.spec.write_text(spec.model_copy(update=asked).model_dump_json())
    assert read_result(trial) is None


@pytest.mark.parametrize("content", ["", "[]", "{", '{"trial_id": "t-1", "run": null}'])
def test_an_unreadable_spec_asks_for_nothing(tmp_path: Path, content: str) -> None:
    trial, spec = TrialPaths(tmp_path), make_spec("t-1")
    write_result(trial, spec, make_report(spec, FAILED))
    trial.spec.write_text(content)
    assert read_result(trial) is None


def test_a_full_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    trial, spec = TrialPaths(tmp_path), make_spec("t-1")
    with pytest.raises(OSError, match=f"Errno {errno.ENOSPC}"):
        write_result(trial, spec, make_report(spec, {"accuracy": 0.5}))
    assert list(tmp_path.iterdir()) == []


def test_one_row_a_metric_and_one_without_for_the_unscored() -> None:
    spec = make_spec("t-1", seed=3)
    scored = _rows(encode(spec, make_report(spec, {"loss": 0.25, "accuracy": 0.5, "extra": 2.0})))
    assert [(r["position"], r["metric"], r["value"], r["direction"]) for r in scored] == [
        (0, "loss", 0.25, "minimize"),
        (1, "accuracy", 0.5, "maximize"),
        (2, "extra", 2.0, None),
    ]
    assert {r["self_reported"] for r in scored} == {False}
    (failed,) = _rows(encode(spec, make_report(spec, FAILED)))
    assert failed["metric"] is None
    assert failed["value"] is None
    assert (failed["status"], failed["failure"]) == ("idea_failed", "timeout")
    assert (failed["seed"], failed["parent"], failed["tokens"]) == (3, ["idea-0000"], 10)


def test_the_contract_s_columns_are_there() -> None:
    assert set(SCHEMA.names) >= {
        *("campaign", "idea", "attempt", "trial", "parent", "round", "stage", "seed", "split"),
        *("metric", "value", "direction", "self_reported", "status", "failure", "slurm_job"),
        *("slurm_state", "node", "queued_at", "started_at", "ended_at", "cpu_s", "gpu_s"),
        *("peak_mb", "code_hash", "package_version", "package_hash", "model", "tokens"),
    }
    assert all(field.metadata[b"description"] for field in SCHEMA)
    assert SCHEMA.metadata[VERSION_KEY] == str(VERSION).encode()


def test_a_newer_file_is_refused_by_name(tmp_path: Path) -> None:
    newer = SCHEMA.with_metadata({VERSION_KEY: b"99"})
    trial = TrialPaths(tmp_path)
    _write(trial.result, newer.empty_table())
    with pytest.raises(RunDirectoryError, match=r"result.arrow: .*schema 99.*upgrade"):
        read_result(trial)


def test_columns_an_older_file_lacks_are_null(tmp_path: Path) -> None:
    spec = make_spec("t-1")
    report = make_report(spec, {"accuracy": 0.5})
    table = pa.ipc.open_file(encode(spec, report)).read_all()
    _write(tmp_path / "old.arrow", table.drop_columns(["tokens", "image_hash"]))
    read = read_table(tmp_path / "old.arrow")
    assert read is not None
    assert read.schema.equals(SCHEMA, check_metadata=True)
    assert read["tokens"].to_pylist() == [None]
    assert read["value"].to_pylist() == [0.5]


def test_an_arrow_file_that_is_not_ours_is_no_result(tmp_path: Path) -> None:
    trial = TrialPaths(tmp_path)
    _write(trial.result, pa.table({"x": [1]}))
    assert read_result(trial) is None


def _rows(data: bytes) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pa.ipc.open_file(data).read_all().to_pylist()
    return rows


def _write(path: Path, table: Any) -> None:
    with pa.ipc.new_file(path, table.schema) as writer:
        writer.write_table(table)


def test_tokens_beyond_any_count_are_bounded(tmp_path: Path) -> None:
    """A campaign of an earlier version took whatever a server had counted."""
    paths, spec = TrialPaths(tmp_path), make_spec("t-1").model_copy(update={"tokens": 10**30})
    report = make_report(spec, {"accuracy": 0.5})
    write_result(paths, spec, report)
    assert read_result(paths) == report


def test_a_spec_is_written_so_that_workers_of_earlier_releases_read_it() -> None:
    spec = make_spec("t")
    assert json.loads(spec.model_dump_json())["stage"] == "search"
    assert TrialSpec.model_validate_json(spec.model_dump_json()) == spec


def test_what_candidates_report_of_themselves_is_marked_in_every_row(tmp_path: Path) -> None:
    spec = make_spec("t-1")
    metrics = tuple(m.model_copy(update={"name": SELF_REPORTED + m.name}) for m in spec.metrics)
    spec = spec.model_copy(update={"metrics": metrics})
    paths = TrialPaths(tmp_path)
    write_result(paths, spec, make_report(spec, {metric.name: 0.5 for metric in metrics}))
    table = read_table(paths.result)
    assert table is not None
    assert table["self_reported"].to_pylist() == [True, True]
