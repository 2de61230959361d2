"""Derives a campaign's rules from its frozen configuration and its agents."""

from __future__ import annotations

from hpcscientist.authoring.review.advisor import ADVISE
from hpcscientist.authoring.run_reading import ANALYSE
from hpcscientist.campaign.agents import Agents
from hpcscientist.campaign.strategies import strategy_of
from hpcscientist.conduct.reference import is_piloted
from hpcscientist.conduct.rules import ConfirmationRules, Judging, Proposing, Rules
from hpcscientist.conduct.strategy.strategy import Strategies
from hpcscientist.conduct.strategy.strategy_replay import Measuring
from hpcscientist.config.extent import Extent
from hpcscientist.config.settings import Settings
from hpcscientist.feedback.effort import most_seeds, schedule_of, steps_of
from hpcscientist.history.frozen import CampaignConfig
from hpcscientist.ideation.directions import DIRECTIONS
from hpcscientist.judgement.findings import rule_of
from hpcscientist.recipe.load import Recipe
from hpcscientist.recipe.schema import RecipeSpec


def rules_of(config: CampaignConfig, recipe: Recipe, agents: Agents) -> Rules:
    """Return the rules of a campaign."""
    settings, spec = config.settings, recipe.spec
    loop, budgets = settings.loop, steps_of(settings.loop, spec.budgets)
    most, schedule = most_seeds(loop, spec.seeds), schedule_of(loop, spec.seeds)
    measuring = Measuring(min(spec.seeds, most), len(budgets), schedule)
    return Rules(
        extent=_extent(config, agents),
        settings=settings,
        objective=spec.objective,
        published=spec.published.value if spec.published else None,
        judging=Judging(
            hopeless=settings.authoring.hopeless,
            piloted=is_piloted(settings, config.steps, spec.objective),
            catches_nothing_done=agents.model is not None,
        ),
        proposing=Proposing(
            in_order=agents.proposer.by_outcomes,
            follows=settings.proposing.mode == "follow-up",
            batch=settings.proposing.batch if agents.stages.get(DIRECTIONS) is not None else 1,
        ),
        confirmation=_confirmation(settings, spec),
        strategies=_strategies(settings, spec, agents, measuring),
        budgets=tuple(step.name for step in budgets),
        schedule=schedule,
        seeds=most,
        retries=loop.machine_retries,
        pause_s=loop.machine_pause_s,
        compact_after=loop.compact_after,
    )


def _extent(config: CampaignConfig, agents: Agents) -> Extent:
    settings = config.settings
    return Extent(
        ideas=settings.ideas,
        rounds=settings.rounds,
        in_flight=config.in_flight,
        lag=config.lag,
        model_name=config.model_name,
        seed=settings.seed,
        control=settings.control if agents.control is not None else 0.0,
    )


def _confirmation(settings: Settings, spec: RecipeSpec) -> ConfirmationRules:
    rule = rule_of(settings)
    final = rule.decision == "fdr" and rule.control == "online"
    # Fresh seeds do not make a number trustworthy if the candidate computes it itself.
    enabled = settings.loop.confirm and not spec.primary.is_self_reported
    return ConfirmationRules(enabled=enabled, early=final)


def _strategies(
    settings: Settings, spec: RecipeSpec, agents: Agents, measuring: Measuring
) -> Strategies:
    return Strategies(
        kind=strategy_of(settings),
        settings=settings,
        objective=spec.objective,
        advised=agents.stages.get(ADVISE) is not None,
        analysed=agents.stages.get(ANALYSE) is not None,
        measuring=measuring,
    )
