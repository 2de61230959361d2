"""`hpcsci controller`: the hidden command that the controller job runs to drive a campaign."""

from __future__ import annotations

import signal
import traceback
from pathlib import Path

import click

from hpcscientist.cli.shared.options import run_directory, unwind_on
from hpcscientist.cli.shared.progress import ProgressPrinter
from hpcscientist.errors import HpcsciError, Interrupted, UsageError
from hpcscientist.execution.backends.slurm.controller_job import leave_job
from hpcscientist.files.rundir import RunPaths
from hpcscientist.files.text import printable
from hpcscientist.launching.jobs.controller import control


@click.command(hidden=True)
@run_directory
def controller(directory: Path) -> int:
    """Drive the campaign in DIR from within its controller job."""
    # Until the driver handles these signals: a job that is stopped while it waits still settles
    # its continuation.
    unwind_on(signal.SIGUSR1, signal.SIGTERM)
    own = leave_job()
    paths = RunPaths(directory.absolute())
    if not own:
        raise UsageError(f"only a controller job runs this; use `hpcsci resume {paths.root}`")
    try:
        control(paths, own, ProgressPrinter(), tell_lines)
    except (Interrupted, KeyboardInterrupt) as stop:
        tell_lines(str(stop) or "stopped before it drove the campaign")  # the job did not fail
    except HpcsciError:
        raise
    except Exception:
        traceback.print_exc()
        raise
    return 0


def tell_lines(text: str) -> None:
    """Print a message about a job on stderr, line by line."""
    for line in text.splitlines():
        click.echo(printable(line), err=True)
