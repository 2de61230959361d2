"""Writes ideas/ID/claim.json: a scored idea's results, and all that is needed to measure it again.

The claim is derived only from the journal, campaign.toml and the recipe's snapshot, so a driver
that resumes writes the same file. Beside it is recipe.tar, the recipe's code. With the attempt's
code in the same folder, an idea's folder can be handed on without its campaign. All ideas of a
campaign share one recipe.tar through hard links, if the disk supports them.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from hpcscientist.campaign.integrity import make_way
from hpcscientist.campaign.specs import trial_limits
from hpcscientist.feedback.statistics import compare
from hpcscientist.files.atomic import write_atomic
from hpcscientist.files.handed import read_regular
from hpcscientist.files.rundir import RunPaths
from hpcscientist.history.entities import TrialState
from hpcscientist.history.frozen import CampaignConfig
from hpcscientist.history.state import CampaignState
from hpcscientist.recipe import archive
from hpcscientist.recipe.load import Recipe
from hpcscientist.records.findings import Claim, Evidence, Measured
from hpcscientist.records.idea import BASELINE_ATTEMPT, BASELINE_ID
from hpcscientist.records.trial import Budget, MetricSpec, Scored, Split, is_measured


@dataclass(frozen=True)
class Claims:
    """Writes the claims of a campaign, for one driver."""

    paths: RunPaths
    config: CampaignConfig
    recipe: Recipe
    state: CampaignState

    def write(self, idea_id: str) -> None:
        """Write an idea's claim, if it has one and the file does not hold it already."""
        claim = derive(self.config, self.recipe, self.state, idea_id)
        if claim is None:
            return
        place = self.paths.idea(idea_id)
        if self._archive is not None:  # first, so that no claim lacks its archive for long
            self._archive.put(make_way(self.paths, place.recipe))
        _write(make_way(self.paths, place.claim), encode(claim))

    def write_all(self) -> None:
        """Write every claim that is missing or has changed, as by results on the test split."""
        if self._archive is not None:
            self._archive.whole = None  # a candidate may have changed it since
        for idea_id in self.state.ideas:
            self.write(idea_id)

    @cached_property
    def _archive(self) -> _Archive | None:
        """The recipe as it was at launch; None if it is too large, or was changed since."""
        places = [self.paths.idea(idea_id).recipe for idea_id in self.state.ideas]
        for folder in (self.recipe.folder, self.paths.recipe):  # the first one holds no image
            found = archive.pack(folder)
            if found is not None and found[1] == self.config.recipe_hash:
                return _Archive(found[0], places)
        return None


@dataclass(slots=True)
class _Archive:
    """recipe.tar, one file that all ideas of the campaign share, linked beside each claim.

    `places` are the paths where an earlier driver may have put it; `whole` is one that holds
    `data`.
    """

    data: bytes
    places: Sequence[Path]
    whole: Path | None = None

    def put(self, path: Path) -> None:
        """Put the archive at `path` too. Raises OSError."""
        if self.whole is None or not self.whole.is_file():
            self.whole = self._find()
        if self.whole is None:
            write_atomic(path, self.data)
        elif _is_same(self.whole, path):
            return
        elif not _link(self.whole, path):
            # The disk allows no (more) links to this file: the next links are to this copy.
            if not self._is_whole(path):
                write_atomic(path, self.data, listed=False)
            known = self.whole.stat()
            os.utime(path, ns=(known.st_atime_ns, known.st_mtime_ns))
        self.whole = path

    def _find(self) -> Path | None:
        """Return a path that holds the archive, None if there is none; read each file once."""
        files: dict[tuple[int, int], Path] = {}
        for path in self.places:
            with contextlib.suppress(FileNotFoundError):
                found = path.lstat()
                files.setdefault((found.st_dev, found.st_ino), path)
        return next(filter(self._is_whole, files.values()), None)

    def _is_whole(self, path: Path) -> bool:
        """Return whether a path is a regular file, no link, that holds the archive."""
        if not path.is_file() or path.is_symlink() or path.stat().st_size != len(self.data):
            return False
        return path.read_bytes() == self.data


def _is_same(whole: Path, path: Path) -> bool:
    """Return whether two paths are one file, or an untouched copy, without reading contents."""
    try:
        known, found = whole.lstat(), path.lstat()
    except FileNotFoundError:
        return False
    if (known.st_dev, known.st_ino) == (found.st_dev, found.st_ino):
        return True
    alike = (known.st_size, known.st_mtime_ns) == (found.st_size, found.st_mtime_ns)
    return alike and stat.S_ISREG(found.st_mode)


