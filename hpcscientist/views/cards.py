"""Makes the card of an idea: its details from its folder and from the campaign's view.

The texts of an idea were written by models, so they are cut to a length and invisible characters
are removed. Files are read as the driver wrote them: candidates' code may have changed those in the
idea's folder. If a file is missing or damaged, its part is empty.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from hpcscientist.campaign.proposals import idea_file
from hpcscientist.errors import IdeaDamaged
from hpcscientist.files.handed import Read
from hpcscientist.files.rundir import IdeaPaths, RunPaths
from hpcscientist.files.text import printable, visible
from hpcscientist.history import frozen
from hpcscientist.records.base import Record
from hpcscientist.records.experiment import CodeReview
from hpcscientist.records.idea import BASELINE_ATTEMPT, BASELINE_ID, Idea
from hpcscientist.records.literature import Survey
from hpcscientist.records.proposing import FeasibilityVerdict, NoveltyVerdict
from hpcscientist.records.trial import Stage
from hpcscientist.results import logs
from hpcscientist.views.campaign import CampaignView
from hpcscientist.views.ideas import IdeaView
from hpcscientist.views.timeline import TrialSpan

PROSE: Final = 4_000  # characters of each text
DIFF: Final = 24_000  # characters of all diffs of an idea
LOG: Final = 4_000  # bytes from the end of a log
_BATCH: Final = 500  # ideas whose logs are read together

T = TypeVar("T", bound=Record)


@dataclass(frozen=True, slots=True)
class CardVersion:
    """An attempt of an idea: the diff to its parent, and the reviewer's marks and advice."""

    number: int
    parent: int
    kind: str
    outcome: str
    cause: str
    diff: str
    marks: tuple[int, ...]
    advice: str


@dataclass(frozen=True, slots=True)
class Seed:
    """The values of one seed, of the baseline and of the idea; None if not scored."""

    split: str
    seed: int
    baseline: float | None
    idea: float | None
    trial_id: str
    node: str


@dataclass(frozen=True, slots=True)
class CitedPaper:
    """A paper cited for or against an idea's novelty."""

    paper_id: str
    title: str
    why: str


@dataclass(frozen=True, slots=True)
class Card:
    """All details of an idea. `command` reruns its trials, or is "" if it has no result."""

    idea_id: str
    hypothesis: str
    method: str
    expected: str
    summary: str
    knobs: str
    papers: tuple[str, ...]
    novelty: str
    novelty_reason: str
    evidence: tuple[CitedPaper, ...]
    fits: bool | None
    fit_reason: str
    versions: tuple[CardVersion, ...]
    seeds: tuple[Seed, ...]
    log_of: str
    log: str
    trials: int
    run_s: float
    wait_s: float
    code_hash: str
    command: str


def cards(view: CampaignView, paths: RunPaths) -> Iterator[Card]:
    """Yield the card of each idea, in order of their numbers."""
    trials: dict[str, list[TrialSpan]] = {}
    for span in view.trials:
        trials.setdefault(span.idea_id, []).append(span)
    read = frozen.reader(paths)
    titles = paper_titles(paths, read)
    for start in range(0, len(view.ideas), _BATCH):
        batch = view.ideas[start : start + _BATCH]
        shown = {idea.idea_id: _telling(trials.get(idea.idea_id, ())) for idea in batch}
        tails = logs.tails(paths, [trial for trial in shown.values() if trial], LOG)
        for idea in batch:
            trial = shown[idea.idea_id]
            log = (trial, tails.get(trial, ""))
            yield _card(view, paths.idea(idea.idea_id), read, idea, trials, titles, log)


def paper_titles(paths: RunPaths, read: Read) -> Mapping[str, str]:
    """Return the titles of the papers that the survey found, by id."""
    survey = read_survey(paths, read)
    return {p.paper_id: visible(p.title) for p in survey.papers} if survey else {}


def read_survey(paths: RunPaths, read: Read) -> Survey | None:
    """Return the campaign's survey of the literature, or None."""
    return _record(paths.survey, Survey, read)


def read_idea(place: IdeaPaths, idea_hash: str, read: Read) -> Idea | None:
    """Return the proposed idea; None if it cannot be read or has another hash than this one."""
    try:
        return idea_file.read_idea(place.idea, idea_hash, read)
    except (OSError, IdeaDamaged):
        return None


def read_novelty(place: IdeaPaths, read: Read) -> NoveltyVerdict | None:
    """Return the novelty verdict on an idea; None if there is none."""
    return _record(place.verdict("novelty"), NoveltyVerdict, read)


