"""The campaign's library: built before, or made at launch from the recipe's references."""

from __future__ import annotations

from pathlib import Path

from hpcscientist.config.settings import Settings
from hpcscientist.errors import LibraryError
from hpcscientist.files.handed import expanded
from hpcscientist.files.rundir import RunPaths
from hpcscientist.history.frozen import CampaignConfig
from hpcscientist.ports import Embedder, Library, Tell
from hpcscientist.recipe.load import Recipe

REFERENCES = "library"  # a recipe's folder with papers and code


def settle(settings: Settings, folder: Path) -> Settings:
    """Return the settings with the library's absolute path, so that a resume finds it.

    Raises LibraryError if the path holds no library.
    """
    given = settings.literature.library
    if not given:
        return settings
    path = (folder / expanded(given)).absolute()
    open_library(path)
    literature = settings.literature.model_copy(update={"library": str(path)})
    return settings.model_copy(update={"literature": literature})


def references(recipe: Recipe) -> Path | None:
    """Return the recipe's folder of references, None if it is missing or empty."""
    folder = recipe.folder / REFERENCES
    return folder if folder.is_dir() and any(folder.iterdir()) else None


def has_library(settings: Settings, recipe: Recipe) -> bool:
    """Return whether this campaign's ideas can be grounded in a library."""
    literature = settings.literature
    return bool(literature.library or literature.online or references(recipe))


def statement(settings: Settings, recipe: Recipe) -> str:
    """Return the header's text on the library."""
    literature = settings.literature
    where = literature.library
    if not where and (own := references(recipe)):
        where = f"the recipe's references ({own})"
    if literature.online:
        asked = ", ".join(literature.online)
        where = f"{where}, and online: {asked}" if where else f"online alone: {asked}"
    return where or "none: ideas are not grounded (--library DIR; `hpcsci library build` makes one)"


def furnish(settings: Settings, recipe: Recipe, paths: RunPaths) -> str:
    """Return the folder of the campaign's library, "" for none; build it from the recipe's
    references if no library is configured.

    Raises LibraryError when the recipe's references cannot be read at all.
    """
    if settings.literature.library:
        return settings.literature.library
    own = references(recipe)
    if own is None:
        return ""
    from hpcscientist.literature.index.update import LibraryIndex  # noqa: PLC0415 (heavy)
    from hpcscientist.literature.library.build import build  # noqa: PLC0415

    build([own], paths.library, index=LibraryIndex())
    return str(paths.library)


def reopen(
    config: CampaignConfig,
    paths: RunPaths,
    note: Tell,
    embedder: Embedder | None = None,
) -> Library | None:
    """Open a campaign's library, with the online services it may ask.

    `note` gets messages for people; `embedder` is one that is already open. Raises LibraryError.
    """
    folder = Path(config.library)
    if config.library and not config.settings.literature.library:
        # Built at launch in the run directory, which may have been moved since.
        folder = paths.library if paths.library.is_dir() else folder
        if not folder.is_dir():
            raise LibraryError(
                f"{paths.library}: the library of this campaign is gone; make it anew with `hpcsci "
                f"library build {Path(config.recipe_origin) / REFERENCES} --out {paths.library}`"
            )
    offline = open_library(folder, embedder) if config.library else None
    if offline is not None and offline.fingerprint != config.library_hash:
        note(f"{folder}: was changed since launch; what was found in it before stands")
    services = config.settings.literature.online
    if not services:
        return offline
    from hpcscientist.literature.online.library import open_online  # noqa: PLC0415 (rare)

    return open_online(offline, services, paths.root / "online", note=note)


def open_library(folder: Path, embedder: Embedder | None = None) -> Library:
    """Open a library that `hpcsci library build` made. Raises LibraryError."""
    from hpcscientist.literature.index.search import open_library as opened  # noqa: PLC0415

    if not folder.is_dir():
        raise LibraryError(
            f"{folder}: is no folder; give one that `hpcsci library build … --out DIR` made"
        )
    return opened(folder, embedder)
