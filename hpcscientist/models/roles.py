"""The models of a campaign by role, behind one model that routes each request to its role's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hpcscientist.errors import ReplyError
from hpcscientist.models.playbook import PlaybookModel
from hpcscientist.models.prompting.fitting import Window
from hpcscientist.ports import Model
from hpcscientist.records.model_calls import ModelReply, ModelRequest, Role


class Roles:
    """One model for each role; roles may share a model. Implements `ports.Model`.

    `windows` are the models' contexts by role; they learn from the replies that pass through here.
    """

    def __init__(self, models: Mapping[Role, Model], windows: Mapping[Role, Window]) -> None:
        self._models = dict(models)
        self.windows = dict(windows)

    @property
    def ideation(self) -> Model:
        """The model that proposes ideas."""
        return self._models["ideation"]

    @property
    def code(self) -> Model:
        """The model that writes and fixes code."""
        return self._models["code"]

    @property
    def review(self) -> Model:
        """The model that judges."""
        return self._models["review"]

    @property
    def name(self) -> str:
        """The models' names, ideation's first."""
        return ", ".join(dict.fromkeys(model.name for model in self._models.values()))

    def recorded(self) -> dict[Role, frozenset[str]]:
        """Return, by role, the stages that its model holds replies for; recorded models only."""
        models = self._models.items()
        return {role: m.stages() for role, m in models if isinstance(m, PlaybookModel)}

    def proposals(self) -> frozenset[int] | None:
        """Return the numbers of the ideas that a recorded model proposes; None for a live model."""
        model = self._models.get("ideation")
        return frozenset(model.ideas("propose")) if isinstance(model, PlaybookModel) else None

    def idle(self, role: Role) -> int:
        """Return how many more requests a role's model would answer at once; 0 where unknown."""
        return int(getattr(self._models.get(role), "idle", 0))

    async def probe(self) -> None:
        """Probe each model once. Raises EndpointError."""
        for model in self._distinct():
            await model.probe()

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Return the reply of the role's model, and learn the prompt's length in tokens from it."""
        if request.role not in self._models:
            raise ReplyError(f"{request.subject}: no language model has the role {request.role}")
        reply = await self._models[request.role].complete(request)
        self.windows[request.role].learn(request.messages, reply)
        return reply

    async def close(self) -> None:
        """Close each model once. Idempotent."""
        for model in self._distinct():
            await model.close()

    def _distinct(self) -> Iterator[Model]:
        yield from {id(model): model for model in self._models.values()}.values()
