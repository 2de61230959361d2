"""Checks that an idea's folder without its campaign is intact.

There is no journal and no result file to compare claim.json with. So it is compared with the code
beside it, the recipe in recipe.tar and its own figures. All files may be a stranger's: they are
read into memory and hashed there, and only what matches the record is copied for a rerun.
"""

from __future__ import annotations

import math
import os
import re
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final, TypeVar

from pydantic import BaseModel

from hpcscientist.campaign.specs import trial_limits
from hpcscientist.errors import RunDirectoryError, UsageError
from hpcscientist.feedback.statistics import compare
from hpcscientist.files.handed import read_regular, resolved
from hpcscientist.files.hashing import (
    hash_bytes,
    hash_file,
    hash_named,
    hash_texts,
    hash_tree,
    tree_files,
)
from hpcscientist.files.rundir import IdeaPaths, RunPaths
from hpcscientist.files.text import one_line
from hpcscientist.recipe import archive, load
from hpcscientist.recipe.archive import Packed
from hpcscientist.recipe.load import Recipe
from hpcscientist.records.findings import Claim, Comparison, Evidence, Measured
from hpcscientist.records.idea import BASELINE_ID, Idea
from hpcscientist.records.trial import Budget, Isolation, MetricSpec, Split

_LARGEST_RECORD, _LARGEST_CODE = 16 * 2**20, 64 * 2**20  # bytes
_SEEDS: Final = 2**31
_ROUNDING: Final = 1e-9
_IDEA = re.compile(r"idea-\d{1,9}")
_TRIAL = re.compile(r"[a-z0-9][a-z0-9-]{0,99}")
_SHOWN = 3

M = TypeVar("M", bound=BaseModel)


def read_claim(folder: Path) -> Claim:
    """Return an idea's claim. Raises UsageError if there is none, and RunDirectoryError."""
    try:
        return _parsed(IdeaPaths(folder).claim, Claim)
    except FileNotFoundError as error:
        if not folder.exists():
            raise UsageError(
                f"{folder}: is not there; give a run directory, or an idea's"
            ) from error
        raise UsageError(
            f"{folder}: has no claim.json, as run directories and ideas that were not scored; give "
            "a run directory with --idea ID, or the folder of a scored idea"
        ) from error


def read_idea_of(folder: Path, claim: Claim) -> Idea:
    """Return idea.json. Raises RunDirectoryError."""
    path = IdeaPaths(folder).idea
    try:
        idea = _parsed(path, Idea)
    except FileNotFoundError:
        idea = None
    if idea is None or idea.idea_id != claim.idea_id:
        raise RunDirectoryError(
            f"{path}: is missing, or of another idea than claim.json; have the folder handed on "
            "anew"
        )
    return idea


def read_archive(path: Path, recipe_hash: str) -> Packed | str:
    """Return the content of recipe.tar, or why it is not the recorded recipe."""
    try:
        found = archive.read(_read(path, archive.LIMIT))
    except (OSError, ValueError) as error:
        return f"{path} cannot be read: {one_line(str(error))}"
    if isinstance(found, str):
        return f"{path} {found}"
    if found.recipe_hash != recipe_hash:
        return f"{path} is not the recipe that was recorded, its hash is another"
    return found


def lay_out(folder: Path, claim: Claim, recipe: str, room: RunPaths) -> list[str]:
    """Copy recipe, code and idea.json into an empty folder with the layout of a run directory.

    `recipe` is the name or folder of a recipe to use instead of recipe.tar. Returns the problems
    that forbid a rerun; the copy is then incomplete. Raises UsageError if the recipe must be given
    differently, RecipeError and RunDirectoryError.
    """
    problems = list(_inner(claim))
    if problems:
        return problems
    idea = read_idea_of(folder, claim)
    try:
        problems = [*_recipe(folder, claim, recipe, room), *_code(folder, claim, room)]
        room.idea(claim.idea_id).idea.write_text(idea.model_dump_json(), encoding="utf-8")
    except OSError as error:
        raise RunDirectoryError(
            f"{error.filename or folder}: cannot be copied: {error.strerror or error}; fix that"
        ) from error
    return problems


