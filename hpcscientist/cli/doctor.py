"""`hpcsci doctor`."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hpcscientist.cli.shared.options import settings_from, site_options, unwind_on
from hpcscientist.config.layers import load_site
from hpcscientist.doctor.check import CheckState, is_anything_missing
from hpcscientist.doctor.examine import DoctorOptions, examine
from hpcscientist.doctor.model import served
from hpcscientist.errors import UsageError
from hpcscientist.files.handed import expanded

if TYPE_CHECKING:
    from hpcscientist.doctor.check import DoctorCheck

_STYLES = {CheckState.OK: "green", CheckState.WARNING: "yellow", CheckState.MISSING: "bold red"}


@click.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON array on stdout.")
@site_options
@click.option("--model", metavar="SPEC", help="Check whether vllm:PATH can be served.")
@click.option("--run-dir", metavar="DIR", help="Where run directories would be [this folder].")
@click.option("--gpus", type=click.IntRange(0), default=0, help="GPUs that the job asks for.")
@click.option(
    "--wait",
    type=click.FloatRange(0, min_open=True),
    default=120.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait for the job.",
)
@click.option("--no-job", is_flag=True, help="Submit no job; compute nodes are not checked.")
def doctor(as_json: bool, gpus: int, wait: float, no_job: bool, **given: Any) -> int:
    """Check whether this machine and site can run campaigns, and print what to fix."""
    unwind_on(signal.SIGTERM, signal.SIGHUP)  # the unwinding cancels the job
    settings = settings_from(**given)
    if settings.model and not served(settings) and given["model"]:
        raise UsageError(f"--model {settings.model}: there is nothing to serve; give vllm:PATH")
    folder = Path.cwd()
    image = (folder / expanded(settings.image)).absolute() if settings.image else None
    if image is not None and not image.exists():
        raise UsageError(f"--image {image}: does not exist; see containers/README.md")
    options = DoctorOptions(
        settings=settings,
        site=load_site(settings.site, folder, settings.slurm),
        run_dir=(folder / settings.run_dir).absolute(),
        image=str(image) if image else None,
        gpus=gpus,
        wait_s=wait,
        with_job=not no_job,
    )
    found = list(examine(options, lambda text: click.echo(f"doctor: {text}", err=True)))
    if as_json:
        click.echo(json.dumps([check.model_dump(mode="json") for check in found]))
    elif sys.stdout.isatty():
        _table(found)
    else:
        _lines(found)
    return 1 if is_anything_missing(found) else 0


def _table(found: Iterable[DoctorCheck]) -> None:
    from rich.console import Console  # noqa: PLC0415 (for terminals only)
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    for check in found:
        text = Text(check.found)
        if check.mend:
            text.append(f"\n→ {check.mend}", style="italic")
        table.add_row(Text(check.state.value, style=_STYLES[check.state]), check.name, text)
    Console().print(table)


def _lines(found: Sequence[DoctorCheck]) -> None:
    width = max(len(check.name) for check in found)
    for check in found:
        click.echo(f"{check.state.value:8} {check.name:{width}}  {check.found}")
        if check.mend:
            click.echo(f"{'':8} {'':{width}}  -> {check.mend}")
