"""The models of a campaign by role, as one model: each request goes to its role's."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from hpcscientist.config.extent import Versions
from hpcscientist.config.settings import Settings
from hpcscientist.errors import ReplyError
from hpcscientist.models.playbook import PlaybookModel
from hpcscientist.models.prompting.fitting import Window
from hpcscientist.ports import Model
from hpcscientist.recipe.load import Recipe
from hpcscientist.records.authoring import Brief
from hpcscientist.records.idea import Idea
from hpcscientist.records.model_calls import ModelReply, ModelRequest, Role
from hpcscientist.records.proposing import ProposalTask


class Roles:
    """One model for each role, many roles for a model; implements `ports.Model`.

    `windows` are the models' contexts as each role sees them; they learn from the replies
    that come by here.
    """

    def __init__(self, models: Mapping[Role, Model], windows: Mapping[Role, Window]) -> None:
        self._models = dict(models)
        self.windows = dict(windows)

    @property
    def ideation(self) -> Model:
        """Who proposes."""
        return self._models["ideation"]

    @property
    def code(self) -> Model:
        """Who writes and mends code."""
        return self._models["code"]

    @property
    def review(self) -> Model:
        """Who judges."""
        return self._models["review"]

    @property
    def name(self) -> str:
        """The models' names, that of ideation first."""
        return ", ".join(dict.fromkeys(model.name for model in self._models.values()))

    def recorded(self) -> dict[Role, frozenset[str]]:
        """By role, the stages that its model holds replies for; only of recorded models."""
        models = self._models.items()
        return {role: m.stages() for role, m in models if isinstance(m, PlaybookModel)}

    def proposals(self) -> frozenset[int] | None:
        """The numbers of the ideas that a recorded model proposes; None where a model is asked."""
        model = self._models.get("ideation")
        return frozenset(model.ideas("propose")) if isinstance(model, PlaybookModel) else None

    def idle(self, role: Role) -> int:
        """Return how many requests more a role's model would answer at once; 0: nobody knows."""
        return int(getattr(self._models.get(role), "idle", 0))

    async def probe(self) -> None:
        """Probe each model once. Raises EndpointError."""
        for model in self._distinct():
            await model.probe()

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Have the role's model answer, and learn how long the prompt was."""
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


# An idea midway through a campaign, by which prompts are weighed before anything is run.

# Characters of a proposal's parts, and of a failed trial's output: a traceback and what came
# before it.
TITLE_SIZE, PART_SIZE, SUMMARY_SIZE, LOG_SIZE = 60, 500, 300, 4000


@dataclass(frozen=True, slots=True)
class Sample:
    """An idea, its proposer's task and its coder's brief; `stages` are the campaign's, by name."""

    recipe: Recipe
    settings: Settings
    stages: Collection[str]
    versions: Versions
    idea: Idea
    task: ProposalTask

    @property
    def brief(self) -> Brief:
        """What a coder is shown."""
        return Brief(idea=self.idea)


def filler(size: int) -> str:
    """Return a text of so many characters."""
    return "x" * size


def traceback(recipe: Recipe) -> str:
    """Return what Python prints where the last line of the entry script fails."""
    entry = recipe.spec.entry
    lines = recipe.reference[entry].rstrip().split("\n")
    return (
        "Traceback (most recent call last):\n"
        f'  File "/code/{entry}", line {len(lines)}, in <module>\n    {lines[-1].strip()}\n'
        "RuntimeError: x\n"
    )
