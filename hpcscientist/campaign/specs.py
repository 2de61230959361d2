"""Builds the trial specs of a campaign from its frozen configuration. Nothing here runs a trial."""

from __future__ import annotations

import hashlib
import itertools
import time
from dataclasses import dataclass

from hpcscientist import __version__
from hpcscientist.campaign.strategies import strategy_of
from hpcscientist.feedback.effort import most_seeds, steps_of
from hpcscientist.files import vault
from hpcscientist.files.hashing import package_hash
from hpcscientist.files.rundir import RunPaths
from hpcscientist.history.frozen import CampaignConfig
from hpcscientist.recipe.checks.files import REFERENCE
from hpcscientist.recipe.load import Recipe
from hpcscientist.recipe.schema import RecipeSpec, StepSpec
from hpcscientist.records.idea import BASELINE_ATTEMPT, BASELINE_ID, Attempt, Idea
from hpcscientist.records.trial import (
    Budget,
    Limits,
    Provenance,
    Sources,
    Split,
    Stage,
    StepName,
    TrialSpec,
    trial_name,
)


def trial_seeds(campaign_seed: int, count: int) -> tuple[int, ...]:
    """Return the seeds that the baseline and every idea share, so that their trials can be paired.

    They are hashes, so campaigns with neighbouring seeds share none.
    """
    return tuple(_seed(f"{campaign_seed}/search/{i}") for i in range(count))


def fresh_seeds(campaign_seed: int, count: int, searched: int) -> tuple[int, ...]:
    """Return the seeds that confirmations share, none of them among the first `searched` of the
    search. They are hashes too, and depend on nothing that was measured.
    """
    used = set(trial_seeds(campaign_seed, searched))
    fresh: list[int] = []
    for index in itertools.count():
        if len(fresh) == count:
            break
        seed = _seed(f"{campaign_seed}/confirm/{index}")
        if seed not in used:
            used.add(seed)
            fresh.append(seed)
    return tuple(fresh)


def _seed(name: str) -> int:
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big") >> 1


def trial_limits(recipe: RecipeSpec, budget: str) -> Limits:
    """Return a trial's limits at this budget. Raises KeyError if the recipe has no such budget."""
    return Limits(
        deadline_s=recipe.budgets.seconds(budget),
        memory_mb=recipe.resources.memory_mb,
        output_mb=recipe.resources.output_mb,
        cpus=recipe.resources.cpus,
        gpus=recipe.resources.gpus,
        gpu_type=recipe.resources.gpu_type,
        scorer_s=recipe.scorer.seconds,
        scorer_mb=recipe.scorer.memory_mb,
    )


