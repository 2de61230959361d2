"""Are true improvements confirmed, and false ones not? One campaign, again with other seeds.

The ideas of a playbook are the same whatever the seed, so each is judged again and again on fresh
noise. Whether an idea is truly better is not known beforehand: its runs on the test split, pooled
over all campaigns, tell (they were chosen by none of the values that are pooled). An idea of which
they tell neither counts on neither side. A confirmation is held against the runs of the other
campaigns alone: its own would speak for themselves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from benchmarks.campaigns.measuring import run, share
from hpcscientist.bench.figure import Figure
from hpcscientist.config.settings import Settings
from hpcscientist.feedback.decision import gain
from hpcscientist.feedback.statistics import compare
from hpcscientist.files.rundir import RunPaths
from hpcscientist.history.status import read_state
from hpcscientist.judgement.summary import read_rows
from hpcscientist.ports import Tell
from hpcscientist.recipe.load import load
from hpcscientist.records.findings import Comparison, ResultRow, Verdict
from hpcscientist.records.idea import BASELINE_ATTEMPT, BASELINE_ID
from hpcscientist.records.trial import MetricSpec

Truth = Literal["better", "not better", "unclear", "never found"]


@dataclass(frozen=True, slots=True)
class Options:
    """`settings` is launched with `campaigns` seeds, from its own on."""

    folder: Path
    settings: Settings = field(default_factory=Settings)
    campaigns: int = 20

    @property
    def folders(self) -> dict[int, RunPaths]:
        """The campaigns' run directories by seed."""
        first = self.settings.seed
        seeds = range(first, first + self.campaigns)
        return {seed: RunPaths(self.folder / f"seed-{seed}") for seed in seeds}


@dataclass(frozen=True, slots=True)
class Judged:
    """One campaign: its rows, and by idea the differences from the baseline by test seed."""

    rows: tuple[ResultRow, ...]
    test: Mapping[str, Mapping[int, float]]


@dataclass(frozen=True, slots=True)
class Claim:
    """An idea over all campaigns: how often it was scored, found and confirmed, and what it is.

    `backed` are the confirmations that the other campaigns' runs on the test split bear out.
    `pooled` compares it with the baseline over all its runs on the test split; None where it never
    came to any. Runs of one campaign alone, of several, leave it unclear.
    """

    idea_id: str
    title: str
    scored: int
    found: int
    confirmed: int
    backed: int
    pooled: Comparison | None
    truth: Truth


def measure(options: Options, tell: Tell) -> list[Claim]:
    """Run the campaigns and return every idea that was ever scored, in order of numbers."""
    judged, folders = [], options.folders
    for seed, paths in folders.items():
        settings = options.settings.model_copy(update={"seed": seed})
        run(paths.root.name, settings, options.folder, tell)
        judged.append(read(paths))
    metric = load(folders[options.settings.seed].recipe).spec.primary
    return claims(judged, metric)


def read(paths: RunPaths) -> Judged:
    """Read what a campaign claims, and its differences on the test split."""
    state, metric = read_state(paths), load(paths.recipe).spec.primary
    baseline = state.test_scores(BASELINE_ID, BASELINE_ATTEMPT, metric.name)
    test = {
        idea.idea_id: {
            seed: value - baseline[seed]
            for seed, value in state.test_scores(
                idea.idea_id, idea.spent.attempt, metric.name
            ).items()
            if seed in baseline
        }
        for idea in state.ideas.values()
        if idea.spent is not None
    }
    return Judged(read_rows(paths).rows, test)


def claims(judged: Sequence[Judged], metric: MetricSpec) -> list[Claim]:
    """Put the campaigns together, idea by idea."""
    ideas = {row.idea_id for one in judged for row in one.rows if row.status == "scored"}
    return [_claim(idea, judged, metric) for idea in sorted(ideas)]


def _claim(idea_id: str, judged: Sequence[Judged], metric: MetricSpec) -> Claim:
    rows = {
        number: row
        for number, one in enumerate(judged)
        for row in one.rows
        if (row.idea_id, row.status) == (idea_id, "scored")
    }
    tests = [one.test.get(idea_id, {}) for one in judged]
    confirmed = [number for number, row in rows.items() if row.confirmed is True]
    pooled = _pooled(tests)
    alone = len(judged) > 1 and sum(map(bool, tests)) == 1
    return Claim(
        idea_id=idea_id,
        title=next(iter(rows.values())).title,
        scored=len(rows),
        found=sum(row.finding is Verdict.IMPROVEMENT for row in rows.values()),
        confirmed=len(confirmed),
        backed=sum(
            _truth(_pooled([*tests[:number], *tests[number + 1 :]]), metric) == "better"
            for number in confirmed
        ),
        pooled=pooled,
        truth="unclear" if alone else _truth(pooled, metric),
    )


def _pooled(tests: Sequence[Mapping[int, float]]) -> Comparison | None:
    """All differences on the test split against none, each campaign's seeds being its own."""
    values = [value for test in tests for value in test.values()]
    if not values:
        return None
    by_place = dict(enumerate(values))
    return compare(dict.fromkeys(by_place, 0.0), by_place)


def _truth(pooled: Comparison | None, metric: MetricSpec) -> Truth:
    if pooled is None:
        return "never found"
    if pooled.ci_low is None or pooled.ci_high is None or pooled.ci_low <= 0 <= pooled.ci_high:
        return "unclear"
    return "better" if gain(pooled, metric) > 0 else "not better"


def figures(found: Sequence[Claim], q: float) -> list[Figure]:
    """Return the share of true findings that were confirmed, and of confirmed ones not true."""
    true = [claim for claim in found if claim.truth == "better"]
    confirmed = sum(claim.confirmed for claim in found)
    unbacked = confirmed - sum(claim.backed for claim in found)
    shown = []
    of, scored = sum(claim.found for claim in true), sum(claim.scored for claim in true)
    if of:
        shown.append(share("true improvements confirmed", sum(c.confirmed for c in true), of))
    if scored:
        shown.append(share("true improvements found", of, scored))
    if confirmed and any(claim.scored > 1 for claim in found):
        name = "confirmed, and not borne out by the other campaigns"
        shown.append(share(name, unbacked, confirmed, target=q))
    return shown


def table(found: Sequence[Claim]) -> str:
    """Return a line an idea: what it is by its pooled test runs, how often found and confirmed."""
    lines = ["idea       scored  found  confirmed  pooled test difference (95%)  truth"]
    for claim in found:
        pooled = "-"
        if claim.pooled is not None and claim.pooled.ci_low is not None:
            shown = claim.pooled
            pooled = f"{shown.delta:+.4f} ({shown.ci_low:+.4f} to {shown.ci_high:+.4f})"
        lines.append(
            f"{claim.idea_id}  {claim.scored:>6} {claim.found:>6} {claim.confirmed:>10}  "
            f"{pooled:<29} {claim.truth}: {claim.title}"
        )
    return "\n".join(lines)
