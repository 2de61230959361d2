"""What a campaign came to, in the numbers that benchmarks compare."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hpcscientist.bench import campaigns
from hpcscientist.bench.figure import Figure
from hpcscientist.config.settings import Settings
from hpcscientist.feedback.statistics import wilson
from hpcscientist.files.rundir import RunPaths
from hpcscientist.history import journal
from hpcscientist.judgement.summary import read_rows
from hpcscientist.launching.costs import spending
from hpcscientist.launching.drive import Observer
from hpcscientist.ports import Tell
from hpcscientist.records.events import CampaignEnded, DriverStarted, TrialEnded


@dataclass(frozen=True, slots=True)
class Ran:
    """One campaign. `seconds`: from its driver's start to its end, None where it was interrupted.

    `ideas` were let in, `scored` of them were scored; `trials` are all that were run, of the
    baseline and for confirmation too.
    """

    name: str
    ideas: int
    scored: int
    improvements: int
    confirmed: int
    trials: int
    tokens: int
    cpu_hours: float
    seconds: float | None


def run(
    name: str,
    settings: Settings,
    folder: Path,
    tell: Tell,
    observe: Observer = lambda event, state: None,
) -> Ran:
    """Run a campaign to its end and read it; see `campaigns.run`."""
    ran = measured(name, campaigns.run(name, settings, folder, tell, observe))
    tell(f"{name}: {ran.improvements} improvements, {ran.trials} trials")
    return ran


def measured(name: str, paths: RunPaths) -> Ran:
    """Read a campaign that has ended. Raises RunDirectoryError."""
    rows = [row for row in read_rows(paths).rows if row.status != "baseline"]
    lines = journal.read_lines(paths.journal)
    spent = spending.spent(lines, spending.Counted.of(rows, confirms=True))
    starts = [line.t for line in lines if isinstance(line.event, DriverStarted)]
    ends = [line.t for line in lines if isinstance(line.event, CampaignEnded)]
    return Ran(
        name=name,
        ideas=sum(row.status != "rejected" for row in rows),
        scored=sum(row.status == "scored" for row in rows),
        improvements=spent.found.improvements,
        confirmed=sum(row.confirmed is True for row in rows),
        trials=sum(isinstance(line.event, TrialEnded) for line in lines),
        tokens=spent.tokens,
        cpu_hours=spent.cpu_hours,
        seconds=ends[0] - starts[0] if len(starts) == 1 and ends else None,
    )


def share(
    name: str, count: int, of: int, *, target: float | None = None, at_least: bool = False
) -> Figure:
    """Return `count` of `of`, more than 0, as a figure; `spread` is the width of Wilson's 95%.

    The interval takes what is counted for independent. Where it shares something, such as ideas
    of one campaign their baseline, it can be too narrow.
    """
    low, high = wilson(count, of)
    return Figure(
        name=name,
        value=count / of,
        unit=f"({count} of {of}, 95%: {low:.3f} to {high:.3f})",
        compared_with=None,
        ratio=None,
        target=target,
        spread=high - low,
        runs=of,
        at_least=at_least,
    )


def spread(values: Sequence[float]) -> float:
    """The largest minus the smallest."""
    return max(values) - min(values)