@dataclass(frozen=True, slots=True)
class SpecFactory:
    """Makes trial specs for one campaign. `recipe` is the one at launch."""

    config: CampaignConfig
    recipe: Recipe
    paths: RunPaths

    def baseline(self) -> list[TrialSpec]:
        """Return the baseline at full budget: one trial for each seed that an idea may get."""
        most = most_seeds(self.config.settings.loop, self.recipe.spec.seeds)
        return [self._reference(Stage.BASELINE, index) for index in range(most)]

    def baseline_pilot(self) -> TrialSpec:
        """Return the baseline at the pilot budget: ideas' pilots, with the same seed, are compared
        with it.
        """
        return self._reference(Stage.PILOT, 0, self._pilot_seed())

    def reference(self, stage: Stage, index: int, number: int = BASELINE_ATTEMPT) -> TrialSpec:
        """Return one baseline trial on validation; `number`: its attempt, above 1 for a rerun."""
        of_pilots = stage in (Stage.PILOT, Stage.STEP)
        return self._reference(stage, index, self._pilot_seed() if of_pilots else None, number)

    def _reference(
        self, stage: Stage, index: int, seed: int | None = None, number: int = BASELINE_ATTEMPT
    ) -> TrialSpec:
        reference = self.recipe.folder / REFERENCE
        attempt = Attempt(
            idea_id=BASELINE_ID,
            number=number,
            code_hash=self.recipe.reference_hash,
            note="the recipe's reference code",
        )
        return self._spec(None, attempt, stage, index, vault.told(reference), seed)

    def pilot(self, idea: Idea, attempt: Attempt, tokens: int = 0) -> TrialSpec:
        """Return an attempt's trial at the pilot budget; `tokens`: spent on the idea so far."""
        code = self._code(attempt)
        spec = self._spec(idea, attempt, Stage.PILOT, 0, code, self._pilot_seed())
        return spec.model_copy(update={"tokens": tokens})

    @property
    def steps(self) -> tuple[StepSpec, ...]:
        """The budgets between pilot and full that ideas climb, the smallest first."""
        return steps_of(self.config.settings.loop, self.recipe.spec.budgets)

    def step(self, idea: Idea, attempt: Attempt, index: int, tokens: int = 0) -> TrialSpec:
        """Return an attempt's trial at step `index`, counted from 0, with the seed of pilots."""
        code = self._code(attempt)
        spec = self._spec(idea, attempt, Stage.STEP, index, code, self._pilot_seed())
        return spec.model_copy(update={"tokens": tokens})

    def _pilot_seed(self) -> int:
        """Return the seed of pilots: the first seed of the search, unless pilots pick versions.

        A tree search picks its best version by pilots, so its pilots have a seed of their own: a
        value that was selected for being good may not be among the tested values.
        """
        settings = self.config.settings
        if strategy_of(settings).picks_by_pilots:
            return _seed(f"{settings.seed}/pilot")
        return trial_seeds(settings.seed, 1)[0]

    def full(
        self, idea: Idea, attempt: Attempt, tokens: int = 0, which: range | None = None
    ) -> list[TrialSpec]:
        """Return an attempt's trials at the full budget, one for each seed.

        `which` selects from the baseline's seeds; None: as many as the recipe has, but no more
        than an idea may get.
        """
        code, own = self._code(attempt), self.recipe.spec.seeds
        if which is None:
            which = range(min(own, most_seeds(self.config.settings.loop, own)))
        specs = (self._spec(idea, attempt, Stage.SEEDS, index, code) for index in which)
        return [spec.model_copy(update={"tokens": tokens}) for spec in specs]

    def fresh_seeds(self) -> tuple[int, ...]:
        """Return the seeds of confirmations: `loop.confirm_seeds`, else the recipe's number."""
        loop, own = self.config.settings.loop, self.recipe.spec.seeds
        searched = max(2 * own, loop.seeds_at_most)
        return fresh_seeds(self.config.settings.seed, loop.confirm_seeds or own, searched)

    def confirm(
        self, idea: Idea, attempt: Attempt, index: int, seed: int, tokens: int = 0
    ) -> TrialSpec:
        """Return an attempt's trial with a fresh seed at the full budget on the test split."""
        spec = self._spec(idea, attempt, Stage.CONFIRM, index, self._code(attempt), seed)
        return spec.model_copy(update={"tokens": tokens})

    def confirm_baseline(self, index: int, seed: int) -> TrialSpec:
        """Return the baseline's trial that confirmations with this seed are compared with."""
        return self._reference(Stage.CONFIRM, index, seed)

    def _budget(self, stage: Stage, index: int) -> Budget | StepName:
        if stage is Stage.STEP:
            return self.steps[index].name
        return Budget.PILOT if stage is Stage.PILOT else Budget.FULL

    def _code(self, attempt: Attempt) -> str:
        return str(self.paths.idea(attempt.idea_id).code(attempt.number))

    def _spec(
        self,
        idea: Idea | None,
        attempt: Attempt,
        stage: Stage,
        index: int,
        code: str,
        seed: int | None = None,
    ) -> TrialSpec:
        """Return a trial's spec; `seed` None: the search's shared seed of this index."""
        spec, config = self.recipe.spec, self.config
        split = Split.TEST if stage is Stage.CONFIRM else Split.VALIDATION
        budget = self._budget(stage, index)
        if seed is None:
            seed = trial_seeds(config.settings.seed, index + 1)[index]
        return TrialSpec(
            trial_id=trial_name(attempt.idea_id, attempt.number, stage, index),
            idea_id=attempt.idea_id,
            parent_ids=idea.proposal.parent_ids if idea else (),
            round=idea.round if idea else 0,
            attempt=attempt.number,
            stage=stage,
            seed=seed,
            split=split,
            budget=budget,
            metrics=spec.metrics,
            limits=trial_limits(spec, budget),
            sources=Sources(
                code=code,
                entry=spec.entry,
                data=config.views[split],
                labels=config.labels[split],
                scorer=vault.told(self.recipe.scorer),
                scorer_hash=self.recipe.scorer_hash,
                predictions=spec.predictions,
                python=config.python,
                image=config.image,
                processes=spec.processes,
            ),
            isolation=config.isolation,
            host=config.site.host,
            provenance=Provenance(
                campaign_id=config.campaign_id,
                package_version=__version__,
                package_hash=package_hash(),
                recipe_hash=config.recipe_hash,
                data_hash=config.data_hash,
                code_hash=attempt.code_hash,
                image_hash=config.image_hash,
                model=idea.model if idea else "",
            ),
            queued_at=time.time(),
        )
