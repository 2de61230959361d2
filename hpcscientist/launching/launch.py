"""Checks everything that a launch needs, without side effects; `create_run_dir` comes next."""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from hpcscientist.campaign import stages
from hpcscientist.campaign.proposals import campaign_library, earlier
from hpcscientist.config import model_size, partitions
from hpcscientist.config.layers import load_site
from hpcscientist.config.settings import Settings, SlurmOverrides
from hpcscientist.errors import CampaignBusy, UsageError
from hpcscientist.execution.backends.slots import refuse_patterns
from hpcscientist.execution.sandbox import isolation
from hpcscientist.files.handed import expanded
from hpcscientist.files.lock import named
from hpcscientist.files.rundir import RunPaths
from hpcscientist.history import frozen, stale_launch
from hpcscientist.history.status import read_holder
from hpcscientist.judgement.summary import SELF_REPORTED_NOTE
from hpcscientist.launching import embedder_choice
from hpcscientist.launching.launch_plan import LaunchPlan
from hpcscientist.launching.serving import colocated_trials, nodes, sharing
from hpcscientist.launching.serving import models as serving
from hpcscientist.launching.serving.colocated_trials import Division
from hpcscientist.launching.sites.choosing import place
from hpcscientist.models.embedding.sentences import open_embedder
from hpcscientist.models.open import open_models, parse_spec, role_specs
from hpcscientist.models.serving.checking import weights
from hpcscientist.models.serving.fitting import drafting
from hpcscientist.recipe.load import Recipe, find, is_shipped, load
from hpcscientist.records.model_calls import Role

# Changes the site profile of an existing campaign, which does not affect its results.


def change_site(paths: RunPaths, site: str, overrides: SlurmOverrides, folder: Path) -> None:
    """Submit the campaign's further trials with another profile or other Slurm options.

    `site` is a profile's file, "" to keep the campaign's; `overrides` take precedence over it.
    Jobs that are already queued stay as they are. Raises UsageError for a campaign without Slurm,
    ConfigError, and CampaignBusy while a driver runs.
    """
    config = frozen.read(paths)
    if config.backend != "slurm":
        raise UsageError(f"{paths.root}: its trials run on one machine; leave those options out")
    holder = read_holder(paths.lock)
    if holder is not None and holder["alive"]:
        raise CampaignBusy(
            f"{paths.root}: {named(holder)} drives it; stop it with `hpcsci cancel` before its "
            "site profile is changed"
        )
    chosen = load_site(site, folder) if site else config.site
    moved = partitions.overridden(chosen, overrides.model_dump())
    frozen.write(paths, config.model_copy(update={"site": moved}))


QUICKSTART = "digits"
_NODES_OWN = ("/tmp", "/var/tmp", "/dev/shm", "/run")


def check(settings: Settings, folder: Path) -> LaunchPlan:
    """Check a launch from a working directory, and return its plan; write nothing.

    Raises UsageError (recipe, model, site, sandbox, run directory), EndpointError, ServingError
    (models that cannot be served), or ModelError (embedding model).
    """
    settings = settle(settings, folder)
    _check_settings(settings)
    _check_allocation(settings)
    path = find(settings.recipe)
    recipe = load(path, settings.setup)
    if recipe.spec.primary.is_self_reported:
        settings = without_confirmation(settings)
    spec = settings.model or _assumed_model(recipe, path)
    parsed = parse_spec(spec)
    placement = place(settings, recipe, folder)
    if settings.nodes and placement.backend != "slurm":
        raise UsageError(
            f"--nodes {settings.nodes}: trials run on this machine ({placement.where.why}), and "
            "only Slurm can run a job that drives them; leave --nodes out, or give --backend slurm"
        )
    # The control arm asks no model, even if the configuration names models for the roles.
    specs = (
        {}
        if parsed.kind == "search"
        else _found(role_specs(settings, spec, stages.roles()), folder)
    )
    ours = tuple(serving.folder_of(own, folder) for own in serving.specs(specs))
    divided = colocated_trials.check(settings, placement.site, recipe.spec.resources, ours)
    spec = _found({"ideation": spec}, folder)["ideation"] if specs else spec
    probed = asyncio.run(_probe(specs, recipe, settings)) if specs else _Probed("search")
    settings, small = model_size.fitted(settings, specs)
    if small:
        placement = replace(placement, notes=(*placement.notes, small))
    trusted = all(own == "playbook" and is_shipped(path) for own in specs.values())
    isolation.require_permission(placement.isolation, trusted, settings.allow_unsandboxed)
    _check_control(settings, parsed.kind == "search", recipe)
    found = LaunchPlan(
        settings=settings,
        recipe=recipe,
        model_spec=spec,
        model_name=probed.name,
        role_specs=specs,
        model_assumed=not settings.model,
        placement=placement,
        run_dir=_run_dir(settings, recipe, folder),
        steps=stages.applied(
            settings, campaign_library.has_library(settings, recipe), probed.recorded
        )
        if specs
        else (),
        proposals=probed.proposals,
        embedder=None if parsed.kind == "search" else open_embedder(settings.embedding),
        earlier=earlier.read(settings, recipe.spec.name),
    )
    if recipe.spec.primary.is_self_reported:
        placement = replace(placement, notes=(*placement.notes, SELF_REPORTED_NOTE))
    if unseen := _unseen(found):
        placement = replace(placement, notes=(*placement.notes, unseen))
    # Last, because it takes longest.
    return _beside_models(replace(found, placement=placement), ours, divided)


