"""A checked launch, the upper bounds of its trials, and the scripts that it would submit."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hpcscientist import __version__
from hpcscientist.campaign.dispatcher import make_batch
from hpcscientist.campaign.proposals.earlier import EarlierIdea
from hpcscientist.campaign.specs import SpecFactory
from hpcscientist.campaign.strategies import strategy_of
from hpcscientist.conduct.reference import is_piloted
from hpcscientist.config.extent import ONE, Versions, drawn_of
from hpcscientist.config.partitions import choose
from hpcscientist.config.settings import PathSettings, Settings
from hpcscientist.errors import SchedulerError, SchedulerRefused, UsageError
from hpcscientist.execution.backends.slurm import controller_job, submit
from hpcscientist.execution.backends.slurm.batches import need_of_limits, record_of
from hpcscientist.execution.backends.slurm.commands import Slurm
from hpcscientist.feedback.effort import most_seeds, steps_of
from hpcscientist.files.rundir import RunPaths
from hpcscientist.history.frozen import CampaignConfig
from hpcscientist.judgement.baseline_drift import reruns_at_most
from hpcscientist.launching.jobs.dispatch import make_job, nodes_of
from hpcscientist.launching.sites.choosing import Placement
from hpcscientist.models.open import parse_spec
from hpcscientist.models.serving.fitting.memory import parse_gres
from hpcscientist.ports import Embedder
from hpcscientist.recipe.load import Recipe
from hpcscientist.recipe.schema import Resources, StepSpec
from hpcscientist.records.model_calls import Role
from hpcscientist.records.site import Site
from hpcscientist.records.trial import Split, Stage
from hpcscientist.system import plugins
from hpcscientist.worker import element

# Checks that the job that drives a campaign leaves nodes for trials that queue beside it.


# One row per node and partition: node, partition, the same with * for the default partition,
# whether jobs share nodes there, CPUs, MiB, generic resources.
_SINFO = "--format=%N|%R|%P|%h|%c|%m|%G"


@dataclass(frozen=True, slots=True)
class NodeNeeds:
    """What a job needs of a node: CPUs, MiB (0 if not requested), GPUs."""

    cpus: int
    memory_mb: int
    gpus: int


@dataclass(frozen=True, slots=True)
class PartitionNode:
    """A node of a partition; `is_shared` is false if jobs get whole nodes there."""

    name: str
    partition: str
    is_default: bool
    is_shared: bool
    has: NodeNeeds


def require_room(slurm: Slurm, site: Site, resources: Resources, nodes: int) -> None:
    """Raise UsageError if a controller job of that many nodes would leave no node for its trials.

    Does nothing if Slurm does not show what its nodes have.
    """
    try:
        found = parse_sinfo(slurm.run("sinfo", "--Node", "--noheader", _SINFO))
    except SchedulerError:
        return
    most = most_nodes(found, site, resources)
    if most is None or nodes <= most:
        return
    fewer = f"give --nodes {most}, " if most else ""
    alone = "" if most else "leave --nodes out and drive from here, "
    raise UsageError(
        f"--nodes {nodes}: the driver's job would hold every node that trials can run on "
        f"({_words(site.slurm.partition)}), so trials would wait forever; {fewer}{alone}set "
        "serving.trials_inside = true, or name another partition in the site profile's [controller]"
    )


def parse_sinfo(sinfo: str) -> list[PartitionNode]:
    """Return the nodes that sinfo printed."""
    found = []
    for line in sinfo.splitlines():
        fields = [field.strip() for field in line.split("|")]
        if len(fields) != 7 or not (fields[4].isdigit() and fields[5].isdigit()):
            continue
        name, partition, marked, shares, cpus, memory, gres = fields
        gpus = sum(count for _, count in parse_gres(gres))
        found.append(
            PartitionNode(
                name=name,
                partition=partition,
                is_default=marked.endswith("*"),
                is_shared=not shares.lower().startswith("excl"),
                has=NodeNeeds(int(cpus), int(memory), gpus),
            )
        )
    return found


def most_nodes(nodes: Sequence[PartitionNode], site: Site, resources: Resources) -> int | None:
    """Return how many nodes the controller job may hold and still leave room for trials.

    None means any number; also if no node holds a trial at all, because Slurm will report that.
    """
    slurm, own = site.slurm, site.controller
    asks_memory = slurm.memory != "none"
    memory_mb = resources.memory_mb + slurm.memory_margin_mb
    trial = NodeNeeds(resources.cpus, memory_mb if asks_memory else 0, resources.gpus)
    driver = NodeNeeds(own.cpus, own.memory_mb if asks_memory else 0, own.gpus)
    fit = {n.name: n for n in _of(nodes, slurm.partition, slurm.exclude) if _fits(n.has, trial)}
    if not fit:
        return None
    held = {
        n.name: n
        for n in _of(nodes, own.partition or slurm.partition, slurm.exclude)
        if _fits(n.has, driver)
    }
    is_whole = any(option.startswith("--exclusive") for option in own.extra)
    filled = {
        name
        for name, node in held.items()
        if name in fit
        and (
            is_whole
            or not (node.is_shared and fit[name].is_shared)
            or not _fits(_less(node.has, driver), trial)
        )
    }
    if fit.keys() - filled:
        return None
    # Nodes where no trial fits may all be held; of the others at least one must be left.
    return len(held.keys() - filled) + len(filled) - 1


def _of(
    nodes: Sequence[PartitionNode], partitions: str, excluded: Sequence[str]
) -> list[PartitionNode]:
    names = partitions.split(",")
    return [
        node
        for node in nodes
        if (node.partition in names if partitions else node.is_default)
        and node.name not in excluded
    ]


def _fits(has: NodeNeeds, wanted: NodeNeeds) -> bool:
    return has.cpus >= wanted.cpus and has.memory_mb >= wanted.memory_mb and has.gpus >= wanted.gpus


def _less(has: NodeNeeds, taken: NodeNeeds) -> NodeNeeds:
    return NodeNeeds(has.cpus - taken.cpus, has.memory_mb - taken.memory_mb, has.gpus - taken.gpus)


def _words(partition: str) -> str:
    return f"partition {partition}" if partition else "the default partition"


@dataclass(frozen=True, slots=True)
class LaunchPlan:
    """A checked launch. `model_assumed`: no --model was given.

    `steps` are the optional stages that the campaign has. `embedder` finds similar ideas; None for
    the control arm, which compares no texts. `earlier` are ideas that join the bank before the
    first idea. `layout`: the layout of the models to serve, one line each. `inside`: how many
    trials run at once in the controller job, 0 if trials run elsewhere. `proposals`: the numbers
    of the ideas that a playbook proposes, None if a model is asked.
    """

    settings: Settings
    recipe: Recipe
    model_spec: str
    model_name: str
    role_specs: dict[Role, str]
    model_assumed: bool
    placement: Placement
    run_dir: Path
    steps: tuple[str, ...]
    embedder: Embedder | None
    earlier: tuple[EarlierIdea, ...] = ()
    layout: tuple[str, ...] = ()
    inside: int = 0
    proposals: frozenset[int] | None = None

    @property
    def plugins(self) -> tuple[str, ...]:
        """The other packages that the campaign uses, with their versions."""
        specs = (self.model_spec, *self.role_specs.values())
        return plugins.origins(
            {
                "stages": self.steps,
                "strategies": (self.settings.authoring.search,),
                "backends": (self.placement.backend,),
                "models": tuple(parse_spec(spec).kind for spec in specs),
            }
        )

    @property
    def unproposed(self) -> tuple[int, ...]:
        """The numbers of the requested ideas that the playbook does not hold."""
        if self.proposals is None:
            return ()
        settings, held = self.settings, self.proposals
        numbers = range(1, settings.ideas + 1)
        drawn = [drawn_of(number, settings.control) for number in range(settings.ideas + 1)]
        return tuple(n for n in numbers if n not in held and drawn[n] == drawn[n - 1])

    @property
    def is_paid(self) -> bool:
        """Whether any role asks a model: all but playbooks cost something."""
        return any(parse_spec(spec).kind != "playbook" for spec in self.role_specs.values())

    @property
    def trials_at_most(self) -> int:
        """The upper bound of the trials.

        It counts the baseline; for each attempt a pilot, every step and all seeds (only a pilot
        for the attempts of a tree that a better one beats); and confirmations of every idea and
        the baseline.
        """
        further, beside = self.further_attempts_at_most, self.beside_at_most
        own = self.seeds_at_most + self.reference_pilots + self.reruns
        main = self.main_attempts_at_most * (1 + self.seeds_at_most)
        each = beside + main + further * (1 + self.further_seeds)
        searched = own + self.settings.ideas * each
        searched += self.step_trials_at_most * len(self.climbed)
        return searched + self.confirm_seeds * (1 + self.settings.ideas)

    @property
    def climbed(self) -> tuple[StepSpec, ...]:
        """The budget steps between pilot and full that ideas climb."""
        return steps_of(self.settings.loop, self.recipe.spec.budgets)

    @property
    def step_trials_at_most(self) -> int:
        """The upper bound of the trials on each step, including the baseline's; 0 without steps.

        Further runs climb no steps.
        """
        if not self.climbed:
            return 0
        return 1 + self.settings.ideas * self.main_attempts_at_most

    @property
    def seeds_at_most(self) -> int:
        """The most seeds of an idea's attempt, which is also the baseline's number of seeds."""
        return most_seeds(self.settings.loop, self.recipe.spec.seeds)

    @property
    def further_seeds(self) -> int:
        """The seeds of a further run."""
        return min(self.recipe.spec.seeds, self.seeds_at_most)

    @property
    def confirm_seeds(self) -> int:
        """How many seeds each improvement and the baseline run on the test split; 0 for none."""
        loop = self.settings.loop
        return (loop.confirm_seeds or self.recipe.spec.seeds) if loop.confirm else 0

    @property
    def reruns(self) -> int:
        """The upper bound of the baseline's reruns, which detect drift."""
        return reruns_at_most(self.settings)

    @property
    def reference_pilots(self) -> int:
        """The number of pilots of the reference: one or none."""
        return int(is_piloted(self.settings, self.steps, self.recipe.spec.objective))

    @property
    def attempts_at_most(self) -> int:
        """The upper bound of the versions of one idea's code; the control arm fixes none."""
        if self.model_spec == "search":
            return 1
        fixed = 1 + self.settings.loop.debug_rounds + self.further_attempts_at_most
        advised = self.settings.authoring.advice_rounds if "advise" in self.steps else 0
        return self.beside_at_most + fixed + advised

    @property
    def main_attempts_at_most(self) -> int:
        """The upper bound of the versions that may run seeds for their idea's finding."""
        return self.attempts_at_most - self.further_attempts_at_most - self.beside_at_most

    @property
    def beside_at_most(self) -> int:
        """The upper bound of the versions with only a pilot: their tree has a better version."""
        return self.versions.beside

    @property
    def versions(self) -> Versions:
        """The numbers of versions of an idea's code; ideas of the control arm have one."""
        if self.model_spec == "search":
            return ONE
        return strategy_of(self.settings).versions(self.settings, self.steps)

    @property
    def further_attempts_at_most(self) -> int:
        """The upper bound of the versions for an idea's further runs."""
        return self.versions.runs_at_most * (1 + self.settings.loop.debug_rounds)


