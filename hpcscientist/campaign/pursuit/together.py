"""Putting together who pursues ideas in a campaign."""

from __future__ import annotations

from hpcscientist.authoring.tree import Bounds
from hpcscientist.campaign.frozen import CampaignConfig
from hpcscientist.campaign.minds import Minds
from hpcscientist.campaign.pursuit.analysis import Analysis
from hpcscientist.campaign.pursuit.asking import Asking
from hpcscientist.campaign.pursuit.craft import Craft
from hpcscientist.campaign.pursuit.effort import Effort
from hpcscientist.campaign.pursuit.performing import Performer
from hpcscientist.campaign.pursuit.pursuit import Pursuit
from hpcscientist.campaign.pursuit.tryout import Tryout
from hpcscientist.campaign.reference import Reference
from hpcscientist.campaign.session import Session
from hpcscientist.campaign.strategy.measuring import Measuring
from hpcscientist.campaign.strategy.strategies import Strategies
from hpcscientist.feedback.effort import most_seeds, schedule_of


def pursuit(
    config: CampaignConfig, session: Session, minds: Minds, tryout: Tryout, reference: Reference
) -> Pursuit:
    """Return who takes ideas to their ends, as a campaign is configured."""
    authoring, analyst = config.settings.authoring, minds.crew.analyst
    craft = Craft(session.paths, session.journal, tryout, minds.crew)
    performer = Performer(
        craft=craft,
        asking=Asking(minds.author, tryout, reference),
        tryout=tryout,
        effort=Effort(config.settings, tryout, reference),
        reference=reference,
        analysis=None if analyst is None else Analysis(analyst, tryout, reference),
        catches_nothing_done=minds.model is not None,
    )
    return Pursuit(
        in_order=minds.proposer.by_outcomes,
        journal=session.journal,
        state=session.state,
        tryout=tryout,
        craft=craft,
        strategies=Strategies(
            bounds=_bounds(config, tryout) if authoring.search == "tree" else None,
            debug_rounds=config.settings.loop.debug_rounds,
            advice_rounds=authoring.advice_rounds,
            further_runs=authoring.further_runs,
            advised=minds.crew.advisor is not None,
            analysed=analyst is not None,
            measuring=_measuring(config, tryout),
        ),
        performer=performer,
    )


def _measuring(config: CampaignConfig, tryout: Tryout) -> Measuring:
    loop, own = config.settings.loop, tryout.specs.recipe.spec.seeds
    seeds = min(own, most_seeds(loop, own))
    return Measuring(seeds, len(tryout.specs.steps), schedule_of(loop, own))


def _bounds(config: CampaignConfig, tryout: Tryout) -> Bounds:
    authoring = config.settings.authoring
    return Bounds(
        drafts=authoring.drafts,
        nodes=authoring.nodes,
        workers=authoring.workers,
        debug_share=authoring.debug_share,
        debug_depth=authoring.debug_depth,
        direction=tryout.specs.recipe.spec.primary.direction,
    )
