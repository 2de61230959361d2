"""The agents of a campaign: proposer, author and stages, all of which ask one recorded model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from hpcscientist.authoring.coder import AUTHOR
from hpcscientist.authoring.knobs import KnobAuthor, TwoArms
from hpcscientist.campaign.stages import Opened
from hpcscientist.files.rundir import RunPaths
from hpcscientist.files.trusted import TrustedCopy
from hpcscientist.history.frozen import CampaignConfig
from hpcscientist.history.journal import Journal
from hpcscientist.history.state import CampaignState
from hpcscientist.ideation.propose import PROPOSE
from hpcscientist.ideation.search import SearchProposer
from hpcscientist.models.prompting.fitting import Window
from hpcscientist.models.recorded import RecordedModel
from hpcscientist.models.stage import Means
from hpcscientist.ports import Author, Embedder, Library, Model, Proposer, Reconsider, Tell
from hpcscientist.recipe.load import Recipe
from hpcscientist.records.events import NoteTaken, ReplyRecorded
from hpcscientist.records.model_calls import ModelReply, ModelRequest, Role
from hpcscientist.system.interpreter import Interpreter

# The objects that one driver holds while it runs a campaign.


@dataclass(frozen=True, slots=True)
class Session:
    """One driver's run directory, open journal, state and lock generation.

    `job_id`: the job whose allocation the driver runs in, "" for none. `embedder`: the one that the
    launch has already opened in this process.
    """

    paths: RunPaths
    journal: Journal
    state: CampaignState
    generation: int
    job_id: str = ""
    embedder: Embedder | None = None

    def teller(self, name: str) -> Tell:
        """Return a function that records notes under a name; only the first one is kept."""

        def tell(text: str) -> None:
            self.note(name, text)

        return tell

    def note(self, name: str, text: str) -> None:
        """Record a note for people, once for each name."""
        self.journal.record(NoteTaken(name=name, text=text))


@dataclass(frozen=True, slots=True)
class Agents:
    """The proposer and the author of a campaign; `model` is None if the control arm runs alone.

    `stages` are the campaign's opened stages. `control` proposes the control arm's ideas in a
    model's campaign, None if there is no such arm. `reconsider` replaces a look-alike's proposal.
    """

    proposer: Proposer
    author: Author
    model: RecordedModel | None
    stages: Opened = field(default_factory=Opened)
    control: Proposer | None = None
    reconsider: Reconsider | None = None


def control_agents(recipe: Recipe, seed: int) -> Agents:
    """Return the agents of a campaign without a model. Raises UsageError for a recipe without
    knobs.
    """
    return Agents(SearchProposer(recipe, seed), KnobAuthor(recipe), None)


def with_control(agents: Agents, recipe: Recipe, seed: int) -> Agents:
    """Return a model's agents with the control arm added. Raises UsageError for a recipe without
    knobs.
    """
    control = control_agents(recipe, seed)
    author = TwoArms(agents.author, control.author)
    return replace(agents, author=author, control=control.proposer)


def model_agents(
    inner: Model,
    config: CampaignConfig,
    recipe: Recipe,
    session: Session,
    windows: Mapping[Role, Window] | None = None,
    library: Library | None = None,
    python: Interpreter | None = None,
) -> Agents:
    """Return the agents that ask a model; every call is recorded and journalled.

    `windows` are the roles' contexts; without them prompts are not shortened. `python` is the
    interpreter that runs the ideas' code.
    """

    def on_reply(request: ModelRequest, reply: ModelReply, asked: int) -> None:
        session.journal.record(
            ReplyRecorded(
                idea_id=request.subject,
                call=request.key,
                prompt_tokens=reply.prompt_tokens,
                completion_tokens=reply.completion_tokens,
                tokens_estimated=reply.tokens_estimated,
                latency_s=reply.latency_s,
                role=request.role,
                asked=asked,
            )
        )

    copy = TrustedCopy.of(session.paths.root, config.campaign_id)
    sealed = config.campaign_id if copy.launched.exists() else ""
    model = RecordedModel(inner, session.paths, on_reply, sealed)
    session.journal.wait_for(model.settle)
    stages = Opened.of(
        Means(
            *(model, recipe, config.settings, config.steps, windows or {}, library),
            notify=session.note,
            python=python,
        )
    )
    proposer, author = stages.get(PROPOSE), stages.get(AUTHOR)
    assert proposer is not None and author is not None  # every campaign with a model has both
    return Agents(proposer, author, model, stages, reconsider=proposer.reconsider)
