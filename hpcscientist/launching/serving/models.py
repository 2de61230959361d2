"""The models to serve, for a campaign or alone: their folders, their layout, and their serving."""

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
from hpcscientist.errors import ServingError, WeightsError
from hpcscientist.files.atomic import write_text
from hpcscientist.launching.serving import nodes
from hpcscientist.launching.serving.nodes import Kept, machine_of
from hpcscientist.models.open import parse_spec
from hpcscientist.models.serving.checking import interpreter, tensors, weights
from hpcscientist.models.serving.fitting import drafting, shares
from hpcscientist.models.serving.fitting.drafting import PlaneAllocation
from hpcscientist.models.serving.fitting.layout import Layout, Machine, thinking
from hpcscientist.models.serving.fitting.layout import requests_at_once as requests
from hpcscientist.models.serving.order import Endpoint, ServingPaths
from hpcscientist.models.serving.plane import Launcher, Plane, SlurmSteps
from hpcscientist.ports import Tell
from hpcscientist.records.model_calls import Role
from hpcscientist.records.site import Site

EngineConfigs = Mapping[Path, Mapping[str, Any]]
"""What the serving engine reads in each model's config.json (`Engine.config`), by folder."""


@dataclass(frozen=True, slots=True)
class ServingRequest:
    """What to serve, for whom and how; `keep` returns the share of a machine that is not for it,
    from the machine and what `require_engine` returned.
    """

    paths: ServingPaths
    owner: str
    folders: tuple[Path, ...]
    settings: ServingSettings
    site: Site
    keep: Callable[[Machine, EngineConfigs], Kept] = lambda machine, engine: Kept()


def specs(roles: Mapping[Role, str]) -> tuple[str, ...]:
    """Return the `vllm:` SPECs of a campaign's roles, which the campaign serves, each once."""
    return tuple(s for s in dict.fromkeys(roles.values()) if parse_spec(s).kind == "vllm")


def folder_of(spec: str, below: Path) -> Path:
    """Return the folder of a `vllm:` SPEC's weights. Raises WeightsError."""
    return tensors.resolve(parse_spec(spec).name or "", os.environ, below)


@contextmanager
def drafted(
    request: ServingRequest,
    allocation: PlaneAllocation,
    launcher: Launcher,
    tell: Tell,
    check: Callable[[], None] = lambda: None,
) -> Iterator[tuple[Plane, Machine]]:
    """Yield a plane that is laid out and can be started, and one whole node of it.

    Ends the plane with the context. Raises ServingError, and what `check` does.
    """
    # Followers read this file: trying the engine takes minutes from a slow file system.
    with contextlib.suppress(OSError):
        request.paths.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_text(request.paths.state, f"trying the engine: {launcher.python}\n")
    is_slurm = isinstance(launcher.steps, SlurmSteps)
    machine = machine_of(request.site, allocation, is_slurm=is_slurm)
    engine = require_engine(request.folders, launcher, check)
    left = request.keep(machine, engine).taken_from(machine)
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
    request: ServingRequest,
    allocation: PlaneAllocation,
    launcher: Launcher,
    tell: Tell,
    check: Callable[[], None] = lambda: None,
) -> Iterator[tuple[Plane, Endpoint, Machine]]:
    """Serve models while the context lasts; yield the plane, its endpoint and one whole node.

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
    """Return why models may not fit although `lay_out` succeeds, "" if there is no doubt."""
    return shares.doubt(_demands(folders, engine), machine, settings)


def forecast(
    folders: tuple[Path, ...],
    settings: ServingSettings,
    site: Site,
    count: int,
    engine: EngineConfigs = MappingProxyType({}),
) -> tuple[str, ...]:
    """Return the layout of models on `count` nodes of a site (0: this machine), one line each.

    `engine` is what `require_engine` or `ask_engine` returned. Raises ServingError if the models
    certainly do not fit.
    """
    machine, is_sure = nodes.foreseen(site, count)
    if count and (why := unread(folders, engine)):
        return (f"the layout is made in the job: {why}",)
    if machine is None:
        return unsettled(folders, settings, "the layout is made", engine)
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
    """Return how many requests models answer at once in the layout that `forecast` describes.

    Returns 0 if none are served, or if it is not known here.
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
    """Return the layouts in words, one line for each choice."""
    return tuple(f"{folder.name}: {why}" for folder, one in layouts.items() for why in one.why)


def unsettled(
    folders: tuple[Path, ...],
    settings: ServingSettings,
    what: str,
    engine: EngineConfigs = MappingProxyType({}),
) -> tuple[str, ...]:
    """Return the lines for a launch that leaves `what` to the job."""
    return (
        f"{what} in the job: the memory of its GPUs is not known here",
        *(
            f"{folder.name}: {why}"
            for folder in folders
            for why in thinking(weights.check(folder, engine.get(folder)), settings)
        ),
    )


def unread(folders: Iterable[Path], engine: EngineConfigs) -> str:
    """Return which model's shape is not known here; "" if all are. Only the engine can read it."""
    for folder in folders:
        try:
            weights.check(folder, engine.get(folder))
        except WeightsError as error:
            return f"the engine there reads {folder.name}: {'; '.join(error.problems)}"
    return ""


def ask_engine(folders: Iterable[Path], site: Site) -> EngineConfigs:
    """Return what the engine reads in config.json of models whose shape cannot be read here.

    For a launch whose engine runs on other nodes. This machine may lack it; then nothing is
    returned for the model. Where all shapes are read here, no engine is started: that takes long.
    Raises ServingError for a wrong serving.python.
    """
    read = dict[Path, Mapping[str, Any]]()
    for folder in folders:
        if unread([folder], {}):
            read[folder] = interpreter.ask(folder, interpreter.command(site)).config
    return read


def require_engine(
    folders: Iterable[Path], launcher: Launcher, check: Callable[[], None] = lambda: None
) -> EngineConfigs:
    """Check that the serving interpreter can run each model; return what it reads in config.json.

    This takes seconds, or minutes from a slow file system. `check` is called before each model.
    Raises ServingError, and what `check` does.
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
