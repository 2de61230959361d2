"""A claim with which somebody tampered, in a copy of its campaign, and what is said of it there.

A copy lies in `tampered-IDEA-KIND/`, so that one that was left behind is never taken for another,
and is removed when the verdict is written to `tampered.json`, at the latest by the next command.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.campaigns.tampering import KINDS, Inapplicable, copy_campaign
from benchmarks.campaigns.verdicts import Tampered, kept
from hpcscientist.errors import RunDirectoryError
from hpcscientist.execution import folders
from hpcscientist.files.atomic import write_text
from hpcscientist.files.rundir import RunPaths
from hpcscientist.history import frozen
from hpcscientist.ports import Tell
from hpcscientist.records.findings import Holding, Reproduction
from hpcscientist.reproduction import claim_integrity, rerun
from hpcscientist.reproduction.claim_integrity import examine
from hpcscientist.reproduction.environment import RerunOptions
from hpcscientist.reproduction.reproduce import reproduce


def tampered(
    paths: RunPaths,
    idea_id: str,
    kinds: Sequence[str],
    place: Path,
    wanted: RerunOptions,
    tell: Tell,
) -> Tampered:
    """Tamper with a claim in a copy and reproduce it there, or read what came of it before.

    Of `kinds` the first is taken that can be applied. Raises what `reproduce` raises, and
    RunDirectoryError where a copy that was left half made cannot be removed.
    """
    verdict = place / "tampered.json"
    told = kept(verdict, Tampered, paths)
    if told is None:
        told = _try(paths, idea_id, kinds, place, wanted, tell)
        write_text(verdict, told.model_dump_json(indent=2) + "\n")
    for leftover in sorted(place.glob("tampered*")):
        if leftover.is_dir():
            try:
                folders.remove(leftover)
            except OSError as error:  # the verdict is there all the same
                tell(f"{error.filename}: cannot be removed: {error.strerror}; remove {leftover}")
    tell(f"{_name(paths, told.idea_id)}: {'' if told.caught else 'NOT '}caught: {told.kind}")
    return told


def _try(
    paths: RunPaths,
    idea_id: str,
    kinds: Sequence[str],
    place: Path,
    wanted: RerunOptions,
    tell: Tell,
) -> Tampered:
    campaign_id = frozen.read(paths).campaign_id
    passed_over: list[str] = []
    for kind in kinds:
        root = place / f"tampered-{idea_id}-{kind.replace(' ', '-')}"
        spoilt, out, caught = RunPaths(root / "run"), root / "again", False
        try:
            problems = _spoil(paths, idea_id, kind, spoilt)
        except Inapplicable as error:
            tell(f"{_name(paths, idea_id)}: cannot be tampered with: {kind}: {error}")
            passed_over.append(f"{kind}: {error}")
            continue
        tell(f"{_name(paths, idea_id)}: reproducing it, tampered with: {kind}")
        if not problems:
            found = kept(out / rerun.OUTCOME, Reproduction, paths)
            found = found or reproduce(spoilt, idea_id, wanted, out, lambda text: None)
            caught, problems = found.outcome is Holding.NOT, found.reasons
        return Tampered(
            campaign_id=campaign_id,
            idea_id=idea_id,
            kind=kind,
            caught=caught,
            reasons=problems,
            passed_over=tuple(passed_over),
        )
    return Tampered(
        campaign_id=campaign_id,
        idea_id=idea_id,
        kind=kinds[0],
        caught=False,
        reasons=("no kind of tampering could be applied",),
        passed_over=tuple(passed_over),
    )


def _spoil(paths: RunPaths, idea_id: str, kind: str, done: RunPaths) -> tuple[str, ...]:
    """Make `done`, a copy that was tampered with, at once; or say why the copy itself is broken.

    A copy in which something is wrong before would be caught whatever is done to it. Raises
    Inapplicable.
    """
    if done.root.exists():
        return ()
    partial = done.root.with_name("partial")
    _remove(partial)
    copied = copy_campaign(paths, partial)
    whole = examine(claim_integrity.read_recorded(copied, idea_id))
    if whole.problems or whole.claim is None:
        return tuple(f"before anything was changed: {text}" for text in whole.problems)
    try:
        KINDS[kind](copied, whole.claim)
    except Inapplicable:
        _remove(partial)
        raise
    partial.rename(done.root)
    return ()


def _remove(partial: Path) -> None:
    try:
        folders.remove(partial)
    except OSError as error:
        raise RunDirectoryError(
            f"{error.filename}: cannot be removed: {error.strerror}; remove {partial}, and give "
            "the same command again"
        ) from error


def _name(paths: RunPaths, idea_id: str) -> str:
    return f"{paths.root.name}/{idea_id}"
