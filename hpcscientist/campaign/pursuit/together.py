"""Putting together who pursues ideas in a campaign."""

from __future__ import annotations

from hpcscientist.authoring.planner import PLAN
from hpcscientist.authoring.review.advisor import ADVISE
from hpcscientist.authoring.runs.reading import ANALYSE
from hpcscientist.campaign.agents import Agents
from hpcscientist.campaign.proposals.vetting import Vetting
from hpcscientist.campaign.pursuit.analysis import Analysis
from hpcscientist.campaign.pursuit.asking import Asking
from hpcscientist.campaign.pursuit.craft import Craft
from hpcscientist.campaign.pursuit.pursuit import Pursuit
from hpcscientist.campaign.pursuit.tryout import Tryout
from hpcscientist.campaign.session import Session
from hpcscientist.conduct.rules import Rules
from hpcscientist.literature.analyst import CONCEPTS


def pursuit(rules: Rules, session: Session, agents: Agents, tryout: Tryout) -> Pursuit:
    """Return who takes ideas to their ends, as a campaign is configured."""
    paths, journal, state = session.paths, session.journal, session.state
    stages = agents.stages
    analyst = stages.get(ANALYSE)
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
            judges=stages.judges(),
            analyst=stages.get(CONCEPTS),
        ),
        craft=Craft(
            *(paths, journal, state, tryout.integrity),
            planner=stages.get(PLAN),
            advisor=stages.get(ADVISE),
        ),
        asking=Asking(agents.author, tryout),
        analysis=None if analyst is None else Analysis(analyst, tryout),
    )