def _check_allocation(settings: Settings) -> None:
    loop = settings.loop
    if loop.allocation != "fixed" and loop.seeds_at_most == 1:
        raise UsageError(
            "loop.seeds_at_most = 1: one seed cannot tell an idea from noise; give at least 2, "
            "or 0 for a number that follows from the recipe's seeds"
        )
    if loop.allocation == "fixed" and loop.seeds_at_most:
        raise UsageError(
            f"loop.seeds_at_most = {loop.seeds_at_most}: loop.allocation is fixed, which gives "
            "every idea the recipe's seeds; set it to sequential or halving, or leave this out"
        )


def settle(settings: Settings, folder: Path) -> Settings:
    """Return settings whose paths mean the same from any working directory."""
    if settings.data:
        data = str((folder / expanded(settings.data)).absolute())
        settings = settings.model_copy(update={"data": data})
    return campaign_library.settle(
        embedder_choice.settle(earlier.settle(settings, folder), folder), folder
    )


def without_confirmation(settings: Settings) -> Settings:
    """Return settings without confirmation: self-reported metrics cannot be confirmed."""
    loop = settings.loop.model_copy(update={"confirm": False})
    return settings.model_copy(update={"loop": loop})


def _assumed_model(recipe: Recipe, path: Path) -> str:
    if recipe.spec.name == QUICKSTART and is_shipped(path):
        return "playbook"
    raise UsageError(
        f"recipe {recipe.spec.name!r} needs a model: give --model http://HOST:PORT/v1#NAME, "
        "--model search, or --model playbook"
    )


def _found(specs: dict[Role, str], folder: Path) -> dict[Role, str]:
    """Return SPECs whose `vllm:` weights are checked and named by their absolute folder.

    Raises WeightsError, before anything is submitted.
    """
    found: dict[str, str] = {}
    for spec in serving.specs(specs):
        path = serving.folder_of(spec, folder)
        weights.require_whole(path)
        found[spec] = f"vllm:{path}"
    return {role: found.get(spec, spec) for role, spec in specs.items()}


def _beside_models(found: LaunchPlan, folders: tuple[Path, ...], divided: Division) -> LaunchPlan:
    """Return the plan with the models' layout, their share of nodes beside trials, and enough ideas
    in flight to keep the models busy.

    Raises ServingError if the models cannot be served. The engine on a job's nodes is checked in
    the job, before it starts.
    """
    found = replace(found, inside=divided.at_once)
    if not folders:
        return found
    settings, place = found.settings, found.placement
    said = divided.lines
    resources = found.recipe.spec.resources
    if settings.nodes:
        engine = serving.ask_engine(folders, place.site)
    else:
        engine = serving.require_engine(folders, nodes.launcher_of(place.site, ""))
    if place.backend == "local":
        said = sharing.said_here(settings.serving, place.site, resources, folders, engine)
    given = (folders, settings.serving, place.site, settings.nodes, engine)
    said = said or serving.forecast(*given)
    requests = serving.requests_at_once(*given)
    placement = place.beside_models(settings, found.recipe.spec, requests)
    return replace(found, layout=said, placement=placement)