# The scripts that a launch would submit, and whether Slurm would accept them. Nothing is created.

_UNKNOWN = "(made at launch)"

# Refusals that waiting does not fix. Others do pass, such as down nodes or a submit limit.
_FOR_GOOD = re.compile(
    r"invalid|unknown|unrecognized|not permitted|denied|configuration is not available|exceed"
    r"|can not be satisfied|wckey|reservation",
    re.IGNORECASE,
)


def scripts(checked: LaunchPlan) -> dict[str, str]:
    """Return every kind of script that a launch would submit, by its purpose.

    One array stands for all arrays of the same row of [[partitions]]: they differ only in name,
    number of tasks and resources. Raises SiteError.
    """
    if checked.placement.backend != "slurm":
        return {}
    paths, config = RunPaths(checked.run_dir), _provisional(checked)
    found = {}
    if checked.settings.nodes:
        nodes = nodes_of(checked.settings, checked.role_specs)
        job = make_job(paths, config.campaign_id, nodes, config.site)
        found["the job that drives the campaign"] = controller_job.script(job)
    if checked.settings.serving.trials_inside:
        return found  # trials run as steps of that job
    factory = SpecFactory(config=config, recipe=checked.recipe, paths=paths)
    kinds = {"the baseline's": factory.baseline(), "a pilot": [factory.baseline_pilot()]}
    for index, step in enumerate(factory.steps):
        kinds[f"the {step.name} budget"] = [factory.reference(Stage.STEP, index)]
    seen = set()
    for name, trials in kinds.items():
        need = need_of_limits(config.site.slurm, trials[0].limits)
        if (site := choose(config.site, need)) in seen:
            continue
        seen.add(site)
        batch = make_batch([[trial] for trial in trials])
        record = record_of(config.campaign_id, paths.trials, batch, time.time())
        folder = paths.submission / record.batch_id
        text = submit.script(config.site, record, folder, element.__name__)
        found[f"an array of trials: {name}"] = text
    return found


