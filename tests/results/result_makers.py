"""Specs and reports for the tests of results."""

from __future__ import annotations

from collections.abc import Mapping

from hpcscientist.files.rundir import RunPaths
from hpcscientist.records.trial import (
    Budget,
    Direction,
    IdeaFailed,
    IdeaFailure,
    Isolation,
    Limits,
    MetricSpec,
    Outcome,
    Provenance,
    Scored,
    Sources,
    Split,
    Stage,
    TrialReport,
    TrialSpec,
    Usage,
)
from hpcscientist.results.store import write_result

ACCURACY = MetricSpec(name="accuracy", direction=Direction.MAXIMIZE)
LOSS = MetricSpec(name="loss", direction=Direction.MINIMIZE)
FAILED = IdeaFailed(failure=IdeaFailure.TIMEOUT, detail="ran past 30 s")


def make_spec(
    trial_id: str,
    *,
    idea: str = "idea-0001",
    attempt: int = 1,
    stage: Stage = Stage.SEEDS,
    seed: int = 0,
    split: Split = Split.VALIDATION,
    run: int = 1,
) -> TrialSpec:
    sources = Sources(
        code="/c",
        entry="experiment.py",
        data="/d",
        labels="/l",
        scorer="/s",
        scorer_hash="0" * 64,
        predictions="predictions.csv",
        python="python",
    )
    provenance = Provenance(
        campaign_id="c-1",
        package_version="0.1.0",
        recipe_hash="a" * 64,
        data_hash="b" * 64,
        code_hash="c" * 64,
        model="playbook",
    )
    return TrialSpec(
        trial_id=trial_id,
        idea_id=idea,
        parent_ids=("idea-0000",),
        round=1,
        attempt=attempt,
        stage=stage,
        seed=seed,
        split=split,
        budget=Budget.FULL,
        run=run,
        metrics=(ACCURACY, LOSS),
        limits=Limits(deadline_s=30, memory_mb=512, output_mb=8, cpus=1, gpus=0),
        sources=sources,
        isolation=Isolation.NONE,
        provenance=provenance,
        tokens=10,
        queued_at=100.5,
    )


def make_report(
    spec: TrialSpec, outcome: Outcome | Mapping[str, float], cpu_s: float = 36.0
) -> TrialReport:
    if isinstance(outcome, Mapping):
        outcome = Scored(metrics=dict(outcome))
    usage = Usage(started_at=101.0, ended_at=105.25, cpu_s=cpu_s, gpu_s=7.2, peak_mb=64.0)
    digest = "d" * 64 if isinstance(outcome, Scored) else None
    return TrialReport(
        trial_id=spec.trial_id,
        run=spec.run,
        outcome=outcome,
        usage=usage,
        predictions_hash=digest,
    )


def put(
    paths: RunPaths, spec: TrialSpec, outcome: Outcome | Mapping[str, float], log: str = "log\n"
) -> TrialReport:
    """Leave a trial's folder as the worker leaves it."""
    trial = paths.trial(spec.trial_id)
    trial.out.mkdir(parents=True, exist_ok=True)
    trial.spec.write_text(spec.model_dump_json())
    trial.log.write_text(log)
    (trial.out / "progress.jsonl").write_text('{"step": 1}\n')
    report = make_report(spec, outcome)
    write_result(trial, spec, report)
    return report
