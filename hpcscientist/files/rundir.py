"""The run directory: the protocol between the driver, the workers and the reader.

One class knows its paths; nobody else joins a name to the run directory.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

SURVEY = "survey"


@dataclass(frozen=True, slots=True)
class TrialPaths:
    """The paths of one trial. `out` is written by the candidate, all else by us."""

    root: Path

    @property
    def spec(self) -> Path:
        """What to run; written by the driver before submission."""
        return self.root / "spec.json"

    @property
    def out(self) -> Path:
        """The candidate's own folder."""
        return self.root / "out"

    @property
    def worker(self) -> Path:
        """Host, process id and start time of the worker that runs the trial."""
        return self.root / "worker.json"

    @property
    def log(self) -> Path:
        """The candidate's stdout and stderr, bounded, as the worker saw them."""
        return self.root / "log"

    @property
    def result(self) -> Path:
        """The result; its existence means the trial has ended."""
        return self.root / "result.arrow"


@dataclass(frozen=True, slots=True)
class IdeaPaths:
    """The paths of one idea."""

    root: Path

    @property
    def idea(self) -> Path:
        """The idea's record with its lineage."""
        return self.root / "idea.json"

    @property
    def chat(self) -> Path:
        """Every model call made for this idea."""
        return self.root / "chat.jsonl"

    def verdict(self, stage: str) -> Path:
        """What a judge made of it before code was written: novelty.json, feasibility.json, …"""
        return self.root / f"{stage}.json"

    @property
    def directions(self) -> Path:
        """What the ideas of a batch are to work out, with the first of them."""
        return self.root / "directions.json"

    @property
    def concepts(self) -> Path:
        """Its atomic concepts, with formulas and reference code."""
        return self.root / "concepts.json"

    @property
    def plan(self) -> Path:
        """How it is carried out."""
        return self.root / "plan.json"

    def reading(self, number: int) -> Path:
        """What an analyst read from its runs so far, and the further run that was asked for."""
        return self.root / "readings" / f"{number}.json"

    @property
    def notes(self) -> Path:
        """The experimental journal, for people."""
        return self.root / "notes.md"

    @property
    def claim(self) -> Path:
        """What was measured of it, and all that is needed to measure it again."""
        return self.root / "claim.json"

    @property
    def recipe(self) -> Path:
        """The recipe's code in one file beside a claim, for who has this folder alone."""
        return self.root / "recipe.tar"

    def attempt(self, number: int) -> Path:
        """The folder of one version of the idea's code."""
        return self.root / "attempts" / str(number)

    def review(self, number: int) -> Path:
        """What a reviewer found of one attempt's code."""
        return self.attempt(number) / "review.json"

    def code(self, number: int) -> Path:
        """The snapshot of the code of one attempt."""
        return self.attempt(number) / "code"


@dataclass(frozen=True, slots=True)
class ReviewPaths:
    """The folder of one review or comparison: `reviews/ID`, or a judge's within it."""

    root: Path

    @property
    def asked(self) -> Path:
        """What was asked for; written before any model is."""
        return self.root / "asked.json"

    @property
    def reading(self) -> Path:
        """Into how many parts a paper was read that is longer than the model's context."""
        return self.root / "reading.json"

    @property
    def review(self) -> Path:
        """The review; its existence means that it is done."""
        return self.root / "review.json"

    @property
    def comparison(self) -> Path:
        """The comparison; its existence means that it is done."""
        return self.root / "comparison.json"

    @property
    def page(self) -> Path:
        """The same for people."""
        return self.root / "review.md"

    @property
    def lock(self) -> Path:
        """Who writes it."""
        return self.root / ".reviewer"

    def judge(self, number: int) -> ReviewPaths:
        """The folder of one of a comparison's judges, from 1."""
        return ReviewPaths(self.root / f"judge-{number}")

    def idea(self, subject: str) -> IdeaPaths:
        """Where calls are recorded, whatever paper they are about: of an idea's paths the chat."""
        return IdeaPaths(self.root)


@dataclass(frozen=True, slots=True)
class PaperPaths:
    """The folder of papers: `papers` of a run directory, or wherever people want them."""

    root: Path

    def idea(self, subject: str) -> IdeaPaths:
        """The paths of one paper, by what it is about; of an idea's own it has the chat alone."""
        return IdeaPaths(self.root / subject)


@dataclass(frozen=True, slots=True)
class RunPaths:
    """The paths of a campaign's run directory."""

    root: Path

    @property
    def campaign(self) -> Path:
        """The frozen configuration; a folder without it is no run directory."""
        return self.root / "campaign.toml"

    @property
    def launching(self) -> Path:
        """Held by a launch until there is a campaign; see `history.stale_launch`."""
        return self.root / ".launching"

    @property
    def journal(self) -> Path:
        """The append-only journal; the campaign's state is a fold over it."""
        return self.root / "journal.jsonl"

    @property
    def recipe(self) -> Path:
        """The recipe as it was at launch."""
        return self.root / "recipe"

    @property
    def results(self) -> Path:
        """Compacted results."""
        return self.root / "results"

    @property
    def trials(self) -> Path:
        """The folder of all trials."""
        return self.root / "trials"

    @property
    def lock(self) -> Path:
        """Who drives the campaign."""
        return self.root / ".driver"

    @property
    def cancel_request(self) -> Path:
        """Its existence asks a driver on another host to stop."""
        return self.root / ".driver" / "cancel"

    @property
    def waiting(self) -> Path:
        """Why array tasks wait in Slurm's queue, as the driver saw it last."""
        return self.root / ".driver" / "waiting.json"

    @property
    def chain(self) -> Path:
        """How far the chain of controller jobs has come, where jobs drive the campaign."""
        return self.root / ".driver" / "chain.json"

    def controller_log(self, job_id: str) -> Path:
        """What a controller job printed, all its restarts."""
        return self.root / ".driver" / f"controller-{job_id}.log"

    @property
    def serving(self) -> Path:
        """The model plane's folder, where models are served for the campaign."""
        return self.root / ".driver" / "serving"

    @property
    def submission(self) -> Path:
        """What is kept of jobs while they are queued or run; emptied as trials end."""
        return self.root / ".submitit"

    @property
    def library(self) -> Path:
        """The library made from the recipe's own references, where the campaign has one."""
        return self.root / "library"

    @property
    def survey(self) -> Path:
        """What the survey of the literature found."""
        return self.root / SURVEY / "survey.json"

    @property
    def report(self) -> Path:
        """What `hpcsci report` made of it, for people; no part of the campaign."""
        return self.root / "report.html"

    @property
    def reproductions(self) -> Path:
        """Claims that were run again, a folder each; no part of the campaign."""
        return self.root / "reproductions"

    @property
    def papers(self) -> PaperPaths:
        """Papers about the campaign, a folder each; no part of the campaign."""
        return PaperPaths(self.root / "papers")

    def idea(self, idea_id: str) -> IdeaPaths:
        """The paths of one idea; those of the survey, which is made before the first."""
        place = self.root if idea_id == SURVEY else self.root / "ideas"
        return IdeaPaths(place / idea_id)

    def trial(self, trial_id: str) -> TrialPaths:
        """The paths of one trial."""
        return TrialPaths(self.trials / trial_id)
