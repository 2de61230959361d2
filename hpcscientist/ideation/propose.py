"""Proposals by a language model. Whether one repeats an earlier idea is the bank's matter."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hpcscientist.config.settings import ProposeSettings
from hpcscientist.models.prompts import render
from hpcscientist.models.structured import ask
from hpcscientist.ports.model import Model
from hpcscientist.records.idea import Proposal, idea_id_of, idea_seed
from hpcscientist.records.model import Message, ModelRequest
from hpcscientist.records.proposing import ProposalTask, Proposed

if TYPE_CHECKING:
    from hpcscientist.recipe.load import Recipe


class ModelProposer:
    """Asks a model for ideas; implements `ports.proposer.Proposer`."""

    ordered = False

    def __init__(
        self, model: Model, recipe: Recipe, seed: int, settings: ProposeSettings | None = None
    ) -> None:
        self._model = model
        self._recipe = recipe
        self._seed = seed
        self._settings = settings or ProposeSettings()

    async def propose(self, task: ProposalTask) -> Proposed:
        """Ask for one idea.

        Parents that the model was not shown are dropped. Raises PlaybookExhausted when no
        reply is left, ReplyError when there is no usable one, EndpointError.
        """
        spec = self._recipe.spec
        prompt = render(
            "propose",
            number=task.number,
            topic=spec.topic,
            metrics=spec.metrics,
            budgets=spec.budgets,
            reference_files=self._recipe.reference,
            editable=spec.editable,
            seed_ideas=self._recipe.seed_ideas,
            feedback_text=task.feedback,
            archive=task.archive,
        )
        request = ModelRequest(
            idea_id=task.idea_id,
            stage="propose",
            messages=(Message(role="user", content=prompt),),
            temperature=self._settings.temperature,
            max_tokens=self._settings.max_tokens,
            seed=idea_seed(self._seed, task.number),
        )
        proposal = await ask(self._model, request, Proposal)
        # Any earlier idea may be a parent: not only those of a prompt that depends on timing.
        earlier = {idea_id_of(number) for number in range(1, task.number)}
        parents = tuple(p for p in dict.fromkeys(proposal.parent_ids) if p in earlier)
        return Proposed(
            proposal=proposal.model_copy(update={"parent_ids": parents}),
            shown=task.shown,
        )