def _link(whole: Path, path: Path) -> bool:
    """Replace `path` by a hard link to a file; return whether that worked."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.unlink(missing_ok=True)
        os.link(whole, temporary)
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        return False
    return True


def _write(path: Path, data: bytes) -> None:
    """Write a claim unless the file already holds it.

    Not durably: a claim lost in a power cut is written again at the end.
    """
    try:
        known = read_regular(path, len(data), follow=False)
    except OSError:
        known = b""
    if known != data:
        write_atomic(path, data, durable=False)


def encode(claim: Claim) -> bytes:
    """Return the content of claim.json."""
    return claim.model_dump_json(indent=2).encode() + b"\n"


def derive(
    config: CampaignConfig, recipe: Recipe, state: CampaignState, idea_id: str
) -> Claim | None:
    """Return the claim of an idea; None unless it ended scored on seeds that the baseline has too.

    There are no claims about metrics that candidates report themselves.
    """
    idea = state.ideas[idea_id]
    if recipe.spec.primary.is_self_reported:
        return None
    if idea.ended is None or idea.ended.status != "scored" or idea.ended.attempt is None:
        return None
    attempt, metric = idea.ended.attempt, recipe.spec.primary
    own, baseline = (idea_id, attempt), (BASELINE_ID, BASELINE_ATTEMPT)
    searched = _evidence(state.full.get(own, {}), state.full.get(baseline, {}), metric)
    if searched is None:
        return None
    evidence = {Split.VALIDATION: searched}
    if idea.spent is not None and idea.spent.attempt == attempt:
        tried, spent = state.confirming.get(own, {}), set(idea.spent.seeds)
        confirmed = _evidence(tried, state.confirming.get(baseline, {}), metric)
        if confirmed is not None and {trial.seed for trial in confirmed.idea} == spent:
            evidence[Split.TEST] = confirmed
    return Claim(
        campaign_id=config.campaign_id,
        idea_id=idea_id,
        attempt=attempt,
        code=f"attempts/{attempt}/code",
        code_hash=idea.code_hashes[attempt],
        reference_hash=recipe.reference_hash,
        entry=recipe.spec.entry,
        predictions=recipe.spec.predictions,
        recipe=config.recipe_name,
        recipe_hash=config.recipe_hash,
        data_hash=config.data_hash,
        scorer_hash=recipe.scorer_hash,
        isolation=config.isolation,
        image=config.image,
        image_hash=config.image_hash,
        package_version=config.package_version,
        package_hash=config.package_hash,
        python=config.python,
        budget=Budget.FULL,
        limits=trial_limits(recipe.spec, Budget.FULL),
        metric=metric,
        tolerances=recipe.spec.objective.tolerances,
        q=config.settings.loop.q,
        decision=config.settings.loop.decision,
        evidence=evidence,
    )


def _evidence(
    own: Mapping[str, TrialState], baseline: Mapping[str, TrialState], metric: MetricSpec
) -> Evidence | None:
    """Return an idea's trials and the baseline's with the same seeds, None if any is missing."""
    ours, theirs = _measured(own, metric), _measured(baseline, metric)
    if not ours or not ours.keys() <= theirs.keys():
        return None
    seeds = sorted(ours)
    return Evidence(
        idea=tuple(ours[seed] for seed in seeds),
        baseline=tuple(theirs[seed] for seed in seeds),
        comparison=compare(
            {seed: theirs[seed].metrics[metric.name] for seed in seeds},
            {seed: ours[seed].metrics[metric.name] for seed in seeds},
        ),
    )


def _measured(trials: Mapping[str, TrialState], metric: MetricSpec) -> dict[int, Measured]:
    """Return the scored trials by seed; the last one of several, as in `state.scores`."""
    return {
        trial.seed: Measured(
            trial_id=trial.trial_id,
            seed=trial.seed,
            metrics=report.outcome.metrics,
            predictions_hash=report.predictions_hash,
        )
        for trial in trials.values()
        if (report := trial.report) is not None
        and isinstance(report.outcome, Scored)
        and is_measured(report.outcome.value(metric.name))
        and all(map(is_measured, report.outcome.metrics.values()))
    }
