"""`hpcsci serve`: model servers without a campaign."""

from __future__ import annotations

import getpass
import os
import secrets
import time
from pathlib import Path

import click

from hpcscientist.cli.shared.options import interruptible, place_options, settings_from
from hpcscientist.errors import Interrupted, SchedulerRefused, UsageError
from hpcscientist.execution.backends.slurm import controller_job
from hpcscientist.execution.backends.slurm.commands import Slurm
from hpcscientist.execution.backends.slurm.controller_job import leave_job
from hpcscientist.files.handed import expanded
from hpcscientist.files.text import printable
from hpcscientist.launching.serving import standalone
from hpcscientist.launching.serving.standalone import StandaloneRequest
from hpcscientist.models.serving.order import Endpoint, ServingPaths


@click.command()
@click.option(
    "--model", "models", metavar="SPEC", multiple=True, help="vllm:PATH; may be repeated."
)
@place_options
@click.option("--nodes", type=int, default=0, metavar="N", help="Serve in a Slurm job of N nodes.")
@click.option("--detach", is_flag=True, help="With --nodes: return once the job is submitted.")
@click.option("--dir", "where", metavar="DIR", help="Folder for logs and key [new, in scratch/].")
@click.option("--dry-run", is_flag=True, help="Show the layout and the script; change nothing.")
@click.option("--as-submitted", is_flag=True, hidden=True, help="Serve the request in DIR.")
def serve(
    models: tuple[str, ...],
    nodes: int,
    detach: bool,
    where: str | None,
    dry_run: bool,
    as_submitted: bool,
    **place: str | None,
) -> int:
    """Serve open-weight models behind an OpenAI-compatible endpoint until Ctrl-C."""
    node = os.environ.get("SLURMD_NODENAME", "")
    # Jobs and processes started from here must not inherit this job's Slurm variables.
    job_id = leave_job()
    paths = ServingPaths(_folder(where))
    if as_submitted:
        if not job_id:
            raise UsageError("--as-submitted works only in the serving job; give --model vllm:PATH")
        return _here(paths, job_id, node)
    if not models:
        raise UsageError("no model is given; give --model vllm:PATH")
    if nodes < 0 or (nodes and job_id):
        raise UsageError(f"--nodes {nodes}: leave it out inside a job, or give 1 or more outside")
    if detach and not nodes:
        raise UsageError("--detach needs --nodes N: only a Slurm job goes on without this command")
    request = standalone.check(models, settings_from(**place), Path.cwd())
    if nodes and not dry_run:
        standalone.require_slurm(nodes)
    if dry_run or nodes:
        for line in standalone.forecast(request, nodes):
            _tell(line)
    if dry_run:
        if nodes:
            click.echo(
                controller_job.serving_script(standalone.serving_job(paths, request, nodes)),
                nl=False,
            )
        return 0
    if nodes:
        return _by_job(paths, request, nodes, detach=detach)
    standalone.require_place(request, job_id, node)
    standalone.claim(paths, request)
    return _here(paths, job_id, node)


def _here(paths: ServingPaths, job_id: str, node: str) -> int:
    """Serve in this process until a signal stops it; a stop before models answer is an error."""
    answered = False

    def ready(endpoint: Endpoint) -> None:
        nonlocal answered
        _show(paths, endpoint, standalone.read(paths), job_id)
        _tell("press Ctrl-C to stop serving")
        answered = True

    try:
        with interruptible():
            standalone.serve(paths, job_id, node, _tell, ready)
    except Interrupted as stop:
        if not answered:
            raise
        _tell(f"{stop}; the models are no longer served")
    return 0


def _by_job(paths: ServingPaths, request: StandaloneRequest, nodes: int, *, detach: bool) -> int:
    slurm = Slurm.of(request.site)
    if paths.request.exists():
        standalone.require_no_job(slurm, standalone.read(paths))
    standalone.claim(paths, request)
    answered = False
    try:
        with interruptible():
            job_id = controller_job.submit_serving(
                slurm, standalone.serving_job(paths, request, nodes)
            )
            _tell(f"job {job_id} serves from {paths.root}")
            if detach:
                click.echo(job_id)
                _tell(f"progress: {paths.state}; once the models answer, {paths.job_log(job_id)}")
                _tell(f"shows how to reach them; `{slurm.hint(f'scancel {job_id}')}` stops the job")
                return 0
            follower = standalone.ServingFollower(slurm, paths, request, job_id, _tell)
            _show(paths, follower.until_ready(), request, job_id)
            _tell("press Ctrl-C to cancel the job")
            answered = True
            follower.until_gone()
    except SchedulerRefused:
        standalone.unclaim(paths)
        raise
    except Interrupted as stop:
        _tell(f"{stop}; cancelling the job")
        standalone.end_job(slurm, paths, request)
        _tell("the job has ended")
        if not answered:
            raise
    return 0


def _show(paths: ServingPaths, endpoint: Endpoint, request: StandaloneRequest, job_id: str) -> None:
    for line in standalone.access_lines(paths, endpoint, request.login, getpass.getuser(), job_id):
        click.echo(printable(line))


def _folder(where: str | None) -> Path:
    if where:
        return expanded(where).absolute()
    name = f"serve-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{secrets.token_hex(2)}"
    return (Path.cwd() / "scratch" / name).absolute()


def _tell(text: str) -> None:
    for line in text.splitlines():
        click.echo(printable(line), err=True)
