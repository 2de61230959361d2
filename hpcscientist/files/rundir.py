"""The layout of a run directory, through which the driver, workers and readers communicate.

Only the classes here know its paths; no other code joins a name to the run directory.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

SURVEY = "survey"


@dataclass(frozen=True, slots=True)
class TrialPaths:
    """The paths of one trial. The candidate writes `out`, driver and worker write the rest."""

    root: Path

    @property
    def spec(self) -> Path:
        """The trial's spec; the driver writes it before submission."""
        return self.root / "spec.json"

    @property
    def out(self) -> Path:
        """The candidate's own folder."""
        return self.root / "out"

    @property
    def worker(self) -> Path:
        """Host, process id and start time of the trial's worker."""
        return self.root / "worker.json"

    @property
    def log(self) -> Path:
        """The candidate's stdout and stderr, bounded, as recorded by the worker."""
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
        """Return the file of a verdict before code is written: novelty.json, feasibility.json, …"""
        return self.root / f"{stage}.json"

    @property
    def directions(self) -> Path:
        """The directions of a batch, in the folder of its first idea."""
        return self.root / "directions.json"

    @property
    def concepts(self) -> Path:
        """The idea's atomic concepts, with formulas and reference code."""
        return self.root / "concepts.json"

    @property
    def plan(self) -> Path:
        """The experiment plan."""
        return self.root / "plan.json"

    def reading(self, number: int) -> Path:
        """Return the file of an analyst's reading of runs, with the further run it requests."""
        return self.root / "readings" / f"{number}.json"

    @property
    def notes(self) -> Path:
        """The experimental journal, for people."""
        return self.root / "notes.md"

    @property
    def claim(self) -> Path:
        """The idea's measurements, and everything that is needed to repeat them."""
        return self.root / "claim.json"

    @property
    def recipe(self) -> Path:
        """The recipe's code in one file, so that the claim can be rerun from this folder alone."""
        return self.root / "recipe.tar"

    def attempt(self, number: int) -> Path:
        """Return the folder of one version of the idea's code."""
        return self.root / "attempts" / str(number)

    def review(self, number: int) -> Path:
        """Return the file of an attempt's code review."""
        return self.attempt(number) / "review.json"

    def code(self, number: int) -> Path:
        """Return the folder with the code of one attempt."""
        return self.attempt(number) / "code"


@dataclass(frozen=True, slots=True)
class ReviewPaths:
    """The folder of one review or comparison: `reviews/ID`, or a judge's within it."""

    root: Path

    @property
    def asked(self) -> Path:
        """The request; written before any model is asked."""
        return self.root / "asked.json"

    @property
    def reading(self) -> Path:
        """The number of parts of a paper that is longer than the model's context."""
        return self.root / "reading.json"

    @property
    def review(self) -> Path:
        """The review; its existence means that it is complete."""
        return self.root / "review.json"

    @property
    def comparison(self) -> Path:
        """The comparison; its existence means that it is complete."""
        return self.root / "comparison.json"

    @property
    def page(self) -> Path:
        """The review or comparison as Markdown, for people."""
        return self.root / "review.md"

    @property
    def lock(self) -> Path:
        """The lock of the process that writes this folder."""
        return self.root / ".reviewer"

    def judge(self, number: int) -> ReviewPaths:
        """Return the folder of one judge of a comparison, counted from 1."""
        return ReviewPaths(self.root / f"judge-{number}")

    def idea(self, subject: str) -> IdeaPaths:
        """Return the paths where calls are recorded, for any subject; only `chat` is used."""
        return IdeaPaths(self.root)


@dataclass(frozen=True, slots=True)
class PaperPaths:
    """The folder of papers: `papers` of a run directory, or a folder of the user's choice."""

    root: Path

    def idea(self, subject: str) -> IdeaPaths:
        """Return the paths of one paper by its subject; of an idea's paths, only `chat` is used."""
        return IdeaPaths(self.root / subject)


@dataclass(frozen=True, slots=True)
class RunPaths:
    """The paths of a campaign's run directory."""

    root: Path

    @property
    def campaign(self) -> Path:
        """The frozen configuration; a folder without it is not a run directory."""
        return self.root / "campaign.toml"

    @property
    def launching(self) -> Path:
        """The lock of a launch, until the campaign exists; see `history.stale_launch`."""
        return self.root / ".launching"

    @property
    def journal(self) -> Path:
        """The append-only journal, from which the campaign's state is computed."""
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
        """The driver's lock."""
        return self.root / ".driver"

    @property
    def cancel_request(self) -> Path:
        """A file whose existence asks a driver on another host to stop."""
        return self.root / ".driver" / "cancel"

    @property
    def waiting(self) -> Path:
        """Why array tasks wait in Slurm's queue, as the driver last saw it."""
        return self.root / ".driver" / "waiting.json"

    @property
    def chain(self) -> Path:
        """The progress of the chain of controller jobs, if jobs drive the campaign."""
        return self.root / ".driver" / "chain.json"

    def controller_log(self, job_id: str) -> Path:
        """Return the file of a controller job's output, over all of its restarts."""
        return self.root / ".driver" / f"controller-{job_id}.log"

    @property
    def serving(self) -> Path:
        """The model plane's folder, if models are served for the campaign."""
        return self.root / ".driver" / "serving"

    @property
    def submission(self) -> Path:
        """Files of jobs that are queued or running; they are removed as trials end."""
        return self.root / ".submitit"

    @property
    def library(self) -> Path:
        """The library made from the recipe's own references, if the campaign has one."""
        return self.root / "library"

    @property
    def survey(self) -> Path:
        """The results of the literature survey."""
        return self.root / SURVEY / "survey.json"

    @property
    def report(self) -> Path:
        """The page that `hpcsci report` writes, for people; not part of the campaign."""
        return self.root / "report.html"

    @property
    def reproductions(self) -> Path:
        """Reruns of claims, one folder each; not part of the campaign."""
        return self.root / "reproductions"

    @property
    def papers(self) -> PaperPaths:
        """Papers about the campaign, one folder each; not part of the campaign."""
        return PaperPaths(self.root / "papers")

    def idea(self, idea_id: str) -> IdeaPaths:
        """Return the paths of one idea, or of the survey, which precedes the ideas."""
        place = self.root if idea_id == SURVEY else self.root / "ideas"
        return IdeaPaths(place / idea_id)

    def trial(self, trial_id: str) -> TrialPaths:
        """Return the paths of one trial."""
        return TrialPaths(self.trials / trial_id)
