"""`hpcsci bench NAME`."""

from __future__ import annotations

import click

from hpcscientist.cli.benches import cluster, model, review
from hpcscientist.cli.benches.output import json_option, show, tell


class Benchmarks(click.Group):
    """A group that names what there is to one who asks for what there is not."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or fail with the list of them."""
        if args[0] not in self.commands and not args[0].startswith("-"):
            ctx.fail(f"there is no benchmark {args[0]!r}, but {', '.join(self.commands)}")
        return super().resolve_command(ctx, args)


@click.group(cls=Benchmarks)
def bench() -> None:
    """Measure this machine; each figure stands beside what it is compared with."""


@bench.command("startup")
@json_option
def startup(as_json: bool) -> None:
    """The time of `hpcsci --help`."""
    from hpcscientist.bench import startup as found  # noqa: PLC0415 (late, as all others)

    tell("startup", "measuring, please wait")
    show(found.figures(), as_json)


@bench.command("papers")
@json_option
def papers(as_json: bool) -> None:
    """How many false statements about a campaign the checks of manuscripts refuse."""
    from hpcscientist.bench.papers import statements as found  # noqa: PLC0415

    show(found.figures(), as_json)


bench.add_command(cluster.slurm)
bench.add_command(cluster.serving)
bench.add_command(model.model)
bench.add_command(review.review)
bench.add_command(review.scientist)