def settle(room: RunPaths, claim: Claim, place: RunPaths) -> None:
    """Copy the laid-out files into the folder of the rerun, unless they are already there.

    Raises UsageError if something else is there, and RunDirectoryError.
    """
    made, wanted = room.idea(claim.idea_id), place.idea(claim.idea_id)
    try:
        for source, target in ((room.recipe, place.recipe), (made.root, wanted.root)):
            if not target.exists():
                _copy(source, target)
            elif hash_tree(target) != hash_tree(source):
                raise UsageError(f"--out {place.root}: {target} was changed; give another")
    except OSError as error:
        raise RunDirectoryError(
            f"{error.filename}: cannot be written: {error.strerror}; give --out DIR"
        ) from error


def differences(claim: Claim, recipe: Recipe) -> Iterator[str]:
    """Yield where claim.json contradicts the recipe that it was measured with."""
    spec = recipe.spec
    wanted = {
        "recipe": spec.name,
        "reference_hash": hash_texts(recipe.reference),
        "scorer_hash": hash_file(recipe.scorer),
        "entry": spec.entry,
        "predictions": spec.predictions,
        "budget": Budget.FULL,
        "limits": trial_limits(spec, Budget.FULL),
        "metric": spec.primary,
        "tolerances": spec.objective.tolerances,
    }
    for name, theirs in wanted.items():
        if getattr(claim, name) != theirs:
            yield f"claim.json: {name} is {getattr(claim, name)}, {theirs} by the recipe"
    names = {metric.name for metric in spec.metrics}
    for trial in _trials(claim):
        if trial.metrics.keys() != names:
            yield f"claim.json: {trial.trial_id} does not have the recipe's metrics"


def notes(claim: Claim) -> Iterator[str]:
    """Yield what could not be checked: part of every verdict on a folder without its campaign."""
    yield (
        "the campaign is not here: no journal and no result file could be held against claim.json, "
        "which alone says with which seeds, on what and how often it was measured"
    )
    yield (
        "what the campaign found takes all its ideas together and is not known here; the rerun is "
        "held to what these seeds show by themselves"
    )
    if claim.q is None:
        yield "claim.json (of an earlier version) does not say at which level; the default is taken"
    # The interpreter of one environment has several names.
    elsewhere = Path(claim.python).parent != Path(sys.executable).parent
    if claim.isolation is Isolation.NONE and elsewhere:
        yield f"recorded with {claim.python}; {sys.executable} runs the trials"


def _inner(claim: Claim) -> Iterator[str]:
    """Yield where claim.json contradicts itself, or holds an invalid name."""
    if not _IDEA.fullmatch(claim.idea_id):
        yield "claim.json: idea_id is no idea's id"
    if claim.attempt < 1 or claim.code != f"attempts/{claim.attempt}/code":
        yield "claim.json: code is not the folder of its attempt's code"
    if Split.VALIDATION not in claim.evidence:
        yield "claim.json: has no trials on the validation split"
    ids = [trial.trial_id for trial in _trials(claim)]
    if len(ids) != len(set(ids)):
        yield "claim.json: names a trial twice"
    for split, evidence in claim.evidence.items():
        sides = ((claim.idea_id, evidence.idea), (BASELINE_ID, evidence.baseline))
        for owner, trials in sides:
            for trial in trials:
                name = trial.trial_id
                if not _TRIAL.fullmatch(name) or not name.startswith(f"{owner}-"):
                    yield f"claim.json: {name!r} is no trial of {owner}"
        if why := _unsound(evidence, claim.metric):
            yield f"claim.json: {why} on the {split.value} split"


def _unsound(evidence: Evidence, metric: MetricSpec) -> str | None:
    """Return what is wrong with the trials or the comparison of an evidence; None if nothing."""
    by_seed = [{t.seed: t for t in side} for side in (evidence.baseline, evidence.idea)]
    seeds = [[t.seed for t in side] for side in (evidence.baseline, evidence.idea)]
    if not seeds[0] or seeds[0] != seeds[1] or seeds[0] != sorted(by_seed[0]):
        return "idea and baseline do not have the same seeds, each once and in order,"
    if not all(0 <= seed < _SEEDS for seed in seeds[0]):
        return "a seed is none"
    trials = (*evidence.baseline, *evidence.idea)
    if not all(math.isfinite(v) for trial in trials for v in trial.metrics.values()):
        return "a value is no number"
    if not all(metric.name in trial.metrics for trial in trials):
        return f"a trial has no {metric.name}"
    told = compare(*({s: t.metrics[metric.name] for s, t in side.items()} for side in by_seed))
    follows = _alike(told, evidence.comparison)
    return None if follows else "its comparison does not follow from its values"


