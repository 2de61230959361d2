"""Trying out one version of an idea's code: its snapshot, a pilot, then every seed."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hpcscientist.authoring import attempts, curves
from hpcscientist.campaign.journal import Journal
from hpcscientist.campaign.judgement.steadiness import Steadiness
from hpcscientist.campaign.running.trials import TrialRunner
from hpcscientist.campaign.specs import SpecFactory
from hpcscientist.campaign.state import CampaignState
from hpcscientist.errors import RunDirectoryError
from hpcscientist.files.atomic import read_tail
from hpcscientist.files.hashing import hash_bytes, hash_texts
from hpcscientist.files.rundir import RunPaths
from hpcscientist.records.authoring import Draft
from hpcscientist.records.events import AttemptWritten
from hpcscientist.records.idea import Attempt, AttemptKind, Idea
from hpcscientist.records.outcome import Outcome, Scored
from hpcscientist.records.trial import TrialReport

LOG_TAIL = 16 * 1024


@dataclass(frozen=True, slots=True)
class Tried:
    """An attempt, the files it was made of, and the report that decided about it."""

    attempt: Attempt
    kind: AttemptKind
    draft: Draft
    report: TrialReport

    @property
    def outcome(self) -> Outcome:
        """How that trial ended."""
        return self.report.outcome

    @property
    def values(self) -> dict[str, float]:
        """The values of that trial by metric; {} if it was not scored."""
        outcome = self.report.outcome
        return dict(outcome.metrics) if isinstance(outcome, Scored) else {}

    @property
    def scored(self) -> bool:
        """Whether it may go on."""
        return isinstance(self.report.outcome, Scored)


@dataclass(slots=True)
class Tryout:
    """Tries attempts out for one driver."""

    paths: RunPaths
    journal: Journal
    state: CampaignState
    specs: SpecFactory
    trials: TrialRunner
    steadiness: Steadiness

    async def pilot(
        self, idea: Idea, number: int, draft: Draft, parent: int, kind: AttemptKind
    ) -> Tried:
        """Snapshot attempt `number` and run its pilot. Raises DiskFull, RunDirectoryError."""
        attempt = self._snapshot(idea, number, draft, parent, kind)
        (report,) = await self.trials.run([self.specs.pilot(idea, attempt, self._tokens(idea))])
        return Tried(attempt, kind, draft, report)

    def piloted(
        self, idea: Idea, number: int, draft: Draft, parent: int, kind: AttemptKind
    ) -> Tried:
        """Return attempt `number` with its pilot as it is recorded, which is not run again."""
        attempt = self._snapshot(idea, number, draft, parent, kind)
        report = self.state.trials[self.specs.pilot(idea, attempt).trial_id].report
        assert report is not None  # only what has ended is given up
        return Tried(attempt, kind, draft, report)

    def is_given_up(self, trial_id: str) -> bool:
        """Whether the machine spoilt a trial under two drivers."""
        return self.state.trials[trial_id].run > self.trials.retries + 1

    async def step(self, idea: Idea, tried: Tried, index: int) -> Tried:
        """Run an attempt once at a step, counted from 0, and return it with that report.

        As for a pilot, the baseline need not be known. Raises DiskFull.
        """
        spec = self.specs.step(idea, tried.attempt, index, self._tokens(idea))
        (report,) = await self.trials.run([spec])
        return replace(tried, report=report)

    async def seeds(self, idea: Idea, tried: Tried, which: range) -> Tried:
        """Run an attempt with some of the baseline's seeds, whatever they give.

        Return it with the first report that is not scored, or the last. Raises DiskFull.
        """
        await self.steadiness.enter(idea.number)
        specs = self.specs.full(idea, tried.attempt, self._tokens(idea), which)
        reports = await self.trials.run(specs)
        failed = (report for report in reports if not isinstance(report.outcome, Scored))
        return replace(tried, report=next(failed, reports[-1]))

    def log_tail(self, tried: Tried) -> str:
        """Return the end of what the deciding trial printed."""
        return read_tail(self.paths.trial(tried.report.trial_id).log, LOG_TAIL)

    def curve(self, trial_id: str) -> str:
        """Return the end of a trial's learning curve as the candidate wrote it; never trusted.

        Where that is not all of it, the first line says so.
        """
        path = self.paths.trial(trial_id).out / "progress.jsonl"
        # Not through a link: what it points to is not the candidate's to show.
        if not path.is_file() or path.is_symlink():
            return ""
        end = read_tail(path, curves.TAIL)
        return end if path.stat().st_size <= curves.TAIL else f"{curves.CUT}\n{end}"

    def _tokens(self, idea: Idea) -> int:
        return self.state.tokens.get(idea.idea_id, 0)

    def _snapshot(
        self, idea: Idea, number: int, draft: Draft, parent: int, kind: AttemptKind
    ) -> Attempt:
        before = self.state.ideas[idea.idea_id].code_hashes.get(number)
        if before not in (None, hash_texts(draft.files)):  # what was measured is left as it is
            raise RunDirectoryError(
                f"{idea.idea_id}: attempt {number} has other code than when it was run; restore "
                "the run directory, or launch anew"
            )
        attempt = attempts.save(
            self.paths.idea(idea.idea_id), number, draft, self.specs.recipe.reference
        )
        self.journal.record(
            AttemptWritten(
                idea_id=idea.idea_id,
                attempt=number,
                code_hash=attempt.code_hash,
                parent=parent,
                kind=kind,
                note_hash=hash_bytes(draft.note.encode()),
            )
        )
        return attempt
