"""Runs a recipe's reference code once to test the recipe: `hpcsci recipe check --run`."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hpcscientist import __version__
from hpcscientist.campaign.specs import trial_limits
from hpcscientist.config.layers import load_site
from hpcscientist.config.settings import Settings
from hpcscientist.execution import trial
from hpcscientist.files.atomic import read_tail
from hpcscientist.files.hashing import hash_file, hash_tree, package_hash
from hpcscientist.files.rundir import TrialPaths
from hpcscientist.launching.sites.choosing import image_of
from hpcscientist.launching.sites.machine import ThisMachine
from hpcscientist.recipe import data
from hpcscientist.recipe.load import Recipe
from hpcscientist.records.idea import BASELINE_ID
from hpcscientist.records.trial import (
    Budget,
    Provenance,
    Sources,
    Split,
    Stage,
    StepName,
    TrialReport,
    TrialSpec,
)

LOG_TAIL = 8 * 1024


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """The report of one trial, with its budget and the end of its log."""

    budget: str
    report: TrialReport
    log: str


def rehearse(recipe: Recipe, settings: Settings, full: bool = False) -> Iterator[Rehearsal]:
    """Prepare the data and run the reference at each budget; at the full budget only if `full`.

    Each trial runs in a temporary folder, when the iterator reaches it.
    """
    here = ThisMachine("a recipe is tried here", load_site(settings.site, Path.cwd()))
    prepared = here.home(settings).prepare(recipe)
    image = image_of(settings, recipe, Path.cwd())
    steps = [step.name for step in recipe.spec.budgets.steps]
    for budget in (Budget.PILOT, *steps, *([Budget.FULL] if full else [])):
        yield _run(recipe, settings, here, prepared, image, budget)


def _run(
    recipe: Recipe,
    settings: Settings,
    here: ThisMachine,
    prepared: data.PreparedData,
    image: str | None,
    budget: Budget | StepName,
) -> Rehearsal:
    reference = recipe.folder / "reference"
    with tempfile.TemporaryDirectory(prefix="hpcsci-check-") as folder:
        paths = TrialPaths(Path(folder))
        paths.out.mkdir()
        spec = TrialSpec(
            trial_id="rehearsal",
            idea_id=BASELINE_ID,
            round=0,
            attempt=1,
            stage=Stage.BASELINE,
            seed=settings.seed,
            split=Split.VALIDATION,
            budget=budget,
            metrics=recipe.spec.metrics,
            limits=trial_limits(recipe.spec, budget),
            sources=Sources(
                code=str(reference),
                entry=recipe.spec.entry,
                data=str(prepared.views[Split.VALIDATION]),
                labels=str(prepared.labels[Split.VALIDATION]),
                scorer=str(recipe.scorer),
                scorer_hash=hash_file(recipe.scorer),
                predictions=recipe.spec.predictions,
                python=here.home(settings).python,
                image=image,
                processes=recipe.spec.processes,
            ),
            isolation=here.isolation(image),
            host=here.profile.host,
            provenance=Provenance(
                campaign_id="rehearsal",
                package_version=__version__,
                package_hash=package_hash(),
                recipe_hash=recipe.recipe_hash,
                data_hash=prepared.data_hash,
                code_hash=hash_tree(reference),
                model="",
            ),
            queued_at=time.time(),
        )
        paths.spec.write_text(spec.model_dump_json())
        report = trial.run(spec, paths)
        return Rehearsal(budget=budget, report=report, log=read_tail(paths.log, LOG_TAIL))
