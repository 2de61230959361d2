"""`hpcsci library fetch`: what a service on the internet finds, into a library that lies here."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from hpcscientist.cli.shared.options import settings_from
from hpcscientist.cli.shared.signals import interruptible
from hpcscientist.files.text import printable

if TYPE_CHECKING:
    from hpcscientist.literature.library.files.paths import LibraryPaths
    from hpcscientist.literature.library.indexing import Index

_SERVICES = ("semantic-scholar", "arxiv", "openalex")


@click.command()
@click.argument("words", nargs=-1, required=True)
@click.option("--library", "folder", metavar="DIR", required=True, type=click.Path(path_type=Path))
@click.option("--from", "service", required=True, type=click.Choice(_SERVICES))
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True)
def fetch(words: tuple[str, ...], folder: Path, service: str, limit: int) -> None:
    """Fetch papers that a service finds for WORDS into the library in DIR.

    It is asked as slowly as it wants, and the same query once only: answers are kept for good in
    the user's cache folder. Keys, where one has them, come from HPCSCI_S2_API_KEY and
    HPCSCI_OPENALEX_API_KEY.
    """
    from hpcscientist.cli.libraries.progress import Progress  # noqa: PLC0415 (late, as all below)
    from hpcscientist.literature.library.build import build  # noqa: PLC0415
    from hpcscientist.literature.library.files.folder import check  # noqa: PLC0415
    from hpcscientist.literature.library.files.paths import LibraryPaths, refusal  # noqa: PLC0415
    from hpcscientist.literature.online import fetch as fetching  # noqa: PLC0415
    from hpcscientist.literature.online.cache import Cache  # noqa: PLC0415
    from hpcscientist.literature.online.library import asker, default_cache  # noqa: PLC0415
    from hpcscientist.literature.online.services import NAMES  # noqa: PLC0415

    paths = LibraryPaths(folder)
    before, index = check(paths), _index(paths)
    name = next(name for name in NAMES if name.replace("_", "-") == service)
    query = " ".join(words)
    with interruptible():
        papers = fetching.fetch(asker(name, Cache(default_cache()), _say), query, limit, _say)
        if not papers:
            _say(f"{service} finds nothing for {query!r}; try other words")
            return
        try:
            source = fetching.keep(papers, paths.fetched, name, query)
        except OSError as error:
            raise refusal(paths.fetched, error) from error
        with Progress() as progress:
            report = build([source], folder, index=index, progress=progress)
    for paper in papers:
        click.echo(f"{paper.paper_id}  {paper.year or '????'}  {printable(paper.title)}")
    known = before.papers if before else 0
    _say(
        f"{folder}: {report.papers:,} papers, {report.papers - known:,} of them new; "
        f"{service} found {len(papers):,}"
    )


def _index(paths: LibraryPaths) -> Index:
    """Return what indexes a library, with vectors as it has them already."""
    from hpcscientist.literature.index import catalogue  # noqa: PLC0415 (heavy)
    from hpcscientist.literature.index.update import LibraryIndex  # noqa: PLC0415

    known = catalogue.read(catalogue.IndexPaths(paths.index))
    settings = settings_from().embedding
    if known is not None and known.vectors is not None:
        settings = settings.model_copy(update={"model": known.vectors.model})
    return LibraryIndex(settings)


def _say(line: str) -> None:
    click.echo(line, err=True)
