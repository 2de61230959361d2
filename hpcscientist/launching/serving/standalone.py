"""Model servers without a campaign: what `hpcsci serve` checks and runs."""

from __future__ import annotations

import contextlib
import json
import secrets
import shlex
import socket
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationError

from hpcscientist.config.layers import load_site
from hpcscientist.config.settings import ServingSettings, Settings
from hpcscientist.errors import (
    CampaignBusy,
    PlaneLost,
    RunDirectoryError,
    SchedulerError,
    SchedulerSilent,
    ServingError,
    UsageError,
)
from hpcscientist.execution.backends.slurm import commands, controller_job, sweep
from hpcscientist.execution.backends.slurm.commands import Slurm
from hpcscientist.execution.backends.slurm.controller_job import ServingJob
from hpcscientist.execution.backends.slurm.watching.queue import QueueRow
from hpcscientist.execution.backends.slurm.watching.states import Phase, can_never_run
from hpcscientist.files.atomic import read_tail, write_atomic
from hpcscientist.files.text import one_line
from hpcscientist.history.status import DriverLock, read_holder
from hpcscientist.launching.serving import models as serving
from hpcscientist.launching.serving import nodes
from hpcscientist.models.open import parse_spec
from hpcscientist.models.serving.checking import weights
from hpcscientist.models.serving.fitting.drafting import PlaneAllocation
from hpcscientist.models.serving.lease import PlaneNews
from hpcscientist.models.serving.order import Endpoint, ServingPaths
from hpcscientist.models.serving.plane import read_endpoint
from hpcscientist.ports import Tell
from hpcscientist.records.base import Record
from hpcscientist.records.site import Site

_POLL_S = 0.5


class StandaloneRequest(Record):
    """What to serve, frozen when `hpcsci serve` was called. Paths are absolute.

    `owner` marks the job and the processes; `login` is the machine where the command was called.
    """

    owner: str
    folders: tuple[str, ...]
    settings: ServingSettings
    site: Site
    login: str

    def of_plane(self, paths: ServingPaths) -> serving.ServingRequest:
        """Return the request in the form that `launching.serving.models` takes."""
        return serving.ServingRequest(
            paths=paths,
            owner=self.owner,
            folders=_folders(self),
            settings=self.settings,
            site=self.site,
        )


def check(specs: Sequence[str], settings: Settings, folder: Path) -> StandaloneRequest:
    """Check a request from a working directory, and return it; write nothing.

    Raises UsageError for a SPEC that is not `vllm:` and for a wrong site profile, WeightsError.
    """
    for spec in specs:
        if parse_spec(spec).kind != "vllm":
            raise UsageError(f"--model {spec}: only open weights are served here: give vllm:PATH")
    folders = dict.fromkeys(serving.folder_of(spec, folder) for spec in specs)
    for path in folders:
        weights.require_whole(path)
    return StandaloneRequest(
        owner=f"plane-{secrets.token_hex(4)}",
        folders=tuple(map(str, folders)),
        settings=settings.serving,
        site=load_site(settings.site, folder, settings.slurm),
        login=_own_name(),
    )


def require_place(request: StandaloneRequest, job_id: str, node: str) -> None:
    """Check that this process can serve: on a job's first node, or with an engine on this machine.

    Raises UsageError, SchedulerError, ServingError.
    """
    if job_id:  # the engine on its nodes is checked when they serve
        allocation_of(request.site, job_id, node)
    else:
        serving.require_engine(_folders(request), nodes.launcher_of(request.site, ""))


def claim(paths: ServingPaths, request: StandaloneRequest) -> None:
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


def read(paths: ServingPaths) -> StandaloneRequest:
    """Return the request in a plane's folder. Raises RunDirectoryError."""
    try:
        return StandaloneRequest.model_validate_json(paths.request.read_bytes())
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


def forecast(request: StandaloneRequest, count: int) -> tuple[str, ...]:
    """Return the models' layout in words; see `launching.serving.models.forecast`."""
    folders = _folders(request)
    engine = serving.ask_engine(folders, request.site)
    return serving.forecast(folders, request.settings, request.site, count, engine)