def check(checked: LaunchPlan) -> None:
    """Ask Slurm whether it would accept the launch's jobs, before anything is created.

    This finds a wrong partition, account or QOS, and a controller job that would hold the nodes of
    its own trials. Raises UsageError with Slurm's words, and SchedulerSilent when it does not
    answer.
    """
    settings, site = checked.settings, checked.placement.site
    slurm = Slurm.of(site)
    if checked.placement.backend == "slurm" and settings.nodes and not checked.inside:
        nodes = nodes_of(settings, checked.role_specs)
        require_room(slurm, site, checked.recipe.spec.resources, nodes)
    for purpose, script in scripts(checked).items():
        try:
            submit.check(slurm, script)
        except SchedulerRefused as error:
            if _FOR_GOOD.search(str(error)):
                raise UsageError(
                    f"Slurm would refuse {purpose.partition(':')[0]}: {error}; give another "
                    "--partition, --account, --qos or --constraint, or fix the site profile"
                ) from error


def _provisional(checked: LaunchPlan) -> CampaignConfig:
    place = checked.placement
    return CampaignConfig(
        campaign_id=f"{checked.recipe.spec.name}-00000000",
        created=_UNKNOWN,
        package_version=__version__,
        python=place.home.python,
        recipe_name=checked.recipe.spec.name,
        recipe_origin=str(checked.recipe.folder),
        recipe_hash=_UNKNOWN,
        data_hash=_UNKNOWN,
        views=dict.fromkeys(Split, _UNKNOWN),
        labels=dict.fromkeys(Split, _UNKNOWN),
        model_spec=checked.model_spec,
        model_name=checked.model_name,
        role_specs=checked.role_specs,
        isolation=place.isolation,
        image=place.image,
        backend=place.backend,
        site=place.site,
        slots=place.slots,
        in_flight=place.in_flight,
        lag=place.lag,
        settings=checked.settings.model_copy(update={"paths": PathSettings()}),
    )
