"""Results that are gone, or say something else than the journal, are written again from it."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from bench_campaign import CampaignBench, ScriptedProposer, scored

from hpcscientist.files.rundir import RunPaths
from hpcscientist.history import frozen
from hpcscientist.judgement.summary import Summary, read_rows
from hpcscientist.records.trial import IdeaFailed, IdeaFailure, Outcome, TrialSpec
from hpcscientist.results.scan import part_files
from hpcscientist.results.store import read_result

WORDS = ("one two", "three four", "five six")
Loss = Callable[[RunPaths], object]


def value(spec: TrialSpec) -> Outcome:
    better = 0.3 if spec.idea_id != "baseline" else 0.0
    return scored(0.5 + 0.003 * (spec.seed % 7) + better)


def deleted(paths: RunPaths) -> None:
    for file in (*paths.trials.glob("*/result.arrow"), *part_files(paths)):
        file.unlink()


def other_numbers(paths: RunPaths) -> None:
    def better(table: Any) -> Any:
        value = table.schema.get_field_index("value")
        return table.set_column(value, "value", pc.add(table["value"], 0.1))

    for part in part_files(paths):
        pq.write_table(better(pq.read_table(part)), part)
    for file in paths.trials.glob("*/result.arrow"):
        with pa.ipc.open_file(pa.BufferReader(file.read_bytes())) as reader:
            table = better(reader.read_all())
        with pa.ipc.new_file(str(file), table.schema) as writer:
            writer.write_table(table)


LOSSES: dict[str, Loss] = {
    "deleted": deleted,
    "no folders": lambda paths: [
        shutil.rmtree(folder, ignore_errors=True) for folder in (paths.trials, paths.results)
    ],
    "other numbers": other_numbers,
    "garbage": lambda paths: [
        file.write_bytes(b"ARROW1")
        for file in (*paths.trials.glob("*/result.arrow"), *part_files(paths))
    ],
    "pipes": lambda paths: [
        (file.unlink(), os.mkfifo(file))
        for file in (*paths.trials.glob("*/result.arrow"), *part_files(paths))
    ],
    "one of them": lambda paths: (
        paths.trial("baseline-a1-baseline-2").result.unlink(missing_ok=True)
        or [part.unlink() for part in part_files(paths)]
    ),
}


def a_bench(folder: Path, compacted: bool) -> CampaignBench:
    bench = CampaignBench(folder, len(WORDS), compact_after=3 if compacted else 500)
    bench.config = bench.config.model_copy(update={"in_flight": 1})
    frozen.write(bench.paths, bench.config)
    return bench


def shown(summary: Summary) -> list[Any]:
    return [row.model_dump(exclude={"cpu_hours", "gpu_hours"}) for row in summary.rows]


@pytest.fixture
async def expected(tmp_path: Path) -> list[Any]:
    bench = a_bench(tmp_path / "undisturbed", compacted=False)
    await bench.drive(value, ScriptedProposer(*WORDS))
    rows = shown(read_rows(bench.paths))
    assert all(row["finding"] for row in rows[1:])
    return rows


@pytest.mark.parametrize("compacted", [False, True], ids=["loose", "compacted"])
@pytest.mark.parametrize("loss", LOSSES)
async def test_what_is_gone_between_a_stop_and_a_resume_is_there_again(
    loss: str, compacted: bool, tmp_path: Path, expected: list[Any]
) -> None:
    bench = a_bench(tmp_path / "disturbed", compacted)
    with pytest.raises(RuntimeError, match="stop"):
        await bench.drive(value, ScriptedProposer(*WORDS[:2], RuntimeError("stop")))
    assert bool(part_files(bench.paths)) == compacted
    LOSSES[loss](bench.paths)
    assert read_rows(bench.paths).missing.count, "nothing was lost"
    backend = await bench.drive(value, ScriptedProposer(*WORDS))
    summary = read_rows(bench.paths)
    assert (summary.missing.count, summary.unreadable) == (0, 0)
    assert shown(summary) == expected
    ran = {idea.rpartition("-a")[0] for idea, _ in backend.ran}
    assert ran == {"idea-0003", "baseline"} & ran, "what the journal has was run again"
    assert sum("written again" in note for note in summary.notes) == 1


async def test_a_result_that_was_changed_is_not_compacted_as_it_is(
    tmp_path: Path, expected: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = a_bench(tmp_path / "disturbed", compacted=True)

    async def at_once(call: Callable[..., object], *arguments: object) -> object:
        """Compact while no trial ends: what is changed here must be there to be changed."""
        return call(*arguments)

    monkeypatch.setattr(asyncio, "to_thread", at_once)

    def judge(spec: TrialSpec) -> Outcome:
        other_numbers(bench.paths)
        return value(spec)

    await bench.drive(judge, ScriptedProposer(*WORDS))
    summary = read_rows(bench.paths)
    assert part_files(bench.paths)
    assert (summary.missing.count, summary.unreadable) == (0, 0)
    assert shown(summary) == expected


async def test_rows_of_trials_that_nobody_ran_count_for_nothing(
    tmp_path: Path, expected: list[Any]
) -> None:
    bench = a_bench(tmp_path / "disturbed", compacted=True)
    await bench.drive(value, ScriptedProposer(*WORDS))
    (part, *_) = part_files(bench.paths)
    table = pq.read_table(part)
    for name, column in (
        ("trial", pa.array(["zz"] * table.num_rows)),
        ("run", pa.array([9] * table.num_rows)),
    ):
        place = table.schema.get_field_index(name)
        forged = table.set_column(place, name, column.cast(table.schema.field(name).type))
        values = forged.schema.get_field_index("value")
        forged = forged.set_column(values, "value", pc.add(forged["value"], 0.1))
        pq.write_table(forged, part.with_name(f"part-9{place}.parquet"))
    assert shown(read_rows(bench.paths)) == expected
    await bench.drive(value, ScriptedProposer(*WORDS))
    assert shown(read_rows(bench.paths)) == expected
    assert len(list(bench.paths.results.glob("changed-part-*.parquet"))) == 2


async def test_a_trial_that_failed_has_its_result_again(tmp_path: Path) -> None:
    bench = a_bench(tmp_path, compacted=False)

    def judge(spec: TrialSpec) -> Outcome:
        if spec.idea_id == "idea-0002":
            return IdeaFailed(failure=IdeaFailure.TIMEOUT, detail="ran past 20 s")
        return value(spec)

    await bench.drive(judge, ScriptedProposer(*WORDS))
    place = bench.paths.trial("idea-0002-a1-pilot-0")
    before = read_result(place)
    shutil.rmtree(place.root)
    await bench.drive(judge, ScriptedProposer(*WORDS))
    assert read_result(place) == before