def _card(
    view: CampaignView,
    place: IdeaPaths,
    read: Read,
    idea: IdeaView,
    trials: Mapping[str, Sequence[TrialSpan]],
    titles: Mapping[str, str],
    log: tuple[str, str],
) -> Card:
    own, state = trials.get(idea.idea_id, ()), view.state.ideas[idea.idea_id]
    proposed, novelty = read_idea(place, state.idea_hash, read), read_novelty(place, read)
    fits = _record(place.verdict("feasibility"), FeasibilityVerdict, read)
    proposal = proposed.proposal if proposed else None
    knobs = proposed.knobs if proposed else None
    attempt = (state.ended.attempt if state.ended else None) or state.attempts
    return Card(
        idea_id=idea.idea_id,
        hypothesis=_text(proposal.hypothesis) if proposal else "",
        method=_text(proposal.method) if proposal else "",
        expected=_text(proposal.expected_outcome) if proposal else "",
        summary=_text(state.summary),
        knobs=", ".join(f"{name} = {value}" for name, value in knobs.items()) if knobs else "",
        papers=tuple(_named(p, titles) for p in proposal.papers) if proposal else (),
        novelty=novelty.decision.replace("_", " ") if novelty else "",
        novelty_reason=_text(novelty.reason) if novelty else "",
        evidence=tuple(
            CitedPaper(printable(c.paper_id), titles.get(c.paper_id, ""), _text(c.why))
            for c in (novelty.evidence if novelty else ())
        ),
        fits=fits.fits if fits else None,
        fit_reason=_text("; ".join((*fits.problems, fits.reason))) if fits else "",
        versions=_versions(place, idea, read),
        seeds=_seeds(own, trials.get(BASELINE_ID, ()), attempt),
        log_of=log[0],
        log=visible(log[1]),
        trials=len(own),
        run_s=sum(span.run_s or 0.0 for span in own),
        wait_s=sum(span.wait_s or 0.0 for span in own),
        code_hash=state.code_hashes.get(attempt, ""),
        command=f"hpcsci reproduce {shlex.quote(printable(view.folder))} --idea {idea.idea_id}"
        if idea.row is not None and idea.row.mean is not None
        else "",
    )


def _telling(trials: Sequence[TrialSpan]) -> str:
    """Return the id of the trial whose log to show: the last failed one, else the last started."""
    begun = [span for span in trials if span.started is not None]
    failed = [span for span in begun if span.phase in ("idea_failed", "machine_failed")]
    return (failed or begun)[-1].trial_id if begun else ""


def _versions(place: IdeaPaths, idea: IdeaView, read: Read) -> tuple[CardVersion, ...]:
    found, left = [], DIFF
    for attempt in idea.attempts:
        review = _record(place.review(attempt.number), CodeReview, read)
        diff = visible(_text_in(place.attempt(attempt.number) / "diff.patch", read))
        cut = diff if len(diff) <= left else f"{diff[:left]}\n[the rest is left out here]"
        left = max(0, left - len(diff))
        found.append(
            CardVersion(
                number=attempt.number,
                parent=attempt.parent,
                kind=attempt.kind,
                outcome=attempt.outcome,
                cause=attempt.cause,
                diff=cut,
                marks=review.marks if review else (),
                advice=_text(review.advice) if review else "",
            )
        )
    return tuple(found)


def _seeds(
    own: Sequence[TrialSpan], baseline: Sequence[TrialSpan], attempt: int
) -> tuple[Seed, ...]:
    """Return the values of an attempt and of the baseline by seed, each from the last run."""
    found = []
    for split, ours, theirs in (
        ("validation", (Stage.SEEDS,), (Stage.BASELINE,)),
        ("test", (Stage.CONFIRM,), (Stage.CONFIRM,)),
    ):
        reference = {
            span.seed: span.value
            for span in baseline
            if span.stage in theirs and span.attempt == BASELINE_ATTEMPT and span.value is not None
        }
        # Sort by run, not by time: the clocks of nodes differ.
        by_run = sorted(own, key=lambda span: span.run)
        runs = {s.seed: s for s in by_run if s.stage in ours and s.attempt == attempt}
        found += [
            Seed(split, seed, reference.get(seed), span.value, span.trial_id, printable(span.node))
            for seed, span in sorted(runs.items())
        ]
    return tuple(found)


def _named(paper_id: str, titles: Mapping[str, str]) -> str:
    title = titles.get(paper_id)
    return printable(f"{paper_id}: {title}" if title else paper_id)


def _record(path: Path, kind: type[T], read: Read) -> T | None:
    try:
        return kind.model_validate_json(read(path))
    except (OSError, ValueError):
        return None


def _text_in(path: Path, read: Read) -> str:
    try:
        return read(path).decode("utf-8", "replace")
    except OSError:
        return ""


def _text(text: str) -> str:
    return visible(text if len(text) <= PROSE else f"{text[:PROSE]} […]")
