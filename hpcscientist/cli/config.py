"""`hpcsci config show`."""

from __future__ import annotations

import json
import os
from pathlib import Path

import click

from hpcscientist.config.layers import Value, resolve, resolve_site


@click.group(no_args_is_help=False)
def config() -> None:
    """Show the configuration."""


@config.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON array on stdout.")
def show(as_json: bool) -> None:
    """Print each setting's value and origin; keys of the site profile are shown as `site.KEY`."""
    settings, values = resolve({}, os.environ, Path.cwd())
    _, profile = resolve_site(settings.site, Path.cwd(), settings.slurm)
    values += [Value(f"site.{v.key}", v.value, v.origin) for v in profile]
    if as_json:
        rows = [{"key": v.key, "value": v.value, "origin": v.origin} for v in values]
        click.echo(json.dumps(rows))
        return
    width = max(len(v.key) for v in values)
    for entry in values:
        click.echo(f"{entry.key:{width}} = {json.dumps(entry.value):24} # {entry.origin}")
