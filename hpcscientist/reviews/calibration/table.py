"""What `hpcsci bench review --labelled` prints."""

from __future__ import annotations

from collections.abc import Iterator

from hpcscientist.reviews.calibration.bench import Report
from hpcscientist.reviews.page import measure


def of_report(report: Report) -> Iterator[str]:
    """Yield the lines of a report; every figure has its interval and what it is compared with."""
    made = report.calibration
    yield (
        f"{', '.join(made.models)}, form {made.form}, {made.ensemble} reviewers: fitted on "
        f"{made.fitted} papers of {made.labelled}, measured on {made.held_out} others"
    )
    yield f"{'':24}{'calibrated':22}the form's own threshold"
    for name, found in made.measures.items():
        beside = made.uncalibrated.get(name)
        yield f"{name:24}{measure(found):22}{measure(beside) if beside else '-'}"
    for title, group in (
        ("AUROC of the overall score", report.scores),
        ("humans", report.humans),
        ("SD from run to run", report.run_deviation),
    ):
        for name, found in group.items():
            yield f"{title}: {name} {measure(found)}"
    cost = report.cost
    yield (
        f"a paper: {cost['replies']:.1f} replies, {cost['prompt_tokens']:,.0f} tokens read, "
        f"{cost['completion_tokens']:,.0f} written, {cost['seconds']:.1f} s of the model's time"
    )
    if report.missing:
        yield f"{report.missing} papers of the table have no text and were left out"
    for text in report.lost:
        yield f"lost: {text}"
    yield f"calibration: {report.file}"
