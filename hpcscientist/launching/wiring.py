"""Selects the adapters of a driver's session and connects them; nothing else does this."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hpcscientist.campaign import stages
from hpcscientist.campaign.agents import (
    Agents,
    Session,
    control_agents,
    model_agents,
    with_control,
)
from hpcscientist.campaign.campaign_rules import rules_of
from hpcscientist.campaign.claims import Claims
from hpcscientist.campaign.conductor import Conductor, Performers
from hpcscientist.campaign.dispatcher import Dispatcher, journalled
from hpcscientist.campaign.integrity import FileIntegrity
from hpcscientist.campaign.proposals import campaign_library, earlier
from hpcscientist.campaign.proposals.admission import Admission
from hpcscientist.campaign.proposals.proposal_context import (
    Batches,
    Grounding,
    Knowledge,
    ProposalContext,
)
from hpcscientist.campaign.pursuit.attempt_store import AttemptStore
from hpcscientist.campaign.pursuit.effort import EffortDecider
from hpcscientist.campaign.pursuit.idea_runner import idea_runner
from hpcscientist.campaign.result_files import Compactor, ResultFiles
from hpcscientist.campaign.specs import SpecFactory
from hpcscientist.campaign.trial_runner import DueTrials, TrialRunner
from hpcscientist.campaign.waiting import Runs
from hpcscientist.conduct.rules import Rules
from hpcscientist.config.settings import LoopSettings, Settings
from hpcscientist.confirmation.looks import Looks
from hpcscientist.errors import RunDirectoryError
from hpcscientist.execution.sandbox.container import of_candidates
from hpcscientist.files import vault
from hpcscientist.history import frozen
from hpcscientist.history.frozen import CampaignConfig
from hpcscientist.history.state import CampaignState
from hpcscientist.ideation.bank import Bank, defined
from hpcscientist.ideation.directions import DIRECTIONS
from hpcscientist.judgement.baseline_drift import BaselineDrift
from hpcscientist.judgement.evidence import Evidences
from hpcscientist.judgement.findings import campaign_findings
from hpcscientist.launching import embedder_choice
from hpcscientist.launching.serving.driver_sidecar import DriverSidecar
from hpcscientist.launching.serving.sharing import NO_ENGINES
from hpcscientist.launching.sites import choosing
from hpcscientist.launching.sites.cluster import Cluster, DriverAllocation
from hpcscientist.launching.sites.machine import ThisMachine
from hpcscientist.literature.survey import SURVEY
from hpcscientist.models.open import open_models, role_specs
from hpcscientist.ports import Embedder, Model
from hpcscientist.recipe.folder_copy import LaunchedRecipe
from hpcscientist.recipe.load import Recipe
from hpcscientist.records.trial import Isolation, Split


@dataclass(slots=True)
class Wired:
    """A conductor, with the backend and the model that must be closed after it.

    `lets_go`: jobs in the scheduler go on when this driver ends.
    """

    config: CampaignConfig
    state: CampaignState
    conductor: Conductor
    backend: Runs
    model: Model | None
    embedder: Embedder | None
    lets_go: bool = False

    def let_go(self) -> None:
        """Leave the scheduler's jobs running when this driver ends, if there is a scheduler."""
        self.backend.let_go()
        self.lets_go = self.backend.outlives_driver

    async def close(self) -> None:
        """Stop the trials that still run, and close connections."""
        await self.backend.close()
        if self.model is not None:
            await self.model.close()


def restore(session: Session) -> None:
    """Restore the files of an ended campaign to what was recorded.

    Raises RunDirectoryError and OSError.
    """
    paths, journal, state = session.paths, session.journal, session.state
    config = frozen.read(paths)
    recipe = LaunchedRecipe(paths.recipe, config.recipe_hash).load()
    FileIntegrity.of(paths, journal, state, config).begin()
    ResultFiles(paths, journal, state, SpecFactory(config, recipe, paths)).restore()
    Claims(paths, config, recipe, state).write_all()


def wire(session: Session, plane: DriverSidecar | None = None) -> Wired:
    """Assemble a campaign from its run directory; `plane` serves the campaign's own models.

    Raises RunDirectoryError when the recipe or the embedder is not the one of the launch,
    ModelError when the embedder cannot be opened, UsageError and SchedulerError when trials
    cannot run inside the job.
    """
    paths = session.paths
    config = frozen.read(paths)
    recipe = LaunchedRecipe(paths.recipe, config.recipe_hash).load()
    integrity = FileIntegrity.of(paths, session.journal, session.state, config)
    integrity.begin()
    vault.require_campaign_key(config.campaign_id)
    for key in config.labels.values():
        if not vault.path_of(key).is_dir():
            raise RunDirectoryError(
                f"{vault.path_of(key)}: the labels of this campaign are gone; restore them, or "
                "set paths.private to where they lie"
            )
    if not config.has_intact_labels():
        raise RunDirectoryError(
            f"{vault.path_of('')}: the labels of this campaign changed since launch; restore "
            f"{' and '.join(config.labels.values())} there, or launch a new campaign"
        )
    if not config.has_intact_image():
        raise RunDirectoryError(
            f"{config.image}: was changed since launch; restore the image, or launch a new campaign"
        )
    if config.isolation is Isolation.NONE and not config.has_intact_data():
        raise RunDirectoryError(
            f"{config.views[Split.VALIDATION]}: the prepared data changed since launch; restore "
            "them, or delete them and launch anew"
        )
    embedder = None
    if config.model_spec == "search":
        agents = control_agents(recipe, config.settings.seed)
    else:
        specs = config.role_specs or role_specs(config.settings, config.model_spec, stages.roles())
        roles = open_models(
            specs,
            recipe.playbook,
            config.settings,
            served=plane.served() if plane else None,
            replies=stages.replies(),
        )
        embedder = embedder_choice.reopen(config, session.embedder)
        library = None
        if stages.reads_library(config.steps):
            library = campaign_library.reopen(config, paths, session.teller("literature"), embedder)
        python = of_candidates(config.isolation, config.image, config.python)
        agents = model_agents(roles, config, recipe, session, roles.windows, library, python)
        if config.settings.control:
            agents = with_control(agents, recipe, config.settings.seed)
    backend = _backend(config, recipe, session, plane)
    return assemble(config, recipe, session, agents, backend, embedder, integrity)


