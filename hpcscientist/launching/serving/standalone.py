"""Model servers without a campaign: what `hpcsci serve` checks and runs."""

from __future__ import annotations

import contextlib
import secrets
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pydantic import ValidationError

from hpcscientist.config.settings import ServingSettings, Settings
from hpcscientist.config.site import load_site
from hpcscientist.errors import (
    CampaignBusy,
    PlaneLost,
    RunDirectoryError,
    UsageError,
)
from hpcscientist.execution.backends.slurm.commands import Slurm
from hpcscientist.files.atomic import write_atomic
from hpcscientist.history.lock import DriverLock, read_holder
from hpcscientist.launching.serving import models as serving
from hpcscientist.launching.serving import nodes
from hpcscientist.models.open import parse_spec
from hpcscientist.models.serving.checking import weights
from hpcscientist.models.serving.fitting.drafting import Allocation
from hpcscientist.models.serving.order import Endpoint, ServingPaths
from hpcscientist.ports import Tell
from hpcscientist.records.base import Record
from hpcscientist.records.site import Site

_POLL_S = 0.5


class Request(Record):
    """What to serve, frozen when `hpcsci serve` was called. Paths are absolute.

    `owner` marks the job and the processes; `login` is the machine where the command was called.
    """

    owner: str
    folders: tuple[str, ...]
    settings: ServingSettings
    site: Site
    login: str

    def of_plane(self, paths: ServingPaths) -> serving.Request:
        """Return the request in the form that `launching.serving.models` takes."""
        return serving.Request(
            paths=paths,
            owner=self.owner,
            folders=_folders(self),
            settings=self.settings,
            site=self.site,
        )


def check(specs: Sequence[str], settings: Settings, folder: Path) -> Request:
    """Check a request from a working directory, and return it; write nothing.

    Raises UsageError for a SPEC that is not `vllm:` and for a wrong site profile, WeightsError.
    """
    for spec in specs:
        if parse_spec(spec).kind != "vllm":
            raise UsageError(f"--model {spec}: only open weights are served here: give vllm:PATH")
    folders = dict.fromkeys(serving.folder_of(spec, folder) for spec in specs)
    for path in folders:
        weights.require_whole(path)
    return Request(
        owner=f"plane-{secrets.token_hex(4)}",
        folders=tuple(map(str, folders)),
        settings=settings.serving,
        site=load_site(settings.site, folder, settings.slurm),
        login=_own_name(),
    )


def require_place(request: Request, job_id: str, node: str) -> None:
    """Check that this process can serve: on a job's first node, or with an engine on this machine.

    Raises UsageError, SchedulerError, ServingError.
    """
    if job_id:  # the engine on its nodes is checked when they serve
        allocation_of(request.site, job_id, node)
    else:
        serving.require_engine(_folders(request), nodes.launcher_of(request.site, ""))


def claim(paths: ServingPaths, request: Request) -> None:
    """Create the plane's folder, or take over an unused one, and write the request.

    Raises UsageError, RunDirectoryError.
    """
    root = paths.root
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        # The folder of an earlier plane has a key, even if a failed request was removed.
        is_ours = paths.request.exists() or paths.key.exists()
        if any(root.iterdir()) and not is_ours:
            raise UsageError(f"{root}: holds something else; give another --dir")
        holder = read_holder(paths.lock)
        if holder is not None and holder["alive"]:
            raise UsageError(_busy(root))
        paths.logs.mkdir(exist_ok=True)
        paths.endpoint.unlink(missing_ok=True)
        paths.state.unlink(missing_ok=True)
        write_atomic(paths.request, request.model_dump_json(indent=2).encode() + b"\n", 0o600)
    except OSError as error:
        raise RunDirectoryError(
            f"{error.filename or root}: {error.strerror}; give another --dir"
        ) from error


def unclaim(paths: ServingPaths) -> None:
    """Remove what `claim` created, after a failure."""
    paths.request.unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # an earlier plane's logs and key stay
        paths.logs.rmdir()
        paths.root.rmdir()


def read(paths: ServingPaths) -> Request:
    """Return the request in a plane's folder. Raises RunDirectoryError."""
    try:
        return Request.model_validate_json(paths.request.read_bytes())
    except (OSError, ValidationError) as error:
        raise RunDirectoryError(
            f"{paths.request}: cannot be read: {str(error).splitlines()[0]}; run `hpcsci serve` "
            "with --model again"
        ) from error


def serve(
    paths: ServingPaths, job_id: str, node: str, tell: Tell, ready: Callable[[Endpoint], None]
) -> None:
    """Serve the folder's request until an exception, such as that of a signal, ends it.

    `job_id` is the job whose allocation this process is in, and `node` its node's name, "" for
    none. `ready` is called once the models answer. Raises ServingError (PlaneLost once they had
    answered), SchedulerError, UsageError.
    """
    request = read(paths)
    site = request.site
    launcher = nodes.launcher_of(site, job_id)
    allocation = allocation_of(site, job_id, node) if job_id else nodes.here()
    with _held(paths):
        given = request.of_plane(paths)
        with serving.serve(given, allocation, launcher, tell) as (plane, endpoint, _):
            ready(endpoint)
            while not plane.lost:
                time.sleep(_POLL_S)
            raise PlaneLost(plane.lost)


def forecast(request: Request, count: int) -> tuple[str, ...]:
    """Return the models' layout in words; see `launching.serving.models.forecast`."""
    return serving.forecast(_folders(request), request.settings, request.site, count)


def _folders(request: Request) -> tuple[Path, ...]:
    return tuple(Path(folder) for folder in request.folders)


@contextmanager
def _held(paths: ServingPaths) -> Iterator[None]:
    """Hold the folder's lock, so that no one else serves from it. Raises UsageError."""
    try:
        lock = DriverLock(paths.lock)
    except CampaignBusy as error:
        raise UsageError(_busy(paths.root)) from error
    try:
        yield
    finally:
        lock.release()


def _busy(root: Path) -> str:
    return f"{root}: models are served from this folder already; end that, or give another --dir"


def allocation_of(site: Site, job_id: str, node: str) -> Allocation:
    """Return a job's nodes; `node`, on which this process runs, must be the first: the head.

    Raises UsageError, SchedulerError.
    """
    if not node:
        raise UsageError(
            f"this shell holds job {job_id}, but is on no node of it; run this in a batch script "
            "or with `srun --overlap --nodes=1 --ntasks=1`, or give --nodes N outside of the job"
        )
    allocation = nodes.allocation_of(Slurm.of(site), job_id)
    if node != allocation.nodes[0]:
        raise UsageError(f"{node}: run this on the job's first node, {allocation.nodes[0]}")
    return allocation


def _own_name() -> str:
    name = socket.getfqdn()
    return socket.gethostname() if name.startswith("localhost") else name
