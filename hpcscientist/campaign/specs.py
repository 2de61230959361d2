"""Which trials an attempt needs: pure functions of the frozen configuration."""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass

from hpcscientist import __version__
from hpcscientist.campaign.frozen import CampaignConfig
from hpcscientist.files.hashing import hash_file, hash_tree
from hpcscientist.files.rundir import RunPaths
from hpcscientist.recipe.load import Recipe
from hpcscientist.recipe.schema import RecipeSpec
from hpcscientist.records.idea import BASELINE_ID, Attempt, Idea
from hpcscientist.records.trial import (
    Budget,
    Limits,
    Provenance,
    Sources,
    Split,
    Stage,
    TrialSpec,
)

BASELINE_ATTEMPT = 1


def trial_seeds(campaign_seed: int, count: int) -> tuple[int, ...]:
    """Return the seeds that the baseline and every idea share, so that they can be paired.

    Derived by hashing, so that campaigns with neighbouring seeds share none.
    """
    digests = (
        hashlib.sha256(f"{campaign_seed}/search/{i}".encode()).digest() for i in range(count)
    )
    return tuple(int.from_bytes(digest[:4], "big") >> 1 for digest in digests)


def trial_limits(recipe: RecipeSpec, budget: Budget) -> Limits:
    """Return what a trial of this budget may use."""
    seconds = recipe.budgets.pilot if budget is Budget.PILOT else recipe.budgets.full
    return Limits(
        deadline_s=seconds.seconds,
        memory_mb=recipe.resources.memory_mb,
        output_mb=recipe.resources.output_mb,
        cpus=recipe.resources.cpus,
        gpus=recipe.resources.gpus,
    )


@dataclass(frozen=True, slots=True)
class SpecFactory:
    """Makes trial specs for one campaign. `recipe` is the snapshot in the run directory."""

    config: CampaignConfig
    recipe: Recipe
    paths: RunPaths

    def baseline(self) -> list[TrialSpec]:
        """The reference code at full budget, one trial a seed."""
        reference = self.recipe.folder / "reference"
        attempt = Attempt(
            idea_id=BASELINE_ID,
            number=BASELINE_ATTEMPT,
            code_hash=hash_tree(reference),
            note="the recipe's reference code",
        )
        return [
            self._spec(None, attempt, Stage.BASELINE, index, str(reference))
            for index in range(self.recipe.spec.seeds)
        ]

    def pilot(self, idea: Idea, attempt: Attempt, tokens: int = 0) -> TrialSpec:
        """One trial at the pilot budget with the first seed; `tokens`: spent on the idea so far."""
        spec = self._spec(idea, attempt, Stage.PILOT, 0, self._code(attempt))
        return spec.model_copy(update={"tokens": tokens})

    def full(self, idea: Idea, attempt: Attempt, tokens: int = 0) -> list[TrialSpec]:
        """One trial a seed at the full budget; the baseline's seeds."""
        code = self._code(attempt)
        specs = (
            self._spec(idea, attempt, Stage.SEARCH, index, code)
            for index in range(self.recipe.spec.seeds)
        )
        return [spec.model_copy(update={"tokens": tokens}) for spec in specs]

    def _code(self, attempt: Attempt) -> str:
        return str(self.paths.idea(attempt.idea_id).code(attempt.number))

    def _spec(
        self, idea: Idea | None, attempt: Attempt, stage: Stage, index: int, code: str
    ) -> TrialSpec:
        spec, config, split = self.recipe.spec, self.config, Split.VALIDATION
        budget = Budget.PILOT if stage is Stage.PILOT else Budget.FULL
        return TrialSpec(
            trial_id=f"{attempt.idea_id}-a{attempt.number}-{stage.value}-{index}",
            idea_id=attempt.idea_id,
            parent_ids=idea.proposal.parent_ids if idea else (),
            round=idea.round if idea else 0,
            attempt=attempt.number,
            stage=stage,
            seed=trial_seeds(config.settings.seed, spec.seeds)[index],
            split=split,
            budget=budget,
            metrics=spec.metrics,
            limits=trial_limits(spec, budget),
            sources=Sources(
                code=code,
                entry=spec.entry,
                data=config.views[split],
                labels=config.labels[split],
                scorer=str(self.recipe.scorer),
                scorer_hash=hash_file(self.recipe.scorer),
                predictions=spec.predictions,
                python=config.python,
                image=config.image,
            ),
            isolation=config.isolation,
            provenance=Provenance(
                campaign_id=config.campaign_id,
                package_version=__version__,
                recipe_hash=config.recipe_hash,
                data_hash=config.data_hash,
                code_hash=attempt.code_hash,
                image_hash=config.image_hash,
                model=config.model_name if idea else "",
            ),
            queued_at=time.time(),
        )
