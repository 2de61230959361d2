"""Reproduces a claim: check that it is intact, rerun its trials, judge whether it holds.

A claim is reproduced in its campaign, or from an idea's folder alone.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from hpcscientist.config.settings import LoopSettings
from hpcscientist.confirmation.decision import confirm, shows
from hpcscientist.errors import RunDirectoryError, UsageError
from hpcscientist.execution.sandbox import isolation
from hpcscientist.feedback.decision import Limited
from hpcscientist.files.atomic import write_text
from hpcscientist.files.handed import resolved
from hpcscientist.files.rundir import IdeaPaths, RunPaths
from hpcscientist.judgement.summary import read_rows
from hpcscientist.ports import Tell
from hpcscientist.recipe.load import find, load
from hpcscientist.records.findings import Claim, Evidence, Holding, Measured, Reproduction, Verdict
from hpcscientist.records.trial import Isolation, MetricSpec, Split
from hpcscientist.reproduction import claim_integrity, rerun, verify_bundle
from hpcscientist.reproduction.claim_check import Said, check_claim
from hpcscientist.reproduction.claim_integrity import (
    ClaimIntegrity,
    RecordedIdea,
    examine,
    package_notes,
)
from hpcscientist.reproduction.environment import RerunOptions, config_here, config_of
from hpcscientist.reproduction.rerun import ClaimRerun


def reproduce(
    paths: RunPaths,
    idea_id: str,
    wanted: RerunOptions,
    out: Path | None,
    tell: Tell,
    beside: Sequence[RunPaths] = (),
) -> Reproduction:
    """Rerun a scored idea's trials and return whether its recorded results hold.

    Trials on the test split are included only if the idea used that split. The campaign is not
    changed, and a driver may run meanwhile. If the records are not intact, nothing is run. `beside`
    are the folders of reruns of the campaign's other claims: baseline trials that they ran are not
    run again.

    Raises UsageError (unknown idea, no image, no backend), Interrupted, MachineTrouble and other
    HpcsciErrors if the claim cannot be judged.
    """
    known = claim_integrity.read_recorded(paths, idea_id)
    found = examine(known)
    if found.problems or found.claim is None or found.recipe is None:
        return _unheld(known, found, [])
    config = config_here(known.config, found.recipe, wanted)
    if isinstance(config, str):
        return _unheld(known, found, [config])
    if config.python != known.config.python:
        found.notes.append(f"{known.config.python} is gone; {config.python} runs the trials")
    for note in found.notes:
        tell(f"note: {note}")
    said, asked = _said(known), f"hpcsci reproduce {paths.root} --idea {idea_id}"
    place = rerun.choose_folder(paths, found.claim, out)
    again = ClaimRerun(known, found.claim, found.recipe, config, place, tell, beside, asked)
    return run(again, said, found.notes)


def run(again: ClaimRerun, said: Said, notes: Sequence[str], alone: bool = False) -> Reproduction:
    """Run the trials, judge them, and write the outcome to the folder of the rerun.

    Raises Interrupted, MachineTrouble and RunDirectoryError.
    """
    claim, place, config = again.claim, again.paths, again.config
    again.tell(isolation.statement(config.isolation, config.site.host))
    again.tell(f"running {claim.idea_id}'s trials and the baseline's again in {place.root}")
    held = check_claim(claim, said, again.run(), tuple(notes))
    held = held.model_copy(update={"folder": str(place.root), "alone": alone})
    try:
        write_text(place.root / rerun.OUTCOME, held.model_dump_json(indent=2) + "\n")
    except OSError as error:
        raise RunDirectoryError(f"{error.filename}: {error.strerror}; give --out DIR") from error
    return held


def _said(known: RecordedIdea) -> Said:
    """Return what `hpcsci results` now reports about the idea."""
    rows = {row.idea_id: row for row in read_rows(known.paths).rows}
    row, loop = rows[known.idea.idea_id], known.config.settings.loop
    return Said(row.finding, row.confirmed, loop.q, by_mean=loop.decision == "point")


def _unheld(known: RecordedIdea, found: ClaimIntegrity, more: list[str]) -> Reproduction:
    return Reproduction(
        campaign_id=known.config.campaign_id,
        idea_id=known.idea.idea_id,
        attempt=known.attempt,
        metric=found.claim.metric.name if found.claim else None,
        outcome=Holding.NOT,
        reasons=(*found.problems, *more),
        notes=tuple(found.notes),
    )


# Reproduces a claim from an idea's folder alone: copies its content to a new place, checks it for
# consistency, and runs it as its campaign did.


def reproduce_alone(
    directory: Path, wanted: RerunOptions, recipe: str, out: Path | None, tell: Tell
) -> Reproduction:
    """Reproduce a claim as `reproduce` does, from an idea's folder; see `verify_bundle`.

    `recipe` is the name or folder of the recipe that it was measured with, "" for the one in
    recipe.tar. Raises what `reproduce` raises; also UsageError if the folder cannot be used, or if
    something in it would run without a container and without `wanted.consent`.
    """
    _refuse_configuration(directory, wanted.folder)
    claim = verify_bundle.read_claim(directory)
    with tempfile.TemporaryDirectory(prefix="hpcsci-reproduce-") as temporary:
        room, notes = RunPaths(Path(temporary)), list(verify_bundle.notes(claim))
        notes += package_notes(claim.package_version, claim.package_hash)
        problems = verify_bundle.lay_out(directory, claim, recipe, room)
        found = load(room.recipe) if not problems else None
        if found is not None:
            problems += verify_bundle.differences(claim, found)
        if problems or found is None:
            return _unheld_alone(claim, problems, notes)
        own = bool(recipe) and not resolved(find(recipe)).is_relative_to(resolved(directory))
        risky = _uncontained(claim, own)
        if risky and not wanted.consent:
            raise UsageError(f"{directory}: {risky}")
        _look_at_image(claim, wanted)
        tell(f"prepare.py and score.py of recipe {claim.recipe!r} run as you do, in no container")
        said, lax = said_by(claim, wanted.settings.loop)
        notes += [lax] if lax else []
        config = config_here(config_of(claim, wanted), found, wanted)
        if isinstance(config, str):
            return _unheld_alone(claim, [config], notes)
        for note in notes:
            tell(f"note: {note}")
        place = rerun.choose_folder(RunPaths(directory), claim, out)
        verify_bundle.settle(room, claim, place)
    known = claim_integrity.recorded_of_claim(place, claim, config)
    asked = f"hpcsci reproduce {directory}" + (f" --recipe {recipe}" if recipe else "")
    asked += " --allow-unsandboxed" * bool(risky)
    again = ClaimRerun(known, claim, load(place.recipe), config, place, tell, asked=asked)
    return run(again, said, notes, alone=True)


def _refuse_configuration(directory: Path, here: Path) -> None:
    """Raise UsageError if the caller's hpcsci.toml came with a stranger's folder."""
    file = here / "hpcsci.toml"
    if resolved(here).is_relative_to(resolved(directory)) and file.exists():
        raise UsageError(
            f"{file}: came with the folder, and would be your configuration; call this from a "
            "folder of your own"
        )


def _uncontained(claim: Claim, own: bool) -> str:
    """Return what came with the folder and would run as the caller, and the fix; "" if nothing.

    `own`: the recipe did not come with the folder.
    """
    accept = "accept the risk with --allow-unsandboxed on the command line"
    if claim.isolation is Isolation.NONE:
        scripts = "" if own else ", and so would prepare.py and score.py of its recipe"
        return (
            f"was measured without a container, so its code would run as you do{scripts}; read "
            f"them, and {accept}"
        )
    if own:
        return ""
    return (
        "prepare.py and score.py of its recipe would run as you do, in no container; give your "
        f"own copy of the recipe with --recipe, or read them, and {accept}"
    )


def _look_at_image(claim: Claim, wanted: RerunOptions) -> None:
    """Raise UsageError unless a stranger's image path is a file; it is hashed only after this
    check.
    """
    if claim.isolation is Isolation.NONE or wanted.image:
        return
    image = Path(claim.image or "")
    if not image.is_absolute() or not image.is_file():
        raise UsageError(
            f"{claim.image}: there is no such image file; say with --image where the image lies now"
        )


def said_by(claim: Claim, own: LoopSettings) -> tuple[Said, str]:
    """Return what the recorded seeds show by themselves, and a note if the claim was decided laxer.

    `own` are the caller's settings: the author of a claim does not choose the level it must reach.
    """
    theirs = claim.q if claim.q is not None else LoopSettings().q
    q, by_mean = min(theirs, own.q), claim.decision == "point" == own.decision
    searched, level = claim.evidence[Split.VALIDATION], None if by_mean else q
    _, *limits = _values(claim, searched)
    verdicts = (Verdict.IMPROVEMENT, Verdict.DECLINE)
    shown = (v for v in verdicts if shows(searched.comparison, v, claim.metric, level, limits))
    said = Said(next(shown, Verdict.MAINTENANCE), _confirmed(claim, q), q, by_mean)
    point = "the point rule, by which any difference of means counts"
    held = f"the recorded seeds are held to a one-sided test at q = {q:g}"
    if by_mean:
        lax = f"claim.json was decided by {point}, and so is this, by your loop.decision"
    elif claim.decision == "point":
        lax = f"claim.json was decided by {point}; by your loop.decision {held}"
    elif theirs > own.q:
        lax = f"claim.json was decided at q = {theirs:g}, laxer than your loop.q; {held}"
    else:
        return said, ""
    tested = {None: "", True: ", confirmed on the test split", False: ", not confirmed"}
    return said, f"{lax}: they show {said.finding}{tested[said.confirmed]}"


def _confirmed(claim: Claim, q: float) -> bool | None:
    evidence = claim.evidence.get(Split.TEST)
    if evidence is None:
        return None
    decisive, *limits = _values(claim, evidence)
    return confirm(decisive.baseline, decisive.idea, decisive.metric, q, limits).confirmed


def _values(claim: Claim, evidence: Evidence) -> list[Limited]:
    """Return the recorded values of the metric that decides, and of those with a tolerance."""

    def by_seed(trials: tuple[Measured, ...], metric: MetricSpec) -> dict[int, float]:
        return {trial.seed: trial.metrics[metric.name] for trial in trials}

    return [
        Limited(metric, by_seed(evidence.baseline, metric), by_seed(evidence.idea, metric))
        for metric in (claim.metric, *claim.tolerances)
    ]


def _unheld_alone(claim: Claim, problems: Sequence[str], notes: Sequence[str]) -> Reproduction:
    return Reproduction(
        campaign_id=claim.campaign_id,
        idea_id=claim.idea_id,
        attempt=claim.attempt,
        metric=claim.metric.name,
        outcome=Holding.NOT,
        reasons=tuple(problems),
        notes=tuple(notes),
        alone=True,
    )


# Finds the claim to reproduce: an idea of a campaign, or an idea's folder on its own.


def reproduce_folder(
    directory: Path,
    idea_id: str | None,
    wanted: RerunOptions,
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
