"""Checks that the records of a claim are intact, before any trial is rerun.

Code, recipe, data and image are hashed; the journal, the result files and claim.json must agree. A
change to one of them shows in the others; a consistent change to all of them shows only when the
trials are rerun.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from pydantic import ValidationError

from hpcscientist import __version__
from hpcscientist.campaign import claims
from hpcscientist.campaign.proposals.idea_file import known_idea
from hpcscientist.errors import UsageError
from hpcscientist.files import vault
from hpcscientist.files.handed import LARGEST_TEXT, read_regular
from hpcscientist.files.hashing import hash_tree, holds, package_hash
from hpcscientist.files.rundir import RunPaths
from hpcscientist.files.text import one_line
from hpcscientist.history import frozen
from hpcscientist.history.entities import IdeaState, TrialState
from hpcscientist.history.frozen import CampaignConfig
from hpcscientist.history.state import CampaignState
from hpcscientist.history.status import read_state
from hpcscientist.recipe.checks.tree import LARGEST
from hpcscientist.recipe.folder_copy import LaunchedRecipe
from hpcscientist.recipe.load import Recipe
from hpcscientist.records.events import SplitSpent
from hpcscientist.records.findings import Claim
from hpcscientist.records.idea import BASELINE_ATTEMPT, BASELINE_ID, Idea
from hpcscientist.records.trial import SELF_REPORTED, Scored, Split, Stage
from hpcscientist.reproduction import verify_bundle
from hpcscientist.results.scan import Row, rows_of
from hpcscientist.results.store import unsealed

# Reads what a campaign recorded of a claim, without changing it, also while a driver runs.


_SHOWN = 10


@dataclass(frozen=True, slots=True)
class RecordedIdea:
    """A scored idea as recorded in the journal and campaign.toml; `attempt` is its final one."""

    paths: RunPaths
    config: CampaignConfig
    state: CampaignState
    idea: IdeaState
    attempt: int


def read_recorded(paths: RunPaths, idea_id: str) -> RecordedIdea:
    """Read what was recorded of an idea.

    Raises UsageError for an idea that is unknown or was never scored, and RunDirectoryError.
    """
    state, config = read_state(paths), frozen.read(paths)
    idea = state.ideas.get(idea_id)
    if idea is None:
        raise UsageError(f"--idea {idea_id}: there is none of that name; {_scored(state)}")
    if idea.ended is None:
        raise UsageError(f"--idea {idea_id}: has not come to its end yet; {_scored(state)}")
    if idea.ended.status != "scored" or idea.ended.attempt is None:
        why = f": {one_line(idea.ended.reason)}" if idea.ended.reason else ""
        raise UsageError(
            f"--idea {idea_id}: was never scored, it was {idea.ended.status}{why}; {_scored(state)}"
        )
    if idea.left is not None:
        raise UsageError(
            f"--idea {idea_id}: was never scored at the full budget: {idea.left.reason}; "
            f"{_scored(state)}"
        )
    if any(map(_is_self_reported, state.trials.values())):
        raise UsageError(
            f"--idea {idea_id}: its metrics are self-reported, so there is no claim to run "
            "again; import its task with a scorer (hpcsci recipe import … --scorer FILE)"
        )
    return RecordedIdea(paths, config, state, idea, idea.ended.attempt)


def _is_self_reported(trial: TrialState) -> bool:
    outcome = trial.report.outcome if trial.report is not None else None
    return isinstance(outcome, Scored) and any(n.startswith(SELF_REPORTED) for n in outcome.metrics)


def recorded_of_claim(paths: RunPaths, claim: Claim, config: CampaignConfig) -> RecordedIdea:
    """Return the record of an idea from a claim without its campaign; `paths` holds idea.json.

    Raises RunDirectoryError.
    """
    idea = known_idea(paths.idea(claim.idea_id).idea)
    spent = claim.evidence.get(Split.TEST)
    state = IdeaState(
        *(idea.idea_id, idea.number, idea.round, idea.proposal.title, idea.proposal.parent_ids),
        code_hashes={claim.attempt: claim.code_hash},
        spent=SplitSpent(
            idea_id=claim.idea_id,
            attempt=claim.attempt,
            seeds=tuple(trial.seed for trial in spent.idea),
        )
        if spent
        else None,
    )
    return RecordedIdea(paths, config, CampaignState(), state, claim.attempt)


def read_idea(recorded: RecordedIdea) -> Idea:
    """Return idea.json. Raises RunDirectoryError."""
    return known_idea(recorded.paths.idea(recorded.idea.idea_id).idea)


def read_claim(recorded: RecordedIdea) -> Claim | str | None:
    """Return claim.json, None if it does not exist, or a string that says why it is unreadable."""
    path = recorded.paths.idea(recorded.idea.idea_id).claim
    try:
        return Claim.model_validate_json(read_regular(path))
    except FileNotFoundError:
        return None
    except (OSError, ValidationError) as error:
        return f"claim.json cannot be read: {one_line(str(error))}"


def _scored(state: CampaignState) -> str:
    """Return a message that names the ideas that can be reproduced."""
    ended = [i for i in state.in_order() if i.ended and i.ended.status == "scored"]
    ids = [idea.idea_id for idea in ended if idea.left is None]
    if not ids:
        return "no idea of this campaign was scored"
    more = f" and {len(ids) - _SHOWN} more" if len(ids) > _SHOWN else ""
    return f"scored: {', '.join(ids[:_SHOWN])}{more}"


# Fields that claim.json lacks if it is from a version that wrote no recipe.tar.
_LATER = frozenset({"q", "decision"})


@dataclass(slots=True)
class ClaimIntegrity:
    """The result of an integrity check: `problems` rule out a rerun, `notes` do not.

    `recipe` and `claim` are None if the recipe or the baseline is not as recorded.
    """

    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    recipe: Recipe | None = None
    claim: Claim | None = None


def examine(recorded: RecordedIdea) -> ClaimIntegrity:
    """Check code, recipe, journal, results and claim.json; data and image are checked later.

    Raises RunDirectoryError.
    """
    found = ClaimIntegrity()
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


def _code(recorded: RecordedIdea, found: ClaimIntegrity) -> None:
    idea_id, attempt = recorded.idea.idea_id, recorded.attempt
    code = recorded.paths.idea(idea_id).code(attempt)
    if not code.is_dir():
        found.problems.append(f"{code} is gone")
    elif not holds(code, recorded.idea.code_hashes.get(attempt, ""), LARGEST_TEXT):
        found.problems.append(f"{code} is not the code that was measured, by the journal's hash")


def _trials(recorded: RecordedIdea) -> list[TrialState]:
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
    recorded: RecordedIdea, trials: Iterable[TrialState], recipe_is_whole: bool
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


def _hashes(recorded: RecordedIdea, trial: TrialState) -> dict[str, str | None]:
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


def _claim(recorded: RecordedIdea, found: ClaimIntegrity, derived: Claim) -> None:
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


def _archive(recorded: RecordedIdea, found: ClaimIntegrity) -> None:
    """Compare recipe.tar, if it exists in the idea's folder, with the recipe."""
    path = recorded.paths.idea(recorded.idea.idea_id).recipe
    if path.exists():
        archive = verify_bundle.read_archive(path, recorded.config.recipe_hash)
        if isinstance(archive, str):
            found.problems.append(archive)
