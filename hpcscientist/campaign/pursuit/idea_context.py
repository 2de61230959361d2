"""Reads what was made for an idea so far from its folder, on demand: the code of its versions,
their trials, the reviews and the analyst's readings.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from hpcscientist.authoring import attempts
from hpcscientist.campaign.integrity import FileIntegrity
from hpcscientist.campaign.pursuit.attempt_store import AttemptTrial
from hpcscientist.errors import IdeaDamaged
from hpcscientist.files.hashing import hash_bytes, hash_texts
from hpcscientist.files.rundir import IdeaPaths
from hpcscientist.history.entities import IdeaState
from hpcscientist.history.state import CampaignState
from hpcscientist.records.authoring import Brief, Draft
from hpcscientist.records.experiment import AnalysisReply, CodeReview
from hpcscientist.records.idea import Attempt, Idea
from hpcscientist.records.trial import Scored, Stage, TrialReport, trial_name

V = TypeVar("V", bound=BaseModel)


@dataclass(slots=True)
class IdeaContext:
    """Everything made for one open idea. `reference` is the code that first versions start from."""

    brief: Brief
    reference: Mapping[str, str]
    state: CampaignState
    paths: IdeaPaths
    integrity: FileIntegrity
    _drafts: dict[int, Draft] = field(default_factory=dict)

    @property
    def idea(self) -> Idea:
        """The idea itself."""
        return self.brief.idea

    @property
    def standing(self) -> IdeaState:
        """The idea's state in the journal."""
        return self.state.ideas[self.idea.idea_id]

    def files(self, number: int) -> Mapping[str, str]:
        """Return the code of a version, 0 for the reference code. Raises IdeaDamaged."""
        return self.draft(number).files if number else self.reference

    def remember(self, number: int, draft: Draft) -> None:
        """Cache a version that was just written, so that it need not be read."""
        self._drafts[number] = draft

    def draft(self, number: int) -> Draft:
        """Return a version as it was recorded. Raises IdeaDamaged if its files have changed."""
        known = self._drafts.get(number)
        if known is None:
            known = self._drafts[number] = self._read(number)
        return known

    def piloted(self, number: int) -> AttemptTrial:
        """Return a version with its pilot, which must have ended."""
        report = self._report(trial_name(self.idea.idea_id, number, Stage.PILOT, 0))
        assert report is not None
        return self._tried(number, report)

    def tried(self, number: int) -> AttemptTrial:
        """Return a version with the first of its trials that was not scored, else its pilot."""
        for name in self._names(number):
            report = self._report(name)
            if report is not None and not isinstance(report.outcome, Scored):
                return self._tried(number, report)
        return self.piloted(number)

    def review(self, number: int) -> CodeReview:
        """Return the review of a version. Raises IdeaDamaged."""
        return self._parsed(self.paths.review(number), CodeReview)

    def reading(self, number: int) -> AnalysisReply | None:
        """Return the analyst's reading `number`, None if its reply was unusable. Raises
        IdeaDamaged.
        """
        path = self.paths.reading(number)
        return self._parsed(path, AnalysisReply) if path.exists() else None

    def seen(self, known: int) -> tuple[str, ...]:
        """Return the code hashes of the piloted versions up to number `known`."""
        idea_id, hashes = self.idea.idea_id, self.standing.code_hashes
        return tuple(
            hashes[number]
            for number in sorted(hashes)
            if number <= known
            and self._report(trial_name(idea_id, number, Stage.PILOT, 0)) is not None
        )

    def _tried(self, number: int, report: TrialReport) -> AttemptTrial:
        draft = self.draft(number)
        attempt = Attempt(
            idea_id=self.idea.idea_id,
            number=number,
            code_hash=self.standing.code_hashes[number],
            note=draft.note,
        )
        return AttemptTrial(attempt, draft, report)

    def _names(self, number: int) -> Iterator[str]:
        """Yield the names of a version's trials, in the order of its stages."""
        for stage in (Stage.PILOT, Stage.STEP, Stage.SEEDS):
            names = (
                trial_name(self.idea.idea_id, number, stage, index) for index in itertools.count()
            )
            yield from itertools.takewhile(self.state.trials.__contains__, names)

    def _report(self, name: str) -> TrialReport | None:
        trial = self.state.trials.get(name)
        return None if trial is None else trial.report

    def _read(self, number: int) -> Draft:
        idea, code = self.standing, self.paths.code(number)
        copied = self.integrity.copied(code)
        draft = attempts.load(self.paths, number, idea.notes.get(number), copied)
        if draft is None or hash_texts(draft.files) != idea.code_hashes[number]:
            raise IdeaDamaged(
                f"{code}: has other code than when it was recorded; restore it from a backup, or "
                "launch anew"
            )
        known = idea.note_hashes[number]
        if known not in ("", hash_bytes(draft.note.encode())):
            raise IdeaDamaged(
                f"{code.parent}: its note is not what was recorded; restore it from a backup"
            )
        return draft

    def _parsed(self, path: Path, kind: type[V]) -> V:
        try:
            return kind.model_validate_json(self.integrity.read(path))
        except (OSError, ValidationError) as error:
            raise IdeaDamaged(f"{path}: is gone or damaged; restore it from a backup") from error
