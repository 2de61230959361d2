"""Putting together who pursues ideas in a campaign."""

from __future__ import annotations

from hpcscientist.authoring.planner import PLAN
from hpcscientist.authoring.review.advisor import ADVISE
from hpcscientist.authoring.runs.reading import ANALYSE
from hpcscientist.campaign.agents import Agents
from hpcscientist.campaign.proposals.vetting import Vetting
from hpcscientist.campaign.pursuit.analysis import Analysis
from hpcscientist.campaign.pursuit.attempt_store import AttemptStore
from hpcscientist.campaign.pursuit.author_requests import AuthorRequests
from hpcscientist.campaign.pursuit.code_workflow import CodeWorkflow
from hpcscientist.campaign.pursuit.idea_runner import IdeaRunner
from hpcscientist.campaign.session import Session
from hpcscientist.conduct.rules import Rules
from hpcscientist.literature.analyst import CONCEPTS


def idea_runner(
    rules: Rules, session: Session, agents: Agents, attempt_store: AttemptStore
) -> IdeaRunner:
    """Return who takes ideas to their ends, as a campaign is configured."""
    paths, journal, state = session.paths, session.journal, session.state
    stages = agents.stages
    analyst = stages.get(ANALYSE)
    return IdeaRunner(
        rules=rules,
        journal=journal,
        state=state,
        attempt_store=attempt_store,
        vetting=Vetting(
            paths=paths,
            journal=journal,
            state=state,
            integrity=attempt_store.integrity,
            judges=stages.judges(),
            analyst=stages.get(CONCEPTS),
        ),
        workflow=CodeWorkflow(
            *(paths, journal, state, attempt_store.integrity),
            planner=stages.get(PLAN),
            advisor=stages.get(ADVISE),
        ),
        requests=AuthorRequests(agents.author, attempt_store),
        analysis=None if analyst is None else Analysis(analyst, attempt_store),
    )
