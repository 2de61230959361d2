"""Checks that the records of a claim are intact, before any trial is rerun.

Code, recipe, data and image are hashed; the journal, the result files and claim.json must agree. A
change to one of them shows in the others; a consistent change to all of them shows only when the
trials are rerun.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from hpcscientist import __version__
from hpcscientist.campaign import claims
from hpcscientist.files import vault
from hpcscientist.files.handed import LARGEST_TEXT
from hpcscientist.files.hashing import hash_tree, holds, package_hash
from hpcscientist.history.entities import TrialState
from hpcscientist.recipe.checks.tree import LARGEST
from hpcscientist.recipe.launched import LaunchedRecipe
from hpcscientist.recipe.load import Recipe
from hpcscientist.records.findings import Claim
from hpcscientist.records.idea import BASELINE_ATTEMPT, BASELINE_ID
from hpcscientist.records.trial import Scored, Split, Stage
from hpcscientist.reproduction import verify_bundle
from hpcscientist.reproduction.recorded import Recorded, read_claim
from hpcscientist.results.scan import Row, rows_of
from hpcscientist.results.store import unsealed

# Fields that claim.json lacks if it is from a version that wrote no recipe.tar.
_LATER = frozenset({"q", "decision"})


@dataclass(slots=True)
class Wholeness:
    """The result of an integrity check: `problems` rule out a rerun, `notes` do not.

    `recipe` and `claim` are None if the recipe or the baseline is not as recorded.
    """

    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    recipe: Recipe | None = None
    claim: Claim | None = None


def examine(recorded: Recorded) -> Wholeness:
    """Check code, recipe, journal, results and claim.json; data and image are checked later.

    Raises RunDirectoryError.
    """
    found = Wholeness()
    _code(recorded, found)
    trials = _trials(recorded)
    is_whole = holds(recorded.paths.recipe, recorded.config.recipe_hash, LARGEST)
    found.problems += _results(recorded, trials, is_whole)
    if not vault.has_key(recorded.config.campaign_id):
        found.notes.append(
            "signatures of result files were not checked: the campaign's key is not on this machine"
        )
    if not is_whole:
        found.problems.append(
            f"{recorded.paths.recipe} is not the recipe of the launch, by the hash in campaign.toml"
        )
        return found
    found.recipe = LaunchedRecipe(recorded.paths.recipe, recorded.config.recipe_hash).load()
    found.claim = claims.derive(
        recorded.config, found.recipe, recorded.state, recorded.idea.idea_id
    )
    if found.claim is None:
        found.problems.append("the baseline has no scored trial for some of the idea's seeds")
        return found
    _claim(recorded, found, found.claim)
    _archive(recorded, found)
    found.notes += package_notes(recorded.config.package_version, recorded.config.package_hash)
    spent = recorded.idea.spent
    if spent is not None and Split.TEST not in found.claim.evidence:
        found.notes.append(
            "not all of its trials on the test split were scored: only validation is run again"
        )
    return found


def package_notes(version: str, package: str) -> Iterator[str]:
    """Yield a note if another version of this package recorded the claim. `package` may be ""."""
    here = package_hash()
    if version != __version__:
        yield f"recorded with hpcscientist {version}, this is {__version__}"
    elif package and package != here:
        yield (
            f"recorded with another hpcscientist {__version__}: its hash begins "
            f"{package[:12]}, this one's {here[:12]}"
        )


def _code(recorded: Recorded, found: Wholeness) -> None:
    idea_id, attempt = recorded.idea.idea_id, recorded.attempt
    code = recorded.paths.idea(idea_id).code(attempt)
    if not code.is_dir():
        found.problems.append(f"{code} is gone")
    elif not holds(code, recorded.idea.code_hashes.get(attempt, ""), LARGEST_TEXT):
        found.problems.append(f"{code} is not the code that was measured, by the journal's hash")


def _trials(recorded: Recorded) -> list[TrialState]:
    """Return the scored trials of the idea's final attempt and of the baseline, on both splits."""
    state = recorded.state
    keys = ((recorded.idea.idea_id, recorded.attempt), (BASELINE_ID, BASELINE_ATTEMPT))
    groups = (group.get(key, {}) for key in keys for group in (state.full, state.confirming))
    return [
        trial
        for group in groups
        for trial in group.values()
        if (report := trial.report) is not None and isinstance(report.outcome, Scored)
    ]


