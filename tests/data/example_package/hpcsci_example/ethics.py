"""A stage: a model in a role of its own says whether an idea may be tried at all."""

from __future__ import annotations

from collections.abc import Sequence

from hpcscientist.config.settings import Settings
from hpcscientist.models.prompting.fitting import Prompt
from hpcscientist.models.role_client import CallPurpose, RoleClient
from hpcscientist.models.stage import Calls, Expected, Kind, Means, Sample, VettingStage
from hpcscientist.records.base import Prose, Record
from hpcscientist.records.idea import Idea
from hpcscientist.records.model_calls import Message
from hpcscientist.records.proposing import Verdict


class EthicsReply(Record):
    """The reply of stage `ethics`."""

    allowed: bool
    reason: Prose


class EthicsVerdict(Verdict):
    """Kept as ethics.json in the idea's folder."""

    allowed: bool
    reason: str

    @property
    def objection(self) -> str | None:
        return None if self.allowed else f"not allowed: {self.reason}"


class Board:
    """Judges ideas."""

    def __init__(self, client: RoleClient, rule: str) -> None:
        self._client, self._rule = client, rule

    async def judge(self, idea: Idea) -> EthicsVerdict:
        asked = f"{self._rule}\nMay this idea be tried? {idea.proposal.summary}"
        prompt = Prompt(0, lambda level: (Message(role="user", content=asked),))
        reply = await self._client.ask(
            CallPurpose(idea.idea_id, idea.number, "ethics"), EthicsReply, prompt
        )
        return EthicsVerdict(allowed=reply.allowed, reason=reply.reason)


class EthicsStage(VettingStage[Board]):
    name = "ethics"
    kinds = (Kind("ethics", "board", EthicsReply),)
    verdict = EthicsVerdict

    def applies(self, settings: Settings, has_library: bool) -> bool:
        return "ethics" in settings.extensions

    def calls(self, expected: Expected) -> Sequence[Calls]:
        return (Calls.of("ethics", expected.settings.ideas),)

    def open(self, means: Means) -> Board:
        rule = str(means.settings.extensions["ethics"]["rule"])
        return Board(means.client("board"), rule)

    async def weigh(self, opened: Board, sample: Sample) -> None:
        await opened.judge(sample.idea)


STAGE = EthicsStage()
