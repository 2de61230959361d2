"""What a driver had taken when so many ideas had ended."""

from __future__ import annotations

from pathlib import Path

from hpcscientist.records.base import Record

SAMPLES = "samples.jsonl"


class Sample(Record):
    """Totals of one driver process since it began; MiB, processor seconds.

    `ideas` had ended in the campaign. `status_s` and `results_s` are the commands' own, None where
    they were not timed.
    """

    driver: int
    ideas: int
    cpu_s: float
    fsyncs: int
    peak_mb: float
    status_s: float | None
    results_s: float | None


def read(folder: Path) -> list[Sample]:
    """Return the samples of a folder in the order in which they were taken; a torn last is none."""
    try:
        lines = (folder / SAMPLES).read_text(encoding="utf-8").split("\n")[:-1]
    except FileNotFoundError:
        return []
    return [Sample.model_validate_json(line) for line in lines]
