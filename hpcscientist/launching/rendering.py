"""What a launch would submit, as scripts, and whether Slurm would take them; nothing is made."""

from __future__ import annotations

import re
import time

from hpcscientist import __version__
from hpcscientist.campaign.running.dispatcher import make_batch
from hpcscientist.campaign.specs import SpecFactory
from hpcscientist.config.partitions import choose
from hpcscientist.config.settings import PathSettings
from hpcscientist.errors import SchedulerRefused, UsageError
from hpcscientist.execution.backends.slurm.batches import need_of_limits, record_of
from hpcscientist.execution.backends.slurm.commands import Slurm
from hpcscientist.execution.backends.slurm.jobs import controller_job, submit
from hpcscientist.files.rundir import RunPaths
from hpcscientist.history.frozen import CampaignConfig
from hpcscientist.launching.jobs import room
from hpcscientist.launching.jobs.dispatch import make_job, nodes_of
from hpcscientist.launching.launch_plan import LaunchPlan
from hpcscientist.records.trial import Split, Stage
from hpcscientist.worker import element

_UNKNOWN = "(made at launch)"

# Other refusals pass: nodes that are down now, a submit limit that is reached now.
_FOR_GOOD = re.compile(
    r"invalid|unknown|unrecognized|not permitted|denied|configuration is not available|exceed"
    r"|can not be satisfied|wckey|reservation",
    re.IGNORECASE,
)


def scripts(checked: LaunchPlan) -> dict[str, str]:
    """Return every kind of script that a launch would submit, by what it is for.

    One array stands for all that go to the same of [[partitions]]: the others differ in name,
    number of tasks and resources only. Raises SiteError.
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
        return found  # trials are steps of that job
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
    """Ask Slurm whether it would take what the launch would submit, before anything is made.

    A wrong partition, account or QOS is found here, and a job that would hold the nodes of its
    own trials. Raises UsageError with Slurm's words, and SchedulerSilent when it does not answer.
    """
    settings, site = checked.settings, checked.placement.site
    slurm = Slurm.of(site)
    if checked.placement.backend == "slurm" and settings.nodes and not checked.inside:
        nodes = nodes_of(settings, checked.role_specs)
        room.require(slurm, site, checked.recipe.spec.resources, nodes)
    for purpose, script in scripts(checked).items():
        try:
            submit.check(slurm, script)
        except SchedulerRefused as error:
            if _FOR_GOOD.search(str(error)):
                raise UsageError(
                    f"Slurm would refuse {purpose.partition(':')[0]}: {error}; give another "
                    "--partition, --account, --qos or --constraint, or mend the site profile"
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
