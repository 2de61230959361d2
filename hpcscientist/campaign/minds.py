"""Who thinks in a campaign: one recorded model, asked by each step in its own way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from hpcscientist.authoring.arms import TwoArms
from hpcscientist.authoring.coder import ModelAuthor
from hpcscientist.authoring.knobs import KnobAuthor
from hpcscientist.authoring.planner import Planner
from hpcscientist.authoring.review.advisor import Advisor
from hpcscientist.authoring.runs.reading import RunAnalyst
from hpcscientist.campaign.pursuit.craft import Crew
from hpcscientist.campaign.session import Session
from hpcscientist.files.trusted import TrustedCopy
from hpcscientist.history.frozen import CampaignConfig
from hpcscientist.ideation.directions import DirectionFinder
from hpcscientist.ideation.feasibility import FeasibilityJudge
from hpcscientist.ideation.novelty import NoveltyJudge
from hpcscientist.ideation.propose import ModelProposer
from hpcscientist.ideation.search import SearchProposer
from hpcscientist.literature.analyst import Analyst
from hpcscientist.literature.survey import Surveyor
from hpcscientist.models.prompting.fitting import Window
from hpcscientist.models.recorded import RecordedModel
from hpcscientist.models.voice import Voice
from hpcscientist.ports.author import Author
from hpcscientist.ports.library import Library
from hpcscientist.ports.model import Model
from hpcscientist.ports.proposer import Proposer, Reconsider
from hpcscientist.ports.telling import Notify
from hpcscientist.recipe.load import Recipe
from hpcscientist.records.asked.model import ModelReply, ModelRequest, Role
from hpcscientist.records.events import ReplyRecorded
from hpcscientist.system.interpreter import Interpreter


@dataclass(frozen=True, slots=True)
class Helpers:
    """Who answers the steps before code is written; None for a step that is left out."""

    surveyor: Surveyor | None = None
    finder: DirectionFinder | None = None
    novelty: NoveltyJudge | None = None
    feasibility: FeasibilityJudge | None = None
    analyst: Analyst | None = None


@dataclass(frozen=True, slots=True)
class Minds:
    """Who proposes and who writes code; `model` is None for the control arm.

    `control` proposes the ideas of the control arm beside a model's; None where it has none.
    `reconsider` gives a look-alike another proposal.
    """

    proposer: Proposer
    author: Author
    model: RecordedModel | None
    helpers: Helpers = field(default_factory=Helpers)
    crew: Crew = field(default_factory=Crew)
    control: Proposer | None = None
    reconsider: Reconsider | None = None


def control_minds(recipe: Recipe, seed: int) -> Minds:
    """Who thinks where no model does. Raises UsageError for a recipe without knobs."""
    return Minds(SearchProposer(recipe, seed), KnobAuthor(recipe), None)


def with_control(minds: Minds, recipe: Recipe, seed: int) -> Minds:
    """Have the control arm take its share of a model's campaign. Raises UsageError likewise."""
    control = control_minds(recipe, seed)
    author = TwoArms(minds.author, control.author)
    return replace(minds, author=author, control=control.proposer)


def model_minds(
    inner: Model,
    config: CampaignConfig,
    recipe: Recipe,
    session: Session,
    windows: Mapping[Role, Window] | None = None,
    library: Library | None = None,
    python: Interpreter | None = None,
) -> Minds:
    """Who asks a model in this campaign; every call is recorded and journalled.

    `windows` are the roles' contexts; without them prompts go out whole. `python` is what runs
    the code of ideas.
    """

    def on_reply(request: ModelRequest, reply: ModelReply, asked: int) -> None:
        session.journal.record(
            ReplyRecorded(
                idea_id=request.idea_id,
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
    return _minds(model, config, recipe, windows or {}, library, session.note, python)


def _minds(
    model: RecordedModel,
    config: CampaignConfig,
    recipe: Recipe,
    windows: Mapping[Role, Window],
    library: Library | None,
    notify: Notify,
    python: Interpreter | None,
) -> Minds:
    settings = config.settings
    proposer = ModelProposer(
        model,
        recipe,
        settings.seed,
        settings.ideation,
        windows.get("ideation"),
        reflections=settings.proposing.reflections if "reflect" in config.steps else 0,
        notify=notify,
    )
    author = ModelAuthor(
        model,
        recipe,
        settings.code,
        windows.get("code"),
        settings.authoring,
        python,
        idle=partial(model.idle, "code"),
    )
    helpers = _helpers(model, config, recipe, windows, library, notify)
    crew = _crew(model, config, recipe, windows)
    return Minds(proposer, author, model, helpers, crew, reconsider=proposer.reconsider)


def _crew(
    model: RecordedModel, config: CampaignConfig, recipe: Recipe, windows: Mapping[Role, Window]
) -> Crew:
    settings, steps, seed = config.settings, config.steps, config.settings.seed
    authoring = settings.authoring
    code = Voice(model, "code", settings.code, seed, windows.get("code"))
    review = Voice(model, "review", settings.review, seed, windows.get("review"))
    return Crew(
        planner=Planner(code, recipe) if "plan" in steps else None,
        advisor=Advisor(review, recipe, authoring.judges) if "advise" in steps else None,
        analyst=RunAnalyst(review, recipe, authoring.further_runs) if "analyse" in steps else None,
    )


def _helpers(
    model: RecordedModel,
    config: CampaignConfig,
    recipe: Recipe,
    windows: Mapping[Role, Window],
    library: Library | None,
    notify: Notify,
) -> Helpers:
    settings, steps = config.settings, config.steps
    proposing, literature, seed = settings.proposing, settings.literature, settings.seed
    ideation = Voice(model, "ideation", settings.ideation, seed, windows.get("ideation"))
    review = Voice(model, "review", settings.review, seed, windows.get("review"))
    rounds, hits = proposing.novelty_rounds, proposing.novelty_hits
    return Helpers(
        surveyor=Surveyor(ideation, review, library, literature) if "survey" in steps else None,
        finder=DirectionFinder(
            ideation, review, recipe, proposing.directions, settings.loop.similarity, notify
        )
        if "directions" in steps
        else None,
        novelty=NoveltyJudge(review, library, rounds, hits) if "novelty" in steps else None,
        feasibility=FeasibilityJudge(review, recipe) if "feasibility" in steps else None,
        analyst=Analyst(review, library, literature) if "concepts" in steps else None,
    )
