"""A client for a model in one role: sends named calls and returns replies of a given type."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from pydantic import BaseModel

from hpcscientist.config.settings import RoleSettings
from hpcscientist.errors import PlaybookExhausted, ReplyError
from hpcscientist.models.playbook import PlaybookModel
from hpcscientist.models.prompting.fitting import Prompt, Window
from hpcscientist.models.reply_limits import Limits
from hpcscientist.models.structured import CUT_OFF, WARMER, ask, complete, warmer, with_format
from hpcscientist.ports import Model
from hpcscientist.records.idea import idea_seed
from hpcscientist.records.model_calls import ModelReply, ModelRequest, Role

# The models of a campaign by role, behind one model that routes each request to its role's.


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


T = TypeVar("T", bound=BaseModel)

# A question without a usable answer. Steps that can do without an answer go on. Errors of the
# endpoint itself are not in here and propagate.
UNANSWERED = (ReplyError, PlaybookExhausted)


@dataclass(frozen=True, slots=True)
class CallPurpose:
    """What a request is for; `number` is the idea's, 0 if the subject is no idea.

    Calls that ask a model the same question several times differ in `sample`, and so in their seed.
    Calls that ask it side by side differ in `draft`. `again` counts the refused replies before this
    call. A `draft` or `again` above 0 also changes the seed and raises the temperature, because
    small models repeat a reply when nothing changes.
    """

    subject: str
    number: int
    stage: str
    ordinal: int = 1
    sample: int = 0
    draft: int = 0
    again: int = 0

    def seed(self, campaign: int) -> int:
        """Return the call's seed: from the campaign's seed, the idea's number and its counters."""
        seed = idea_seed(campaign, self.number)
        for place in filter(None, (self.sample, self.again, self.draft)):
            seed = idea_seed(seed, place)
        return seed


class RoleClient:
    """A model in one of its roles. `seed` is the campaign's; `window` is the model's context."""

    def __init__(
        self,
        model: Model,
        role: Role,
        settings: RoleSettings,
        seed: int = 0,
        window: Window | None = None,
    ) -> None:
        self._model, self._role, self._settings, self._seed = model, role, settings, seed
        self._window = window or Window(settings.context)

    async def ask(
        self, call: CallPurpose, reply_type: type[T], prompt: Prompt, limits: Limits | None = None
    ) -> T:
        """Ask for a reply of a type, with repairs; its seed depends on campaign, idea and sample.

        `limits` restrict the fields for this one question, on servers that enforce a schema. Raises
        ReplyError where there is no usable reply, and what the model raises.
        """
        request, window = self._request(call), self._window
        return await ask(
            self._model, request, reply_type, prompt=prompt, window=window, limits=limits
        )

    async def write(self, call: CallPurpose, prompt: Prompt, begun: str) -> str:
        """Ask for free text that continues `begun`; return the text without `begun`.

        Raises ReplyError where the shortest prompt does not fit or the reply is cut off, and what
        the model raises.
        """
        request = self._request(call).model_copy(update={"begun": begun})
        reply = await complete(self._model, request, prompt, self._window)
        if reply.finish == CUT_OFF:
            raise ReplyError(f"{call.subject}: the reply to {request.key} was cut off")
        return reply.text

    def _request(self, call: CallPurpose) -> ModelRequest:
        settings = self._settings
        return ModelRequest(
            subject=call.subject,
            stage=call.stage,
            role=self._role,
            ordinal=call.ordinal,
            draft=call.draft,
            messages=(),
            temperature=warmer(settings.temperature, (call.again + call.draft) * WARMER),
            top_p=settings.top_p,
            max_tokens=settings.max_tokens,
            seed=call.seed(self._seed),
        )

    async def fits(self, reply_type: type[BaseModel], prompt: Prompt) -> bool:
        """Return whether a prompt fits, with all optional material of its template left out."""
        asked = with_format(prompt, reply_type, self._window)
        return await self._window.fits(asked, self._settings.max_tokens)