def _backend(
    config: CampaignConfig, recipe: Recipe, session: Session, plane: DriverSidecar | None
) -> Dispatcher:
    site, engines = choosing.of(config), plane.engines if plane else NO_ENGINES
    if isinstance(site, ThisMachine) and plane is not None:
        site = replace(site, gpus=plane.gpus_left)
    elif isinstance(site, Cluster) and config.settings.serving.trials_inside and session.job_id:
        site = DriverAllocation(
            *(site.why, site.profile), session.job_id, recipe.spec.resources, engines
        )
    backend = site.open(session.paths, config.campaign_id, config.slots)
    return journalled(backend, session.journal, session.state, session.generation, session.note)


def assemble(
    config: CampaignConfig,
    recipe: Recipe,
    session: Session,
    agents: Agents,
    backend: Runs,
    embedder: Embedder | None = None,
    integrity: FileIntegrity | None = None,
) -> Wired:
    """Assemble a conductor from the given adapters; without an embedder, compare keywords."""
    rules, specs = rules_of(config, recipe, agents), SpecFactory(config, recipe, session.paths)
    integrity = integrity or FileIntegrity.of(session.paths, session.journal, session.state, config)
    attempt_store = AttemptStore(session.paths, session.journal, session.state, specs, integrity)
    spec = recipe.spec
    performers = Performers(
        rules=rules,
        state=session.state,
        admission=_admission(rules, recipe, session, agents, attempt_store, embedder),
        idea_runner=idea_runner(rules, session, agents, attempt_store),
        effort=EffortDecider(config.settings, specs, session.journal, session.state),
        due=DueTrials(specs, session.state, integrity),
        trials=_trials(specs, session, backend, integrity),
        baseline_drift=BaselineDrift(spec, config.settings, session.journal, session.state),
        looks=Looks(
            session.journal,
            session.state,
            findings=lambda: campaign_findings(
                session.state, spec.objective, config.settings, seeds=spec.seeds
            ),
            seeds=specs.fresh_seeds,
            unchanged=attempt_store.unchanged,
        ),
        compactor=Compactor(
            *(session.paths, session.journal, session.state),
            ResultFiles(session.paths, session.journal, session.state, specs),
        ),
        claims=Claims(session.paths, config, recipe, session.state),
    )
    conductor = Conductor(rules, session.state, session.journal, performers)
    return Wired(config, session.state, conductor, backend, agents.model, embedder)


def _admission(
    rules: Rules,
    recipe: Recipe,
    session: Session,
    agents: Agents,
    attempt_store: AttemptStore,
    embedder: Embedder | None,
) -> Admission:
    bank = Bank(_threshold(rules.settings.loop), embedder)
    return Admission(
        extent=rules.extent,
        paths=session.paths,
        journal=session.journal,
        knowledge=_knowledge(rules.settings, recipe, session, attempt_store),
        integrity=attempt_store.integrity,
        proposer=agents.proposer,
        control=agents.control,
        bank=earlier.seeded(bank, session.paths),
        context=_proposal_context(rules, recipe, session, agents, attempt_store.integrity),
        reconsider=agents.reconsider,
        names=defined(recipe.reference, recipe.spec.editable),
    )


def _trials(
    specs: SpecFactory, session: Session, backend: Runs, integrity: FileIntegrity
) -> TrialRunner:
    loop = specs.config.settings.loop
    return TrialRunner(
        paths=session.paths,
        journal=session.journal,
        state=session.state,
        backend=backend,
        generation=session.generation,
        retries=loop.machine_retries,
        pause_s=loop.machine_pause_s,
        data_changes=integrity.data_changes,
    )


def _knowledge(
    settings: Settings, recipe: Recipe, session: Session, attempt_store: AttemptStore
) -> Knowledge:
    loop = settings.loop
    return Knowledge(
        paths=session.paths,
        state=session.state,
        objective=recipe.spec.objective,
        settings=settings,
        feedback_tokens=loop.feedback_tokens,
        archive_size=loop.archive,
        tells=loop.feedback,
        seeds=recipe.spec.seeds,
        evidence=Evidences(session.paths, session.state, recipe.spec, attempt_store.curve).of,
        read=attempt_store.integrity.read,
    )


def _threshold(loop: LoopSettings) -> float:
    """Return the cosine above which an idea is rejected; 1 rejects none."""
    return loop.similarity if loop.independence else 1.0


def _proposal_context(
    rules: Rules, recipe: Recipe, session: Session, agents: Agents, integrity: FileIntegrity
) -> ProposalContext:
    settings = rules.settings
    surveyor, finder = agents.stages.get(SURVEY), agents.stages.get(DIRECTIONS)
    grounding = batches = None
    if surveyor is not None:
        shown = settings.literature.shown
        grounding = Grounding(
            *(session.paths, session.journal, surveyor, recipe.spec.topic, shown),
            integrity,
        )
    if finder is not None:
        batches = Batches(
            *(rules.extent, finder, settings.proposing.batch, session.paths, agents.model),
            integrity,
        )
    return ProposalContext(settings.proposing, grounding, batches, agents.model)
