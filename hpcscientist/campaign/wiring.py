"""The one place where adapters are chosen and put together."""

from __future__ import annotations

from dataclasses import dataclass

from hpcscientist.authoring.coder import ModelAuthor
from hpcscientist.authoring.knobs import KnobAuthor
from hpcscientist.campaign import frozen
from hpcscientist.campaign.admission import Admission
from hpcscientist.campaign.compaction import Compactor
from hpcscientist.campaign.conductor import Conductor
from hpcscientist.campaign.frozen import CampaignConfig
from hpcscientist.campaign.journal import Journal
from hpcscientist.campaign.knowledge import Knowledge
from hpcscientist.campaign.plan import Plan
from hpcscientist.campaign.pursuit import Pursuit
from hpcscientist.campaign.specs import SpecFactory
from hpcscientist.campaign.state import CampaignState
from hpcscientist.campaign.trials import TrialRunner
from hpcscientist.errors import RunDirectoryError
from hpcscientist.execution.backends.local import LocalBackend
from hpcscientist.files import sealed
from hpcscientist.files.rundir import RunPaths
from hpcscientist.ideation.bank import Bank
from hpcscientist.ideation.propose import ModelProposer
from hpcscientist.ideation.search import SearchProposer
from hpcscientist.models.open import open_model
from hpcscientist.models.recorded import RecordedModel
from hpcscientist.ports.author import Author
from hpcscientist.ports.backend import Backend
from hpcscientist.ports.model import Model
from hpcscientist.ports.proposer import Proposer
from hpcscientist.recipe.load import Recipe, load
from hpcscientist.records.events import ReplyRecorded
from hpcscientist.records.model import ModelReply, ModelRequest
from hpcscientist.records.trial import Isolation, Split
from hpcscientist.worker.entry import run_trial


@dataclass(frozen=True, slots=True)
class Wired:
    """A conductor with what must be closed after it."""

    config: CampaignConfig
    state: CampaignState
    conductor: Conductor
    backend: Backend
    model: Model | None

    async def close(self) -> None:
        """Stop what still runs and release connections."""
        await self.backend.close()
        if self.model is not None:
            await self.model.close()


@dataclass(frozen=True, slots=True)
class Session:
    """One driver's hold on a run directory: its journal, the fold, the lock's generation."""

    paths: RunPaths
    journal: Journal
    state: CampaignState
    generation: int


@dataclass(frozen=True, slots=True)
class Minds:
    """Who proposes and who writes code; `model` is None for the control arm."""

    proposer: Proposer
    author: Author
    model: Model | None


def wire(session: Session) -> Wired:
    """Put a campaign together from its run directory.

    Raises RunDirectoryError when the recipe in it is not the one it was launched with.
    """
    paths = session.paths
    config = frozen.read(paths)
    recipe = load(paths.recipe)
    if recipe.recipe_hash != config.recipe_hash:
        raise RunDirectoryError(
            f"{paths.recipe}: was changed since launch; restore it, or launch a new campaign"
        )
    for key in config.labels.values():
        if not sealed.path_of(key).is_dir():
            raise RunDirectoryError(
                f"{sealed.path_of(key)}: the labels of this campaign are gone; restore them, or "
                "set paths.private to where they lie"
            )
    if config.isolation is Isolation.NONE and not config.has_intact_data():
        raise RunDirectoryError(
            f"{config.views[Split.VALIDATION]}: the prepared data changed since launch; restore "
            "them, or delete them and launch anew"
        )
    if config.model_spec == "search":
        seed = config.settings.seed
        minds = Minds(SearchProposer(recipe, seed), KnobAuthor(recipe), None)
    else:
        inner = open_model(config.model_spec, recipe.playbook, config.settings.client)
        minds = model_minds(inner, config, recipe, session)
    return assemble(config, recipe, session, minds, LocalBackend(paths, config.slots, run_trial))


def assemble(
    config: CampaignConfig, recipe: Recipe, session: Session, minds: Minds, backend: Backend
) -> Wired:
    """Put a conductor together from chosen adapters."""
    settings, loop = config.settings, config.settings.loop
    paths, journal, state = session.paths, session.journal, session.state
    plan = Plan(
        ideas=settings.ideas,
        rounds=settings.rounds,
        in_flight=config.in_flight,
        model_name=config.model_name,
        seed=settings.seed,
    )
    knowledge = Knowledge(
        state=state,
        metric=recipe.spec.primary,
        q=loop.q,
        feedback_tokens=loop.feedback_tokens,
        archive_size=loop.archive,
    )
    specs = SpecFactory(config=config, recipe=recipe, paths=paths)
    trials = TrialRunner(
        paths=paths,
        journal=journal,
        state=state,
        backend=backend,
        generation=session.generation,
        retries=loop.machine_retries,
        pause_s=loop.machine_pause_s,
    )
    conductor = Conductor(
        plan=plan,
        specs=specs,
        trials=trials,
        admission=Admission(
            plan=plan,
            paths=paths,
            journal=journal,
            knowledge=knowledge,
            proposer=minds.proposer,
            bank=Bank(loop.similarity),
        ),
        pursuit=Pursuit(
            debug_rounds=loop.debug_rounds,
            in_order=minds.proposer.ordered,
            paths=paths,
            journal=journal,
            state=state,
            specs=specs,
            trials=trials,
            author=minds.author,
        ),
        compactor=Compactor(paths, state, loop.compact_after),
    )
    return Wired(config, session.state, conductor, backend, minds.model)


def model_minds(inner: Model, config: CampaignConfig, recipe: Recipe, session: Session) -> Minds:
    """A proposer and an author that ask a model; every call is recorded and journalled."""

    def on_reply(request: ModelRequest, reply: ModelReply) -> None:
        session.journal.record(
            ReplyRecorded(
                idea_id=request.idea_id,
                call=request.key,
                prompt_tokens=reply.prompt_tokens,
                completion_tokens=reply.completion_tokens,
                tokens_estimated=reply.tokens_estimated,
                latency_s=reply.latency_s,
            )
        )

    model = RecordedModel(inner, session.paths, on_reply)
    settings = config.settings
    proposer = ModelProposer(model, recipe, settings.seed, settings.propose)
    return Minds(proposer, ModelAuthor(model, recipe, settings.code), model)
