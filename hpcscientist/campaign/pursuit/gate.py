"""Which attempts are worth their seeds: what a pilot says, held against the reference's."""

from __future__ import annotations

from dataclasses import dataclass

from hpcscientist.campaign.pursuit.course import Leg
from hpcscientist.campaign.pursuit.craft import Craft
from hpcscientist.campaign.pursuit.tryout import Tried
from hpcscientist.campaign.reference import Reference
from hpcscientist.campaign.state import CampaignState

NOTHING_DONE = (
    "its pilot's predictions are those of the unchanged reference with the same seed: nothing was "
    "done"
)


@dataclass(frozen=True, slots=True)
class Gate:
    """Judges attempts whose pilot was scored."""

    reference: Reference
    craft: Craft
    state: CampaignState

    async def objection(self, leg: Leg, tried: Tried) -> str | None:
        """Say why an attempt whose pilot was scored is not worth its seeds; None if it is."""
        hopeless = await self.hopeless(leg, tried)
        if hopeless is not None:
            return hopeless
        return NOTHING_DONE if await self.does_nothing(leg, tried) else None

    async def hopeless(self, leg: Leg, tried: Tried) -> str | None:
        """A further run may be as bad as it likes: that tells what the idea's parts give."""
        return None if leg.run else await self.reference.objection(tried.report)

    async def does_nothing(self, leg: Leg, tried: Tried) -> bool:
        """Whether the idea itself predicts what the reference predicts; an ablation may."""
        arm = self.state.ideas[tried.attempt.idea_id].arm
        catches = leg.run == 0 and self.craft.catches_nothing_done and arm == "model"
        return catches and await self.reference.same(tried.report)
