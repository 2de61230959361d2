"""Putting together who pursues ideas in a campaign."""

from __future__ import annotations

from hpcscientist.campaign.conduct.rules import Rules
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


def pursuit(
    config: CampaignConfig,
    rules: Rules,
    session: Session,
    minds: Minds,
    tryout: Tryout,
    reference: Reference,
) -> Pursuit:
    """Return who takes ideas to their ends, as a campaign is configured."""
    analyst = minds.crew.analyst
    craft = Craft(session.paths, session.journal, tryout, minds.crew)
    performer = Performer(
        craft=craft,
        asking=Asking(minds.author, tryout, reference),
        tryout=tryout,
        effort=Effort(config.settings, tryout, reference),
        reference=reference,
        analysis=None if analyst is None else Analysis(analyst, tryout, reference),
        catches_nothing_done=rules.judging.catches_nothing_done,
    )
    return Pursuit(
        in_order=rules.proposing.in_order,
        journal=session.journal,
        state=session.state,
        tryout=tryout,
        craft=craft,
        strategies=rules.strategies,
        performer=performer,
    )