def _folders(request: StandaloneRequest) -> tuple[Path, ...]:
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


def allocation_of(site: Site, job_id: str, node: str) -> PlaneAllocation:
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


# Serves models in a Slurm job, from a login node: submits the job, follows it, and ends it.


POLL_S = 1.0
# The first pause between two questions to Slurm, and the longest.
ASK_FIRST_S, ASK_S = 5.0, 30.0
# Before an empty queue is trusted: files may appear later than the queue's news.
SETTLE_S = 3.0
# Time for a running job to end its nodes' processes, their folders and their shared memory.
END_S = 150.0
_LOG_BYTES = 2000


def serving_job(paths: ServingPaths, request: StandaloneRequest, nodes: int) -> ServingJob:
    """Return the job that serves a request."""
    site = request.site
    return ServingJob(
        owner=request.owner,
        folder=paths.root,
        log=paths.job_log("%j"),
        nodes=nodes,
        site=site,
        python=site.slurm.python or shlex.quote(sys.executable),
    )


def require_slurm(nodes: int) -> None:
    """Raise UsageError if no job can be submitted from this machine."""
    if not Slurm.is_there():
        raise UsageError(
            f"--nodes {nodes}: there is no sbatch on PATH; load your site's Slurm module, or leave "
            "--nodes out to serve on this machine"
        )


def require_no_job(slurm: Slurm, former: StandaloneRequest) -> None:
    """Raise UsageError if a job already serves, or waits to serve, from the same folder.

    Raises SchedulerError if Slurm does not answer.
    """
    row = controller_job.find(slurm, former.owner)
    if row is not None:
        raise UsageError(
            f"job {row.job_id} serves from this folder, or will; end it with "
            f"`{slurm.hint(f'scancel {row.job_id}')}`, or give another --dir"
        )


def end_job(slurm: Slurm, paths: ServingPaths, request: StandaloneRequest) -> None:
    """End the request's job and wait until it is gone. Raises SchedulerSilent.

    A running job gets a signal first and ends in order: `scancel` would kill its steps outright.
    """
    try:
        _ask_to_end(slurm, request.owner)
        sweep.sweep_jobs(slurm, request.owner)
    except SchedulerSilent as error:
        name = commands.job_name(request.owner, commands.SERVE)
        raise SchedulerSilent(
            f"the job may still run ({error}); once Slurm answers, run "
            f"`{slurm.hint(f'scancel --name={name}')}`"
        ) from error
    paths.endpoint.unlink(missing_ok=True)


def _ask_to_end(slurm: Slurm, owner: str) -> None:
    with contextlib.suppress(SchedulerError):  # the sweep then cancels the job
        until = time.monotonic() + END_S
        row = controller_job.find(slurm, owner)
        if row is None or row.phase is not Phase.RUNNING:
            return
        controller_job.stop(slurm, row.job_id)
        while controller_job.find(slurm, owner) is not None and time.monotonic() < until:
            time.sleep(ASK_FIRST_S)