def _check_control(settings: Settings, alone: bool, recipe: Recipe) -> None:
    if alone and settings.control:
        raise UsageError(
            "--model search is the control arm itself; leave --control out, or give a model"
        )
    if (alone or settings.control) and not recipe.spec.knobs:
        other = "choose another --model" if alone else "leave --control out"
        raise UsageError(
            f"recipe {recipe.spec.name!r} has no knobs to search; add [[knobs]] to its "
            f"recipe.toml or {other}"
        )


def _check_settings(settings: Settings) -> None:
    if settings.proposing.mode == "guided" and not settings.proposing.instruction.strip():
        raise UsageError(
            "proposing.mode guided needs an instruction: give --instruction TEXT, or another mode"
        )
    if settings.loop.confirm and settings.loop.confirm_seeds == 1:
        raise UsageError(
            "loop.confirm_seeds = 1: one seed has no p-value and confirms nothing; give 0 (as "
            "many as the recipe has) or at least 2, or loop.confirm = false"
        )


@dataclass(frozen=True, slots=True)
class _Probed:
    """What probing the models found: their names, and what playbooks hold.

    `recorded` are the stages that playbooks hold, by role. `proposals` are the numbers of the
    ideas that a playbook proposes, None if a model is asked.
    """

    name: str
    recorded: dict[Role, frozenset[str]] = field(default_factory=dict)
    proposals: frozenset[int] | None = None


async def _probe(specs: dict[Role, str], recipe: Recipe, settings: Settings) -> _Probed:
    """Check that the models that are already served answer, and return what was found."""
    ours = [serving.folder_of(spec, Path()) for spec in serving.specs(specs)]
    names = list(drafting.names_of(ours).values())
    found = _Probed("")
    others = {role: s for role, s in specs.items() if parse_spec(s).kind != "vllm"}
    if others:
        models = open_models(others, recipe.playbook, settings, replies=stages.replies())
        try:
            await models.probe()
            names.insert(0, models.name)
            found = _Probed("", models.recorded(), models.proposals())
        finally:
            await models.close()
    return replace(found, name=", ".join(names))


def _run_dir(settings: Settings, recipe: Recipe, folder: Path) -> Path:
    path = _named_dir(settings, recipe, folder)
    refuse_patterns(path)
    return path


def _unseen(found: LaunchPlan) -> str:
    """Return a warning if compute nodes probably do not see the run directory, else ""."""
    near = [place for place in _NODES_OWN if found.run_dir.is_relative_to(place)]
    if not near or found.placement.backend != "slurm":
        return ""
    return (
        f"the run directory is below {near[0]}, which is usually local to each node: trials fail "
        "if nodes do not see it; `hpcsci doctor --run-dir DIR` tests a folder"
    )


def _named_dir(settings: Settings, recipe: Recipe, folder: Path) -> Path:
    if settings.run_dir:
        path = (folder / settings.run_dir).absolute()
        if not str(path).isprintable():  # it is written to TOML, JSON and terminals
            raise UsageError(f"{str(path)!r}: has unprintable characters; give another --run-dir")
        for place in (path, *path.parents):
            if (place.exists() or place.is_symlink()) and not place.is_dir():
                raise UsageError(f"{place}: is not a folder; give another --run-dir")
        if path.is_dir() and any(path.iterdir()) and not stale_launch.are_there(RunPaths(path)):
            raise (
                stale_launch.taken(path)
                if stale_launch.is_being_made(RunPaths(path))
                else not_empty(path)
            )
        return path
    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    return (folder / "scratch" / f"{recipe.spec.name}-{stamp}-{secrets.token_hex(2)}").absolute()


def not_empty(root: Path) -> UsageError:
    """Return the error for a run directory that is not empty."""
    return UsageError(
        f"{root}: is not empty; continue with `hpcsci resume`, or give another --run-dir"
    )
