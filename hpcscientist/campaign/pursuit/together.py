"""Putting together who pursues ideas in a campaign."""

from __future__ import annotations

from hpcscientist.authoring.tree import Bounds
from hpcscientist.campaign.frozen import CampaignConfig
from hpcscientist.campaign.minds import Minds
from hpcscientist.campaign.pursuit.branching import Branching
from hpcscientist.campaign.pursuit.craft import Craft
from hpcscientist.campaign.pursuit.effort import Effort
from hpcscientist.campaign.pursuit.following import Following
from hpcscientist.campaign.pursuit.gate import Gate
from hpcscientist.campaign.pursuit.legs import Legs
from hpcscientist.campaign.pursuit.pursuit import Pursuit
from hpcscientist.campaign.pursuit.tryout import Tryout
from hpcscientist.campaign.pursuit.ways import Line, Ways
from hpcscientist.campaign.reference import Reference
from hpcscientist.campaign.session import Session


def pursuit(
    config: CampaignConfig, session: Session, minds: Minds, tryout: Tryout, reference: Reference
) -> Pursuit:
    """Return who takes ideas to their ends, as a campaign is configured."""
    authoring = config.settings.authoring
    craft = Craft(
        paths=session.paths,
        journal=session.journal,
        tryout=tryout,
        author=minds.author,
        crew=minds.crew,
        catches_nothing_done=minds.model is not None,
    )
    gate = Gate(reference, craft, session.state)
    legs = Legs(
        debug_rounds=config.settings.loop.debug_rounds,
        advice_rounds=authoring.advice_rounds,
        tryout=tryout,
        effort=Effort(config.settings, tryout, reference),
        gate=gate,
        craft=craft,
    )
    grows = authoring.search == "tree"
    tree = Branching(_bounds(config, tryout), reference, craft, gate, legs) if grows else None
    return Pursuit(
        in_order=minds.proposer.by_outcomes,
        journal=session.journal,
        state=session.state,
        tryout=tryout,
        craft=craft,
        ways=Ways(Line(craft, legs), tree),
        following=Following(authoring.further_runs, grows, reference, craft, legs),
    )


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