@dataclass
class ServingFollower:
    """A follower of a job that serves models; `tell` gets its news, each once."""

    slurm: Slurm
    paths: ServingPaths
    request: StandaloneRequest
    job_id: str
    tell: Tell
    wait: Callable[[float], object] = time.sleep
    clock: Callable[[], float] = time.monotonic
    _plane: PlaneNews = field(init=False)
    _is_running: bool = False
    _said: dict[str, str] = field(default_factory=dict)
    _every: float = ASK_FIRST_S
    _next: float = 0.0
    _empty: int = 0

    def __post_init__(self) -> None:
        self._plane = PlaneNews(self.paths, self.clock)

    def until_ready(self) -> Endpoint:
        """Wait until models answer; return their endpoint. Raises ServingError if the job ended."""
        while (endpoint := read_endpoint(self.paths)) is None:
            self._look()
            self.wait(POLL_S)
        return endpoint

    def until_gone(self) -> None:
        """Wait for the job's end, and raise ServingError: nobody here asked the job to end."""
        while True:
            self._look()
            self.wait(POLL_S)

    def _look(self) -> None:
        """Report news of the plane and of the queue. Raises ServingError if the job ended."""
        self._tell("plane", self._plane.look(is_running=self._is_running))
        if self.clock() < self._next:
            return
        try:
            row = controller_job.find(self.slurm, self.request.owner)
        except SchedulerError as error:
            self._tell("silence", f"Slurm does not answer ({error}); still following")
            self._next = self.clock() + ASK_S
            return
        self._said.pop("silence", None)
        self._is_running = row is not None and row.phase is Phase.RUNNING
        self._empty = 0 if row else self._empty + 1
        self._every = min(ASK_S, self._every * 1.5)
        self._next = self.clock() + (self._every if row else SETTLE_S)
        self._tell("queue", describe_job(row) if row else "")
        if self._empty >= 2:
            self.paths.endpoint.unlink(missing_ok=True)  # a killed job leaves it behind
            raise ServingError(self._why())

    def _tell(self, about: str, text: str) -> None:
        if text and text != self._said.get(about):
            self.tell(text)
            self._said[about] = text

    def _why(self) -> str:
        log = self.paths.job_log(self.job_id)
        printed = read_tail(log, _LOG_BYTES).strip().splitlines()
        nothing = "it printed nothing" if log.exists() else "it left no log; can nodes see it?"
        last = one_line(printed[-1]) if printed else nothing
        return f"job {self.job_id} has ended: {last.removeprefix('hpcsci: ')}; see {log}"


def describe_job(row: QueueRow) -> str:
    """Return the job's state in the queue in words."""
    if row.phase is Phase.RUNNING:
        return f"job {row.job_id} runs" + (f" on {row.node}" if row.node else "")
    reason = "" if row.reason in ("", "None", "(null)") else f", reason {row.reason}"
    never = "; it will not start by itself" if can_never_run(row.reason, row.partition) else ""
    return f"job {row.job_id} is queued{reason}{never}"


# What `hpcsci serve` prints: how to reach and use the endpoint of a plane.


def access_lines(
    paths: ServingPaths, endpoint: Endpoint, login: str, user: str, job_id: str
) -> list[str]:
    """Return lines that show how to reach and use the endpoint; none contains the key.

    `login` is the machine where `hpcsci serve` was called.
    """
    name = endpoint.models[0]
    key = shlex.quote(str(paths.key))
    body = json.dumps({"model": name, "messages": [{"role": "user", "content": "Hello"}]})
    tunnels = [f"tunnel:   {ssh_tunnel(endpoint, user)}"]
    if job_id:
        tunnels += [
            f"          from elsewhere: {ssh_tunnel(endpoint, user, login)}",
            f"          ({login}: use the name that you log in to; the key is there too)",
        ]
    return [
        f"models:   {', '.join(endpoint.models)}",
        f"endpoint: {endpoint.url}, on {', '.join(endpoint.nodes)}",
        f"key:      in {paths.key}",
        *tunnels,
        f"ask it:   curl -sS {endpoint.url}/chat/completions "
        f"-H @<(printf 'Authorization: Bearer '; cat {key}) "
        f"-H 'Content-Type: application/json' -d {shlex.quote(body)} --noproxy 127.0.0.1",
        f"use it:   HPCSCI_API_KEY=$(cat {key}) hpcsci launch "
        f"--model {shlex.quote(f'{endpoint.url}#{name}')}",
    ]


def ssh_tunnel(endpoint: Endpoint, user: str, login: str = "") -> str:
    """Return the ssh command that forwards the endpoint to the user's own machine."""
    port = endpoint.url.rsplit(":", 1)[1].partition("/")[0]
    jump = f"-J {user}@{login} " if login else ""
    return f"ssh -N {jump}-L {port}:127.0.0.1:{port} {shlex.quote(user)}@{endpoint.head}"
