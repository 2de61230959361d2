"""Finds the claim to reproduce: an idea of a campaign, or an idea's folder on its own."""

from __future__ import annotations

from pathlib import Path

from hpcscientist.errors import UsageError
from hpcscientist.files.handed import resolved
from hpcscientist.files.rundir import IdeaPaths, RunPaths
from hpcscientist.ports import Tell
from hpcscientist.records.findings import Reproduction
from hpcscientist.reproduction import verify_bundle
from hpcscientist.reproduction.environment import Wanted
from hpcscientist.reproduction.reproduce import reproduce, reproduce_alone


def reproduce_folder(
    directory: Path,
    idea_id: str | None,
    wanted: Wanted,
    recipe: str,
    out: Path | None,
    tell: Tell,
) -> Reproduction:
    """Reproduce the claim of an idea in a run directory, or of an idea's folder without `idea_id`.

    An idea's folder inside its campaign is also checked against the campaign. Raises what
    `reproduce` and `reproduce_alone` raise, and UsageError if it is unclear which claim is meant.
    """
    meant = _in_campaign(directory, idea_id)
    if meant is None:
        return reproduce_alone(directory, wanted, recipe, out, tell)
    paths, known = meant
    if recipe:
        raise UsageError(f"--recipe {recipe}: {paths.root} has its own; leave --recipe out")
    if paths.root != directory:
        tell(f"{directory} lies in its campaign, {paths.root}: held against that too")
    return reproduce(paths, known, wanted, out, tell)


def _in_campaign(directory: Path, idea_id: str | None) -> tuple[RunPaths, str] | None:
    """Return the campaign and the idea; None for an idea's folder without its campaign."""
    paths = RunPaths(directory)
    if paths.campaign.exists() or not IdeaPaths(directory).claim.exists():
        if idea_id is not None:
            return paths, idea_id
        if paths.campaign.exists():
            raise UsageError(f"{directory}: holds a campaign; say with --idea which of its ideas")
    claim = verify_bundle.read_claim(directory)
    if idea_id not in (None, claim.idea_id):
        raise UsageError(f"--idea {idea_id}: {directory} is of {claim.idea_id}; leave --idea out")
    # Try the path as given and resolved (links, `..`): a campaign's `ideas` may itself be a link.
    for place in (directory, resolved(directory)):
        around = RunPaths(place.parent.parent)
        if around.campaign.exists() and around.idea(claim.idea_id).root == place:
            return around, claim.idea_id
    return None
