"""`hpcsci reproduce`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from hpcscientist.cli.shared.options import place_options, run_directory, settings_from
from hpcscientist.config.settings import SlurmOverrides
from hpcscientist.files.handed import expanded
from hpcscientist.files.text import printable
from hpcscientist.records.findings import Comparison, Holding, Reproduction
from hpcscientist.reproduction.environment import RerunOptions
from hpcscientist.reproduction.reproduce import reproduce_folder


@click.command()
@run_directory
@click.option("--idea", metavar="ID", help="The idea, as `hpcsci results` names it.")
@click.option("--out", metavar="FOLDER", help="Folder to run in [new, in DIR/reproductions].")
@click.option("--backend", metavar="local|slurm|NAME", help="Where trials run [as recorded].")
@place_options
@click.option("--image", metavar="PATH", help="The container image's path now [as recorded].")
@click.option("--recipe", metavar="R", help="With an idea's folder: its recipe [its recipe.tar].")
@click.option(
    "--allow-unsandboxed",
    is_flag=True,
    help="With an idea's folder: run its code as you, without a container.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
def reproduce(
    directory: Path,
    idea: str | None,
    out: str | None,
    recipe: str | None,
    allow_unsandboxed: bool,
    as_json: bool,
    **places: str | None,
) -> int:
    """Rerun an idea's trials and check whether its recorded result holds.

    DIR is a run directory, with --idea; or an idea's folder, DIR/ideas/ID or a copy of it.
    """
    settings, here = settings_from(), Path.cwd()
    given = {name: value or "" for name, value in places.items()}
    where = {name: given.pop(name) for name in ("backend", "site", "image")}
    # Consent is given on this command line only. A configuration file must not give it: it may
    # come with the folder.
    words, consent = SlurmOverrides(**given), allow_unsandboxed
    wanted = RerunOptions(words=words, folder=here, settings=settings, consent=consent, **where)
    folder = (here / expanded(out)).absolute() if out else None
    found = reproduce_folder(directory.absolute(), idea, wanted, recipe or "", folder, _say)
    if as_json:
        click.echo(found.model_dump_json())
    else:
        _show(found)
    return 1 if found.outcome in (Holding.NOT, Holding.OPEN) else 0


def _say(text: str) -> None:
    click.echo(f"reproduce: {printable(text)}", err=True)


def _show(found: Reproduction) -> None:
    """Print the rerun's scores by seed, and in the last line whether the result holds."""
    if found.rows:
        _table(found)
    for note in found.notes:
        click.echo(f"note: {printable(note)}")
    for reason in found.reasons:
        end = ": does not hold" if found.outcome is Holding.NOT else ""
        click.echo(f"{printable(reason)}{end}")
    if found.outcome is Holding.NOT:
        what = "nothing was run" if not found.rows else "see above"
        click.echo(f"{found.idea_id}: does not hold: {len(found.reasons)} reasons, {what}")
    else:
        alone = " (checked from its own folder alone; the notes list what that leaves out)"
        click.echo(f"{found.idea_id}: {found.outcome.value}{alone if found.alone else ''}")
    sys.stdout.flush()


def _table(found: Reproduction) -> None:
    click.echo(f"{'split':11}{'trial of':10}{'seed':>11}{'recorded':>13}{'again':>13}  same bits")
    for row in found.rows:
        again = "failed" if row.again is None else f"{row.again:.6g}"
        bits = "yes" if row.same_bits else "no"
        click.echo(
            f"{row.split.value:11}{row.of:10}{row.seed:>11}{row.recorded:>13.6g}{again:>13}  {bits}"
        )
    for split, effect in found.effects.items():
        click.echo(
            f"{found.metric} on {split.value}, idea minus baseline: recorded "
            f"{_effect(effect.recorded)}, again {_effect(effect.again)}"
        )


def _effect(comparison: Comparison | None) -> str:
    if comparison is None:
        return "nothing"
    text = f"{comparison.delta:+.4g}"
    if comparison.ci_low is not None and comparison.ci_high is not None:
        text += f" ({comparison.ci_low:+.4g} to {comparison.ci_high:+.4g})"
    return text
