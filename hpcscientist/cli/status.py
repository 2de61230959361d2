"""`hpcsci status`."""

from __future__ import annotations

import json
from pathlib import Path

import click

from hpcscientist.cli.shared.costs import footer
from hpcscientist.cli.shared.options import run_directory
from hpcscientist.files.rundir import RunPaths
from hpcscientist.files.text import printable
from hpcscientist.history import frozen
from hpcscientist.history import status as reading
from hpcscientist.judgement.findings import rule_of
from hpcscientist.launching.costs import spending
from hpcscientist.launching.jobs.dispatch import controller_state


@click.command()
@run_directory
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
def status(directory: Path, as_json: bool) -> None:
    """Show the progress of the campaign in DIR."""
    paths = RunPaths(directory.absolute())
    standing, costs = controller_state(paths), spending.CostLines()
    state = reading.read_state(paths, costs.take)
    found = reading.status(paths, in_queue=standing.in_queue, state=state)
    if as_json:
        click.echo(json.dumps(found))
        return
    click.echo(f"{found['campaign']}: {found['state']}")
    if standing.text:
        click.echo(printable(standing.text))
    if found["state"] != "finished" and (
        waits := reading.waiting_line(reading.read_waiting(paths))
    ):
        click.echo(printable(waits))
    for name in ("ideas", "trials", "tokens"):
        counts = ", ".join(f"{count} {what}" for what, count in found[name].items())
        click.echo(f"{name:8}{counts}")
    click.echo(f"{'hours':8}{found['cpu_hours']:.3f} CPU, {found['gpu_hours']:.3f} GPU")
    click.echo(f"{'findings':9}{rule_of(frozen.read(paths).settings)}")
    if changed := reading.tampering_notice(state.tampering):
        click.echo(f"{'tampering':10}{printable(changed)}")
    for line in footer(spending.spent(costs.all(), spending.count(paths, state))):
        click.echo(f"{'cost':8}{line}")
