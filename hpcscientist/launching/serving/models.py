"""Which models are served for a campaign or alone, how they are laid out, and their serving."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from hpcscientist.config.settings import ServingSettings
from hpcscientist.errors import ServingError
from hpcscientist.files.atomic import write_text
from hpcscientist.launching.serving import nodes
from hpcscientist.launching.serving.nodes import Kept, machine_of
from hpcscientist.models.open import parse_spec
from hpcscientist.models.serving.checking import interpreter, tensors, weights
from hpcscientist.models.serving.fitting import drafting, shares
from hpcscientist.models.serving.fitting.drafting import Allocation
from hpcscientist.models.serving.fitting.layout import Layout, Machine, thinking
from hpcscientist.models.serving.fitting.layout import requests_at_once as requests
from hpcscientist.models.serving.order import Endpoint, ServingPaths
from hpcscientist.models.serving.plane import Launcher, Plane
from hpcscientist.models.serving.steps import SlurmSteps
from hpcscientist.ports import Tell
from hpcscientist.records.model_calls import Role
from hpcscientist.records.site import Site

EngineConfigs = Mapping[Path, Mapping[str, Any]]
"""By a model's folder, what the serving engine reads in its config.json (`Engine.config`)."""


@dataclass(frozen=True, slots=True)
class Request:
    """What to serve, for whom and how; `keep` says by the whole machine what serving must leave."""

    paths: ServingPaths
    owner: str
    folders: tuple[Path, ...]
    settings: ServingSettings
    site: Site
    keep: Callable[[Machine], Kept] = lambda machine: Kept()


def specs(roles: Mapping[Role, str]) -> tuple[str, ...]:
    """Return the SPECs of a campaign's roles that are to be served here, each once."""
    return tuple(s for s in dict.fromkeys(roles.values()) if parse_spec(s).kind == "vllm")


def folder_of(spec: str, below: Path) -> Path:
    """Return the folder of a `vllm:` SPEC's weights. Raises WeightsError."""
    return tensors.resolve(parse_spec(spec).name or "", os.environ, below)


@contextmanager
def drafted(
    request: Request,
    allocation: Allocation,
    launcher: Launcher,
    tell: Tell,
    check: Callable[[], None] = lambda: None,
) -> Iterator[tuple[Plane, Machine]]:
    """A plane that is laid out and can be started, and the whole of its nodes, each.

    It is ended with the context. Raises ServingError, and what `check` does.
    """
    # Said where followers look: from a slow file system it takes minutes to try the engine.
    with contextlib.suppress(OSError):
        request.paths.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_text(request.paths.state, f"trying the engine: {launcher.python}\n")
    is_slurm = isinstance(launcher.steps, SlurmSteps)
    machine = machine_of(request.site, allocation, is_slurm=is_slurm)
    left = request.keep(machine).taken_from(machine)
    engine = require_engine(request.folders, launcher, check)
    layouts = lay_out(request.folders, left, request.settings, engine)
    for line in said(layouts):
        tell(line)
    order = drafting.draft(
        *(request.paths.root, request.owner, layouts, allocation, left),
        *(request.settings, request.site),
    )
    plane = Plane(order, launcher, allocation.number, tell)
    try:
        yield plane, machine
    finally:
        plane.close()


@contextmanager
def serve(
    request: Request,
    allocation: Allocation,
    launcher: Launcher,
    tell: Tell,
    check: Callable[[], None] = lambda: None,
) -> Iterator[tuple[Plane, Endpoint, Machine]]:
    """Serve models for as long as the context lasts; what is yielded last are the whole nodes.

    Raises ServingError, and what `check` does.
    """
    with drafted(request, allocation, launcher, tell, check) as (plane, machine):
        yield plane, plane.start(check), machine


def lay_out(
    folders: tuple[Path, ...],
    machine: Machine,
    settings: ServingSettings,
    engine: EngineConfigs = MappingProxyType({}),
) -> dict[Path, Layout]:
    """Return how each model is laid out on the nodes; `engine` is what `require_engine` returned.

    Raises ServingError.
    """
    layouts = shares.lay_out_all(_demands(folders, engine), machine, settings)
    return {folder: layouts[str(folder)] for folder in folders}


def doubt(
    folders: tuple[Path, ...],
    machine: Machine,
    settings: ServingSettings,
    engine: EngineConfigs = MappingProxyType({}),
) -> str:
    """Return why models that `lay_out` lays out may not fit after all, "" where they do."""
    return shares.doubt(_demands(folders, engine), machine, settings)


def forecast(
    folders: tuple[Path, ...],
    settings: ServingSettings,
    site: Site,
    count: int,
    engine: EngineConfigs = MappingProxyType({}),
) -> tuple[str, ...]:
    """Return how models are laid out: on so many nodes of a site, 0 for this machine; a line each.

    `engine` is what `require_engine` returned. Raises ServingError where it is certain that they do
    not fit.
    """
    machine, is_sure = nodes.foreseen(site, count)
    if machine is None:
        return unsettled(folders, settings, "the layout is made")
    try:
        layouts = lay_out(folders, machine, settings, engine)
    except ServingError as error:
        if is_sure:
            raise
        return (f"perhaps too large: {error}",)
    unsure = doubt(folders, machine, settings, engine)
    return (*said(layouts), *([unsure] if unsure else []))


def requests_at_once(
    folders: tuple[Path, ...],
    settings: ServingSettings,
    site: Site,
    count: int,
    engine: EngineConfigs = MappingProxyType({}),
) -> int:
    """Return how many requests models answer at once, laid out as `forecast` says; 0 where none
    are served, or that is not known here.
    """
    machine, _ = nodes.foreseen(site, count)
    if machine is None or not folders:
        return 0
    try:
        layouts = lay_out(folders, machine, settings, engine)
    except ServingError:
        return 0
    return sum(requests(one, settings) for one in layouts.values())


def said(layouts: Mapping[Path, Layout]) -> tuple[str, ...]:
    """Return how models are laid out, a line for each choice."""
    return tuple(f"{folder.name}: {why}" for folder, one in layouts.items() for why in one.why)


def unsettled(folders: tuple[Path, ...], settings: ServingSettings, what: str) -> tuple[str, ...]:
    """Return what there is to be said where `what` is done in the job alone, a line each."""
    return (
        f"{what} in the job: the memory of its GPUs is not known here",
        *(
            f"{folder.name}: {why}"
            for folder in folders
            for why in thinking(weights.check(folder), settings)
        ),
    )


def require_engine(
    folders: Iterable[Path], launcher: Launcher, check: Callable[[], None] = lambda: None
) -> EngineConfigs:
    """See that the serving interpreter can run each model, and return what it reads in config.json.

    It takes seconds, or minutes from a slow file system. `check` is called before each. Raises
    ServingError, and what `check` does.
    """
    python, read = launcher.interpreter(), dict[Path, Mapping[str, Any]]()
    for folder in folders:
        check()
        engine = interpreter.ask(folder, python)
        problem = interpreter.reason(folder, python, engine)
        if problem:
            raise ServingError(problem)
        read[folder] = engine.config
    return read


def _demands(
    folders: tuple[Path, ...], engine: EngineConfigs = MappingProxyType({})
) -> dict[str, shares.Demand]:
    return {str(f): shares.Demand(checkpoint=weights.check(f, engine.get(f))) for f in folders}
