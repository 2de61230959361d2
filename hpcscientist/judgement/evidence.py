"""Collects evidence that explains the finding of a scored idea, besides its values.

It is read once for each idea, from the journal, the files of its trials and its recorded calls.
Compacted trials leave no files, so their evidence is unknown. Files that a candidate wrote are
read up to a bound, their links are not followed, and none of their text is passed on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationError

from hpcscientist.authoring.run_reading import symptom
from hpcscientist.feedback.causes import NOTHING, IdeaEvidence
from hpcscientist.files import log
from hpcscientist.files.handed import open_regular, read_regular
from hpcscientist.files.rundir import RunPaths
from hpcscientist.history.entities import IdeaState, TrialState
from hpcscientist.history.state import CampaignState
from hpcscientist.models.chat import ChatLine
from hpcscientist.models.structured import Unusable, parse
from hpcscientist.recipe.schema import RecipeSpec
from hpcscientist.records.experiment import AnalysisReply, Symptom
from hpcscientist.records.idea import BASELINE_ATTEMPT, BASELINE_ID
from hpcscientist.records.trial import Scored, Stage, trial_name

_PREDICTIONS = 4 << 20  # bytes; larger files are not compared
_ANALYSE = b'"stage":"analyse"'


@dataclass(slots=True)
class Evidences:
    """Reads the evidence of one campaign. `curve` returns the learning curve of a trial."""

    paths: RunPaths
    state: CampaignState
    spec: RecipeSpec
    curve: Callable[[str], str]
    _known: dict[str, IdeaEvidence] = field(default_factory=dict)
    _reference: set[str] | None = None

    def of(self, idea_id: str) -> IdeaEvidence:
        """Return the evidence on an idea, `NOTHING` unless it ended scored."""
        idea = self.state.ideas[idea_id]
        if idea.ended is None or idea.ended.status != "scored" or idea.ended.attempt is None:
            return NOTHING
        if idea_id not in self._known:
            self._known[idea_id] = self._read(idea, idea.ended.attempt)
        return self._known[idea_id]

    def _read(self, idea: IdeaState, attempt: int) -> IdeaEvidence:
        review = idea.reviews.get(attempt)
        assert idea.ended is not None
        return IdeaEvidence(
            pilot=self._pilot(idea.idea_id, attempt),
            reference_pilot=self._pilot(BASELINE_ID, BASELINE_ATTEMPT),
            unchanged=self._unchanged(idea.idea_id, attempt),
            curve=self._symptom(idea.idea_id, attempt),
            lacking=(idea.ended.reason or "") if review and not review.complete else "",
            reading=reading(self.paths, idea.idea_id),
        )

    def _pilot(self, idea_id: str, attempt: int) -> float | None:
        trial = self.state.trials.get(trial_name(idea_id, attempt, Stage.PILOT, 0))
        return self._value(trial)

    def _value(self, trial: TrialState | None) -> float | None:
        report = trial.report if trial is not None else None
        if report is None or not isinstance(report.outcome, Scored):
            return None
        return report.outcome.value(self.spec.primary.name)

    def _symptom(self, idea_id: str, attempt: int) -> Symptom | None:
        """Return the symptom in the first seed's curve, None if the baseline's shows the same."""
        own = symptom(self.curve(trial_name(idea_id, attempt, Stage.SEEDS, 0)))
        if own is None or own == symptom(self.curve(_baseline(0))):
            return None
        return own

    def _unchanged(self, idea_id: str, attempt: int) -> float | None:
        """Return the share of lines in the baseline's predictions that the idea's have too.

        Both are of the first seed.
        """
        if self._reference is None:
            self._reference = self._lines(_baseline(0))
        own = self._lines(trial_name(idea_id, attempt, Stage.SEEDS, 0))
        if not own or not self._reference:
            return None
        return len(self._reference & own) / len(self._reference)

    def _lines(self, trial_id: str) -> set[str]:
        out = self.paths.trial(trial_id).out
        path = out / self.spec.predictions
        if not _is_plain(path, out):
            return set()
        text = path.read_bytes().decode(errors="replace")
        # Skip the first line: it usually names the columns, and is the same in all files.
        return set(text.splitlines()[1:])


def reading(paths: RunPaths, idea_id: str) -> str:
    """Return the analyst's last reading of an idea's runs, "" if there is none."""
    idea = paths.idea(idea_id)
    last = 0
    while idea.reading(last + 1).exists():
        last += 1
    if not last:
        return _recorded_reading(paths, idea_id)
    try:
        return AnalysisReply.model_validate_json(read_regular(idea.reading(last))).reading
    except (OSError, ValidationError):
        return ""


def _recorded_reading(paths: RunPaths, idea_id: str) -> str:
    """Return the same from the recorded calls: earlier versions kept no readings."""
    try:
        with open_regular(paths.idea(idea_id).chat) as file:
            replies = [reply for reply, _ in log.read(file, _analysis) if reply is not None]
    except (OSError, log.DamagedLine):
        return ""
    for reply in reversed(replies):
        try:
            return parse(reply, AnalysisReply).reading
        except Unusable:
            continue
    return ""


def _analysis(line: bytes) -> str | None:
    """Return the reply of a recorded analysis call, None for any other call."""
    try:
        return ChatLine.model_validate_json(line).reply if _ANALYSE in line else None
    except ValidationError:
        return None


def _baseline(index: int) -> str:
    return trial_name(BASELINE_ID, BASELINE_ATTEMPT, Stage.BASELINE, index)


def _is_plain(path: Path, folder: Path) -> bool:
    """Return whether a path is a file in that folder, reached by no link, and not too large."""
    try:
        return (
            path.is_file()
            and path.resolve() == folder.resolve() / path.relative_to(folder)
            and path.stat().st_size <= _PREDICTIONS
        )
    except OSError:
        return False