def _results(
    recorded: Recorded, trials: Iterable[TrialState], recipe_is_whole: bool
) -> Iterator[str]:
    """Yield a problem for each result that is missing or contradicts the journal."""
    by_id = {trial.trial_id: trial for trial in trials}
    rows = rows_of(recorded.paths, by_id)
    for trial_id, trial in by_id.items():
        report = trial.report
        assert report is not None
        ours = [row for row in rows.get(trial_id, ()) if row["run"] == report.run]
        if not ours:
            yield f"{trial_id} was scored by the journal, and its result is gone or cannot be read"
            continue
        if recipe_is_whole or trial.idea_id != BASELINE_ID:
            yield from _differences(trial, ours, _hashes(recorded, trial))
    for trial_id in unsealed(recorded.paths, recorded.config.campaign_id, by_id):
        yield f"trials/{trial_id}/result.arrow is not what its worker wrote: the seal is wrong"


def _hashes(recorded: Recorded, trial: TrialState) -> dict[str, str | None]:
    config, code = recorded.config, recorded.idea.code_hashes.get(trial.attempt)
    if trial.idea_id == BASELINE_ID:
        code = hash_tree(recorded.paths.recipe / "reference")
    return {
        "campaign": config.campaign_id,
        "code_hash": code,
        "recipe_hash": config.recipe_hash,
        "data_hash": config.data_hash,
        "image_hash": config.image_hash,
        "isolation": config.isolation.value,
    }


def _differences(
    trial: TrialState, rows: list[Row], hashes: Mapping[str, str | None]
) -> Iterator[str]:
    """Yield where a trial's rows contradict the journal, campaign.toml or the code."""
    report = trial.report
    assert report is not None
    assert isinstance(report.outcome, Scored)
    wanted = {
        "idea": trial.idea_id,
        "attempt": trial.attempt,
        "stage": trial.stage.value,
        "seed": trial.seed,
        "split": (Split.TEST if trial.stage is Stage.CONFIRM else Split.VALIDATION).value,
        "predictions_hash": report.predictions_hash,
        **hashes,
    }
    for name, value in wanted.items():
        if rows[0][name] != value:
            yield f"{trial.trial_id}: {name} is {value}, and {rows[0][name]} by its result"
    values = {row["metric"]: row["value"] for row in rows}
    for name, measured in report.outcome.metrics.items():
        if values.get(name) != measured:
            yield (
                f"{trial.trial_id}: {name} is {measured} by the journal, and {values.get(name)} by "
                "its result"
            )


def _claim(recorded: Recorded, found: Wholeness, derived: Claim) -> None:
    """Compare claim.json with the claim derived from the journal."""
    written = read_claim(recorded)
    if written is None:
        found.notes.append(
            "there is no claim.json (an earlier version ran it); the journal has all"
        )
        return
    if isinstance(written, str):
        found.problems.append(written)
        return
    lacking = _LATER - written.model_fields_set
    earlier = not recorded.paths.idea(recorded.idea.idea_id).recipe.exists()
    for name in Claim.model_fields:
        if name == "evidence" or (lacking == _LATER and earlier and name in lacking):
            continue
        if getattr(written, name) != getattr(derived, name):
            ours, theirs = getattr(written, name), getattr(derived, name)
            found.problems.append(
                f"claim.json: {name} is {ours}, {theirs} by the journal and the campaign"
            )
    for split in Split:
        evidence = written.evidence.get(split)
        if evidence is None and split in derived.evidence:
            found.notes.append(f"claim.json does not have the {split.value} split yet")
        elif evidence != derived.evidence.get(split):
            found.problems.append(
                f"claim.json: what it says of the {split.value} split is not what the journal says"
            )


def _archive(recorded: Recorded, found: Wholeness) -> None:
    """Compare recipe.tar, if it exists in the idea's folder, with the recipe."""
    path = recorded.paths.idea(recorded.idea.idea_id).recipe
    if path.exists():
        archive = verify_bundle.read_archive(path, recorded.config.recipe_hash)
        if isinstance(archive, str):
            found.problems.append(archive)