def _alike(one: Comparison, other: Comparison) -> bool:
    """Return whether two comparisons are the same, up to another machine's rounding."""
    ours, theirs = one.model_dump(), other.model_dump()
    near = _ROUNDING * max(abs(one.mean), abs(one.baseline_mean))
    return all(
        math.isclose(value, theirs[name], rel_tol=_ROUNDING, abs_tol=near)
        if isinstance(value, float) and isinstance(theirs[name], float)
        else value == theirs[name]
        for name, value in ours.items()
    )


def _trials(claim: Claim) -> Iterator[Measured]:
    for evidence in claim.evidence.values():
        yield from (*evidence.baseline, *evidence.idea)


def _recipe(folder: Path, claim: Claim, given: str, room: RunPaths) -> Iterator[str]:
    if given:
        _given_recipe(given, claim, room.recipe)
        return
    path = IdeaPaths(folder).recipe
    if not path.exists():
        raise UsageError(
            f"{path}: is missing (earlier versions wrote none, and recipes larger than "
            f"{archive.LIMIT // 2**20} MB are not packed); give the recipe as it was at launch "
            "with --recipe, such as the recipe/ of its campaign"
        )
    packed = read_archive(path, claim.recipe_hash)
    if isinstance(packed, str):
        yield packed
        return
    if packed.lacking:
        names = ", ".join(packed.lacking[:_SHOWN])
        more = f" and {len(packed.lacking) - _SHOWN} more" if len(packed.lacking) > _SHOWN else ""
        raise UsageError(
            f"{path}: leaves out {names}{more}, which may be data that prepare.py or score.py "
            "reads; give the whole recipe with --recipe"
        )
    packed.write(room.recipe)


def _given_recipe(given: str, claim: Claim, target: Path) -> None:
    origin = load.find(given)
    load.copy(origin, target)
    if hash_tree(target) != claim.recipe_hash:
        raise UsageError(
            f"--recipe {origin}: is not the recipe that was recorded, its hash is another; give it "
            "as it was at launch"
        )


def _code(folder: Path, claim: Claim, room: RunPaths) -> Iterator[str]:
    code = folder / claim.code
    target = room.idea(claim.idea_id).code(claim.attempt)
    target.mkdir(parents=True)
    if not code.is_dir():
        yield f"{code} is gone"
        return
    if resolved(code) != resolved(folder) / claim.code:  # do not read the link's target
        yield f"{code} is a link, and leads elsewhere"
        return
    paths = tree_files(code)
    if sum(path.stat().st_size for path in paths) > _LARGEST_CODE:
        yield f"{code} is larger than code is"
        return
    contents = {path.relative_to(code).as_posix(): read_regular(path) for path in paths}
    hashes = {name: hash_bytes(content) for name, content in contents.items()}
    if hash_named(hashes) != claim.code_hash:
        yield f"{code} is not the code that was measured, by the hash in claim.json"
        return
    for name, content in contents.items():
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        (target / name).write_bytes(content)


def _copy(source: Path, target: Path) -> None:
    """Copy a folder so that it appears whole or not at all."""
    target.parent.mkdir(exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        shutil.copytree(source, partial, dirs_exist_ok=True)
        partial.chmod(0o755)
        partial.rename(target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _parsed(path: Path, record: type[M]) -> M:
    """Read a stranger's record. Raises FileNotFoundError and RunDirectoryError."""
    try:
        return record.model_validate_json(_read(path, _LARGEST_RECORD))
    except FileNotFoundError:
        raise
    except NotADirectoryError as error:  # a file was given instead of a folder
        raise FileNotFoundError(*error.args) from error
    except (OSError, ValueError) as error:
        raise RunDirectoryError(
            f"{path}: cannot be read: {one_line(str(error))}; have the folder handed on anew"
        ) from error


def _read(path: Path, most: int) -> bytes:
    """Read a stranger's regular file. Raises OSError, and ValueError if it is not one."""
    # Do not follow a link, and do not wait for a writer to a FIFO.
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_size > most:
            raise ValueError(f"no plain file, or larger than {most} bytes")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read(most)
    finally:
        os.close(descriptor)
