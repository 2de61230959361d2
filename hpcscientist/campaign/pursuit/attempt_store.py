"""Stores snapshots of versions, and reads the logs and learning curves of their trials."""

from __future__ import annotations

from dataclasses import dataclass

from hpcscientist.authoring import attempts, run_reading
from hpcscientist.campaign.integrity import FileIntegrity, make_way
from hpcscientist.campaign.proposals.idea_file import known_idea
from hpcscientist.campaign.specs import SpecFactory
from hpcscientist.errors import IdeaDamaged, RunDirectoryError
from hpcscientist.files.atomic import read_tail
from hpcscientist.files.hashing import hash_bytes, hash_texts
from hpcscientist.files.rundir import RunPaths
from hpcscientist.history.journal import Journal
from hpcscientist.history.state import CampaignState
from hpcscientist.recipe.knobs import only_settings
from hpcscientist.records.authoring import Draft
from hpcscientist.records.events import AttemptWritten
from hpcscientist.records.idea import Attempt, AttemptKind
from hpcscientist.records.trial import Outcome, Scored, TrialReport

LOG_TAIL = 16 * 1024


@dataclass(frozen=True, slots=True)
class AttemptTrial:
    """An attempt, its files, and the report of one of its trials."""

    attempt: Attempt
    draft: Draft
    report: TrialReport

    @property
    def outcome(self) -> Outcome:
        """The trial's outcome."""
        return self.report.outcome

    @property
    def values(self) -> dict[str, float]:
        """The trial's values by metric, {} if it was not scored."""
        outcome = self.report.outcome
        return dict(outcome.metrics) if isinstance(outcome, Scored) else {}

    @property
    def scored(self) -> bool:
        """Return whether the trial was scored."""
        return isinstance(self.report.outcome, Scored)


@dataclass(slots=True)
class AttemptStore:
    """Keeps versions, and reads the output of their trials."""

    paths: RunPaths
    journal: Journal
    state: CampaignState
    specs: SpecFactory
    integrity: FileIntegrity

    def log_tail(self, tried: AttemptTrial) -> str:
        """Return the end of the trial's log."""
        return read_tail(self.paths.trial(tried.report.trial_id).log, LOG_TAIL)

    def curve(self, trial_id: str) -> str:
        """Return the end of a trial's learning curve as the candidate code wrote it, untrusted.

        If the curve was cut, the first line says so.
        """
        path = self.paths.trial(trial_id).out / "progress.jsonl"
        # Follow no link: it could expose a file that the candidate may not show.
        if not path.is_file() or path.is_symlink():
            return ""
        end = read_tail(path, run_reading.TAIL)
        return end if path.stat().st_size <= run_reading.TAIL else f"{run_reading.CUT}\n{end}"

    def keep(
        self, idea_id: str, number: int, draft: Draft, parent: int, kind: AttemptKind
    ) -> Attempt:
        """Snapshot attempt `number` of an idea. Raises RunDirectoryError, OSError."""
        before = self.state.ideas[idea_id].code_hashes.get(number)
        if before not in (None, hash_texts(draft.files)):  # never change measured code
            raise RunDirectoryError(
                f"{idea_id}: attempt {number} has other code than when it was run; restore "
                "the run directory, or launch anew"
            )
        folder = self.paths.idea(idea_id).attempt(number)
        recipe = self.specs.recipe
        beside = attempts.beside(draft, recipe.reference)
        for name in beside:
            make_way(self.paths, folder / name)
        attempt = attempts.save(self.paths.idea(idea_id), number, draft, recipe.reference)
        self.integrity.keep_folder(self.paths.idea(idea_id).code(number), draft.files)
        for name, text in beside.items():
            self.integrity.keep(folder / name, text)
        self.journal.record(
            AttemptWritten(
                idea_id=idea_id,
                attempt=number,
                code_hash=attempt.code_hash,
                parent=parent,
                kind=kind,
                note_hash=hash_bytes(draft.note.encode()),
                note=draft.note,
                only_knobs=only_settings(recipe.reference, draft.files, recipe.spec.knobs),
            )
        )
        return attempt

    def unchanged(self, idea_id: str) -> int:
        """Return an idea's final attempt, after checking that its files are what was measured.

        Raises IdeaDamaged.
        """
        idea = self.state.ideas[idea_id]
        assert idea.ended is not None
        assert idea.ended.attempt is not None
        number = idea.ended.attempt
        place = self.paths.idea(idea_id)
        code = place.code(number)
        if not self.integrity.holds(code, idea.code_hashes[number]):
            raise IdeaDamaged(
                f"{code}: is not the code that was measured; restore it from a backup"
            )
        known_idea(place.idea, idea.idea_hash, self.integrity.read)
        return number
