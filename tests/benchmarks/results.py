"""`benchmarks results`: reading a campaign's results, beside a bare pyarrow data set.

What is timed is the reading behind `hpcsci results`: every idea's values by seed and its
costs. Start-up is left out, on both sides.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Final

import pyarrow.dataset as ds

from hpcscientist.bench.figure import Figure, RunCosts, TimedCall, measure
from hpcscientist.files.rundir import RunPaths, TrialPaths
from hpcscientist.records.trial import (
    Budget,
    Direction,
    Isolation,
    Limits,
    MetricSpec,
    Provenance,
    Scored,
    Sources,
    Split,
    Stage,
    TrialReport,
    TrialSpec,
    Usage,
)
from hpcscientist.results.aggregate import overview
from hpcscientist.results.compact import compact
from hpcscientist.results.store import encode

BEFORE_TARGET: Final = 1.3  # times the bare read of the same files
AFTER_TARGET: Final = 0.1  # times our own read of the loose files

_SEEDS: Final = 5
_PRIMARY: Final = "metric_000"


def figures(
    trials: int = 10_000, rows_per_trial: int = 100, runs: int = 3, folder: Path | None = None
) -> list[Figure]:
    """Measure reading `trials` result files of `rows_per_trial` rows, before and after compaction.

    Files go to a temporary folder below `folder` (for the figures of a shared file system;
    None: the system's), some 75 KiB a trial of 100 rows, and are in the page cache when
    they are read. Raises OSError where they find no room, ValueError for counts below 1.
    """
    if min(trials, rows_per_trial, runs) < 1:
        raise ValueError("trials, rows and runs are at least 1")
    with tempfile.TemporaryDirectory(prefix="hpcsci-bench-", dir=folder) as place:
        paths = RunPaths(Path(place))
        for number in range(trials):
            _write_trial(paths, number, rows_per_trial)
        calls = {"bare": TimedCall(read_bare, (place,)), "ours": TimedCall(read_ours, (place,))}
        loose = measure(calls, runs)
        took = measure({"compact": TimedCall(compact_all, (place,))}, 1)["compact"]
        after = measure({"ours": TimedCall(read_ours, (place,))}, runs)["ours"]
    return _figures(loose["bare"], loose["ours"], took, after)


def read_bare(root: str) -> None:
    """Read all columns of the loose files as a bare data set, which is compared with."""
    folders = RunPaths(Path(root)).trials.iterdir()
    files = [str(TrialPaths(folder).result) for folder in folders]
    ds.dataset(files, format="ipc").to_table()


def read_ours(root: str) -> None:
    """Read what `hpcsci results` shows."""
    found = overview(RunPaths(Path(root)), _PRIMARY)
    if found.unreadable or not found.validation.values:
        raise RuntimeError("the result files cannot be read back")


def compact_all(root: str) -> None:
    """Compact every trial."""
    compact(RunPaths(Path(root)))


def _figures(bare: RunCosts, before: RunCosts, took: RunCosts, after: RunCosts) -> list[Figure]:
    def seconds(name: str, of: RunCosts, than: RunCosts | None, words: str | None) -> Figure:
        ratio = of.median / than.median if than else None
        target = {"results, loose files": BEFORE_TARGET, "results, compacted": AFTER_TARGET}
        return Figure(
            name, of.median, "s", words, ratio, target.get(name), of.spread, len(of.seconds)
        )

    def memory(name: str, of: RunCosts, than: RunCosts | None, words: str | None) -> Figure:
        value, spread = max(of.peak_mb), max(of.peak_mb) - min(of.peak_mb)
        ratio = value / max(than.peak_mb) if than else None
        return Figure(name, value, "MiB", words, ratio, None, spread, len(of.peak_mb))

    loose = "bare pyarrow data set of the same files"
    ours = "results, loose files"
    return [
        seconds("bare read, loose files", bare, None, None),
        seconds("results, loose files", before, bare, f"{loose}: {bare.median:.3g} s"),
        seconds("results, compacted", after, before, f"{ours}: {before.median:.3g} s"),
        seconds("compaction", took, bare, f"{loose}: {bare.median:.3g} s"),
        memory("peak memory, bare read", bare, None, None),
        memory("peak memory, loose files", before, bare, loose),
        memory("peak memory, compacted", after, bare, loose),
        memory("peak memory, compaction", took, bare, loose),
    ]


def _write_trial(paths: RunPaths, number: int, rows: int) -> None:
    idea, seed = divmod(number, _SEEDS)
    spec = _spec(f"trial-{number:06d}", idea, seed)
    usage = Usage(started_at=1.0, ended_at=61.0, cpu_s=60.0, peak_mb=512.0, node="node-001")
    outcome = Scored(metrics={f"metric_{i:03d}": 0.5 + i + 0.001 * seed for i in range(rows)})
    report = TrialReport(
        trial_id=spec.trial_id, run=1, outcome=outcome, usage=usage, predictions_hash="e" * 64
    )
    trial = paths.trial(spec.trial_id)
    trial.out.mkdir(parents=True)
    trial.spec.write_text(spec.model_dump_json())
    trial.log.write_text("epoch 1: loss 0.5\n" * 20)
    trial.result.write_bytes(encode(spec, report))


def _spec(trial_id: str, idea: int, seed: int) -> TrialSpec:
    baseline = idea == 0
    return TrialSpec(
        trial_id=trial_id,
        idea_id="baseline" if baseline else f"idea-{idea:04d}",
        round=1,
        attempt=1,
        stage=Stage.BASELINE if baseline else Stage.SEEDS,
        seed=seed,
        split=Split.VALIDATION,
        budget=Budget.FULL,
        metrics=(MetricSpec(name=_PRIMARY, direction=Direction.MAXIMIZE),),
        limits=Limits(deadline_s=60, memory_mb=1024, output_mb=64, cpus=1, gpus=0),
        sources=Sources(
            code="code",
            entry="experiment.py",
            data="data",
            labels="labels",
            scorer="score.py",
            scorer_hash="f" * 64,
            predictions="predictions.csv",
            python="python",
        ),
        isolation=Isolation.NONE,
        provenance=Provenance(
            campaign_id="bench",
            package_version="0",
            recipe_hash="a" * 64,
            data_hash="b" * 64,
            code_hash=f"{idea:064x}",
            model="bench",
        ),
        queued_at=0.0,
    )
