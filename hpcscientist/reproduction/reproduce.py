"""Reproducing a claim, top to bottom: is it whole, then run it again, then does it hold.

Of a claim in its campaign, or of an idea's folder alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hpcscientist.errors import RunDirectoryError
from hpcscientist.execution.sandbox import isolation
from hpcscientist.files.atomic import write_text
from hpcscientist.files.rundir import RunPaths
from hpcscientist.judgement.summary import read_rows
from hpcscientist.ports.telling import Tell
from hpcscientist.records.findings import Holding, Reproduction
from hpcscientist.reproduction import folder, recorded
from hpcscientist.reproduction.claim_integrity import Wholeness, examine
from hpcscientist.reproduction.environment import Wanted, config_here
from hpcscientist.reproduction.judge import Said, judge
from hpcscientist.reproduction.recorded import Recorded
from hpcscientist.reproduction.rerun import Again


def reproduce(
    paths: RunPaths,
    idea_id: str,
    wanted: Wanted,
    out: Path | None,
    tell: Tell,
    beside: Sequence[RunPaths] = (),
) -> Reproduction:
    """Run a scored idea's trials again and say whether what was recorded of it holds.

    The test split is among them only where it was spent for this idea. Nothing of the campaign is
    changed; a driver may run meanwhile. Where what was recorded is not whole, nothing is run.
    `beside` are the folders of reruns of the campaign's other claims: what they ran of the
    baseline is not run once more.

    Raises UsageError (unknown idea, no image, no backend), Interrupted, MachineTrouble and other
    HpcsciErrors where it cannot be told.
    """
    known = recorded.read(paths, idea_id)
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
    place = folder.choose(paths, found.claim, out)
    again = Again(known, found.claim, found.recipe, config, place, tell, beside, asked)
    return run(again, said, found.notes)


def run(again: Again, said: Said, notes: Sequence[str], alone: bool = False) -> Reproduction:
    """Run the trials, judge them, and write down what came of it.

    Raises Interrupted, MachineTrouble and RunDirectoryError.
    """
    claim, place, config = again.claim, again.paths, again.config
    again.tell(isolation.statement(config.isolation, config.site.host))
    again.tell(f"running {claim.idea_id}'s trials and the baseline's again in {place.root}")
    held = judge(claim, said, again.run(), tuple(notes))
    held = held.model_copy(update={"folder": str(place.root), "alone": alone})
    try:
        write_text(place.root / folder.OUTCOME, held.model_dump_json(indent=2) + "\n")
    except OSError as error:
        raise RunDirectoryError(f"{error.filename}: {error.strerror}; give --out DIR") from error
    return held


def _said(known: Recorded) -> Said:
    """What `hpcsci results` says of the idea now."""
    rows = {row.idea_id: row for row in read_rows(known.paths).rows}
    row, loop = rows[known.idea.idea_id], known.config.settings.loop
    return Said(row.finding, row.confirmed, loop.q, by_mean=loop.decision == "point")


def _unheld(known: Recorded, found: Wholeness, more: list[str]) -> Reproduction:
    return Reproduction(
        campaign_id=known.config.campaign_id,
        idea_id=known.idea.idea_id,
        attempt=known.attempt,
        metric=found.claim.metric.name if found.claim else None,
        outcome=Holding.NOT,
        reasons=(*found.problems, *more),
        notes=tuple(found.notes),
    )
