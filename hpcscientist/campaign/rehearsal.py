"""Running a recipe's reference code once, to see whether it runs: `hpcsci recipe check --run`."""

from __future__ import annotations

import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from hpcscientist import __version__
from hpcscientist.campaign.specs import trial_limits
from hpcscientist.config.layers import default_data_root, default_private_root
from hpcscientist.config.settings import Settings
from hpcscientist.execution import isolation, trial
from hpcscientist.files.atomic import read_tail
from hpcscientist.files.hashing import hash_file, hash_tree
from hpcscientist.files.rundir import TrialPaths
from hpcscientist.recipe import data
from hpcscientist.recipe.load import Recipe
from hpcscientist.records.idea import BASELINE_ID
from hpcscientist.records.trial import (
    Budget,
    Provenance,
    Sources,
    Split,
    Stage,
    TrialReport,
    TrialSpec,
)

LOG_TAIL = 8 * 1024


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """The report of the one trial, and the end of its log."""

    report: TrialReport
    log: str


def rehearse(recipe: Recipe, settings: Settings) -> Rehearsal:
    """Prepare the data and run the reference at the pilot budget in a temporary folder."""
    prepared = data.prepare(recipe, default_data_root(settings), default_private_root(settings))
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
            budget=Budget.PILOT,
            metrics=recipe.spec.metrics,
            limits=trial_limits(recipe.spec, Budget.PILOT),
            sources=Sources(
                code=str(reference),
                entry=recipe.spec.entry,
                data=str(prepared.views[Split.VALIDATION]),
                labels=str(prepared.labels[Split.VALIDATION]),
                scorer=str(recipe.scorer),
                scorer_hash=hash_file(recipe.scorer),
                predictions=recipe.spec.predictions,
                python=sys.executable,
                image=recipe.image,
            ),
            isolation=isolation.choose(recipe.image),
            provenance=Provenance(
                campaign_id="rehearsal",
                package_version=__version__,
                recipe_hash=recipe.recipe_hash,
                data_hash=prepared.data_hash,
                code_hash=hash_tree(reference),
                model="",
            ),
            queued_at=time.time(),
        )
        paths.spec.write_text(spec.model_dump_json())
        report = trial.run(spec, paths)
        return Rehearsal(report=report, log=read_tail(paths.log, LOG_TAIL))
