"""How well code carries out its ideas: completeness and correctness, by the journal."""

from __future__ import annotations

from hpcscientist.authoring.review.measures import Judged, Quality, quality
from hpcscientist.history.standing import IdeaState
from hpcscientist.history.state import CampaignState


def measure(state: CampaignState) -> Quality | None:
    """Return both measures over the ideas that were let in; None where none was reviewed."""
    ended = [
        i for i in state.ideas.values() if i.ended is not None and i.ended.status != "rejected"
    ]
    if not any(idea.reviews for idea in ended):
        return None
    return quality(_judged(idea) for idea in ended)


def _judged(idea: IdeaState) -> Judged:
    assert idea.ended is not None
    standing = idea.reviews.get(idea.ended.attempt or 0)
    last = standing or (idea.reviews[max(idea.reviews)] if idea.reviews else None)
    return Judged(
        idea_id=idea.idea_id,
        resolved=idea.ended.status == "scored" and (standing is None or standing.complete),
        marks=last.marks if last is not None else (),
    )
