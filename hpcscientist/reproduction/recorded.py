"""Reads what a campaign recorded of a claim, without changing it, also while a driver runs."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import ValidationError

from hpcscientist.campaign.proposals.idea_file import known_idea
from hpcscientist.errors import UsageError
from hpcscientist.files.handed import read_regular
from hpcscientist.files.rundir import RunPaths
from hpcscientist.files.text import one_line
from hpcscientist.history import frozen
from hpcscientist.history.entities import IdeaState, TrialState
from hpcscientist.history.frozen import CampaignConfig
from hpcscientist.history.state import CampaignState
from hpcscientist.history.status import read_state
from hpcscientist.records.events import SplitSpent
from hpcscientist.records.findings import Claim
from hpcscientist.records.idea import Idea
from hpcscientist.records.trial import SELF_REPORTED, Scored, Split

_SHOWN = 10


@dataclass(frozen=True, slots=True)
class Recorded:
    """A scored idea as recorded in the journal and campaign.toml; `attempt` is its final one."""

    paths: RunPaths
    config: CampaignConfig
    state: CampaignState
    idea: IdeaState
    attempt: int


def read(paths: RunPaths, idea_id: str) -> Recorded:
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
    return Recorded(paths, config, state, idea, idea.ended.attempt)


def _is_self_reported(trial: TrialState) -> bool:
    outcome = trial.report.outcome if trial.report is not None else None
    return isinstance(outcome, Scored) and any(n.startswith(SELF_REPORTED) for n in outcome.metrics)


def of_claim(paths: RunPaths, claim: Claim, config: CampaignConfig) -> Recorded:
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
    return Recorded(paths, config, CampaignState(), state, claim.attempt)


def read_idea(recorded: Recorded) -> Idea:
    """Return idea.json. Raises RunDirectoryError."""
    return known_idea(recorded.paths.idea(recorded.idea.idea_id).idea)


def read_claim(recorded: Recorded) -> Claim | str | None:
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
