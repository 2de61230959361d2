"""A campaign's rules, from its frozen configuration and from who takes part in it."""

from __future__ import annotations

from hpcscientist.authoring.tree import Bounds
from hpcscientist.campaign.minds import Minds
from hpcscientist.conduct.reference import is_piloted
from hpcscientist.conduct.rules import Confirmation, Judging, Proposing, Rules
from hpcscientist.conduct.strategy.measuring import Measuring
from hpcscientist.conduct.strategy.strategies import Strategies
from hpcscientist.config.extent import Extent
from hpcscientist.config.settings import Settings
from hpcscientist.feedback.effort import most_seeds, schedule_of, steps_of
from hpcscientist.history.frozen import CampaignConfig
from hpcscientist.judgement import judging
from hpcscientist.recipe.load import Recipe
from hpcscientist.recipe.schema import RecipeSpec


def rules_of(config: CampaignConfig, recipe: Recipe, minds: Minds) -> Rules:
    """Return the rules of a campaign."""
    settings, spec = config.settings, recipe.spec
    loop, budgets = settings.loop, steps_of(settings.loop, spec.budgets)
    most, schedule = most_seeds(loop, spec.seeds), schedule_of(loop, spec.seeds)
    measuring = Measuring(min(spec.seeds, most), len(budgets), schedule)
    return Rules(
        extent=_extent(config, minds),
        settings=settings,
        metric=spec.primary,
        published=spec.published.value if spec.published else None,
        judging=Judging(
            hopeless=settings.authoring.hopeless,
            piloted=is_piloted(settings, config.steps),
            catches_nothing_done=minds.model is not None,
        ),
        proposing=Proposing(
            in_order=minds.proposer.by_outcomes,
            follows=settings.proposing.mode == "follow-up",
            batch=settings.proposing.batch if minds.helpers.finder is not None else 1,
        ),
        confirmation=_confirmation(settings),
        strategies=_strategies(settings, spec, minds, measuring),
        budgets=tuple(step.name for step in budgets),
        schedule=schedule,
        seeds=most,
        retries=loop.machine_retries,
        pause_s=loop.machine_pause_s,
        compact_after=loop.compact_after,
    )


def _extent(config: CampaignConfig, minds: Minds) -> Extent:
    settings = config.settings
    return Extent(
        ideas=settings.ideas,
        rounds=settings.rounds,
        in_flight=config.in_flight,
        lag=config.lag,
        model_name=config.model_name,
        seed=settings.seed,
        control=settings.control if minds.control is not None else 0.0,
    )


def _confirmation(settings: Settings) -> Confirmation:
    rule = judging.rule_of(settings)
    final = rule.decision == "fdr" and rule.control == "online"
    return Confirmation(enabled=settings.loop.confirm, early=final)


def _strategies(
    settings: Settings, spec: RecipeSpec, minds: Minds, measuring: Measuring
) -> Strategies:
    authoring = settings.authoring
    bounds = Bounds(
        drafts=authoring.drafts,
        nodes=authoring.nodes,
        workers=authoring.workers,
        debug_share=authoring.debug_share,
        debug_depth=authoring.debug_depth,
        direction=spec.primary.direction,
    )
    return Strategies(
        bounds=bounds if authoring.search == "tree" else None,
        seed=settings.seed,
        debug_rounds=settings.loop.debug_rounds,
        advice_rounds=authoring.advice_rounds,
        further_runs=authoring.further_runs,
        advised=minds.crew.advisor is not None,
        analysed=minds.crew.analyst is not None,
        measuring=measuring,
    )
