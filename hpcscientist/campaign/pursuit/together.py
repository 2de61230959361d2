"""Putting together who pursues ideas in a campaign."""

from __future__ import annotations

from hpcscientist.campaign.minds import Minds
from hpcscientist.campaign.proposals.vetting import Vetting
from hpcscientist.campaign.pursuit.analysis import Analysis
from hpcscientist.campaign.pursuit.asking import Asking
from hpcscientist.campaign.pursuit.craft import Craft
from hpcscientist.campaign.pursuit.pursuit import Pursuit
from hpcscientist.campaign.pursuit.tryout import Tryout
from hpcscientist.campaign.session import Session
from hpcscientist.conduct.rules import Rules


def pursuit(rules: Rules, session: Session, minds: Minds, tryout: Tryout) -> Pursuit:
    """Return who takes ideas to their ends, as a campaign is configured."""
    paths, journal, state = session.paths, session.journal, session.state
    analyst, helpers = minds.crew.analyst, minds.helpers
    return Pursuit(
        rules=rules,
        journal=journal,
        state=state,
        tryout=tryout,
        vetting=Vetting(
            paths=paths,
            journal=journal,
            state=state,
            integrity=tryout.integrity,
            novelty=helpers.novelty,
            feasibility=helpers.feasibility,
            analyst=helpers.analyst,
        ),
        craft=Craft(paths, journal, state, tryout.integrity, minds.crew),
        asking=Asking(minds.author, tryout),
        analysis=None if analyst is None else Analysis(analyst, tryout),
    )
