"""The registry of all importers: ours, and those of other installed packages."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import fields
from difflib import get_close_matches
from pathlib import Path

from hpcscientist.errors import RecipeError, UsageError
from hpcscientist.importers import (
    ai_scientist,
    airs_bench,
    autoresearch,
    harbor,
    leaks,
    mle_bench,
    scientist_bench,
    script,
)
from hpcscientist.importers.draft import RecipeDraft
from hpcscientist.importers.request import Format, ImportRequest
from hpcscientist.recipe import data
from hpcscientist.recipe.create import NAME
from hpcscientist.recipe.load import load
from hpcscientist.system import plugins

OURS: tuple[Format, ...] = (
    script.FORMAT,
    ai_scientist.FORMAT,
    mle_bench.FORMAT,
    autoresearch.FORMAT,
    airs_bench.FORMAT,
    harbor.FORMAT,
    scientist_bench.FORMAT,
)


def formats() -> Mapping[str, Format]:
    """Return all importers by name, including those of other installed packages.

    Raises UsageError if another package registers something that is not an importer.
    """
    ours = {each.name: each for each in OURS}
    others = plugins.load("importers", frozenset(ours))
    for name, plugin in others.items():
        if not isinstance(plugin.value, Format) or plugin.value.name != name:
            raise UsageError(
                f"{plugin.origin}: {name!r} is no Format of that name; fix or uninstall it"
            )
    return ours | {name: plugin.value for name, plugin in others.items()}


def draft_of(kind: Format, request: ImportRequest, folder: Path) -> RecipeDraft:
    """Return the draft of a recipe made from a task; `folder` is where the recipe would be.

    Options that the format does not use are refused, so that no user believes they had an effect.
    Raises RecipeError if the source is not such a task, and UsageError.
    """
    unset = {each.name: each.default for each in fields(ImportRequest)}
    for option in sorted(unset.keys() - {"source"} - kind.options):
        if getattr(request, option) != unset[option]:
            flag = "--" + option.replace("_", "-")
            raise UsageError(f"{flag}: {kind.name} has no use for it; leave it out")
    name = folder.name
    if not NAME.fullmatch(name):
        raise RecipeError(
            f"{name!r} cannot name a recipe: give --out DIR, its name a lower-case letter, then "
            "letters, digits, '-' or '_'"
        )
    draft = RecipeDraft(folder.absolute())
    for odd, what in request.source.odd.items():
        draft.lost(odd, f"is {what}, which is not followed")
    kind.read(request, draft)
    return draft


def search_labels(draft: RecipeDraft, request: ImportRequest) -> None:
    """Prepare a draft's data, and report labels that leak into what candidates see.

    The task's own preparation runs only if the user allowed it. Raises RecipeError if the data
    cannot be prepared.
    """
    if not draft.withholds or draft.refusals:
        return
    wanted = draft.document.get("data", {}).get("required") and request.data is None
    if wanted or (draft.runs_source and not request.run_source):
        lacking = "--data FOLDER" if wanted else "--run-source, which runs its preparation"
        draft.warn("labels", f"were not looked for in what candidates see: give {lacking}")
        return
    with tempfile.TemporaryDirectory(prefix="hpcsci-import-") as room:
        folder = Path(room) / "recipe"
        draft.write(folder)
        recipe = load(folder)
        made = data.prepare(recipe, Path(room, "data"), Path(room, "labels"), request.data)
        found: dict[leaks.Leak, list[str]] = {}
        for split, view in made.views.items():
            for leak in leaks.search(view / "train", view / split.value, made.labels[split]):
                found.setdefault(leak, []).append(split.value)
    for leak, splits in found.items():
        draft.warn(f"labels of {' and '.join(splits)}", f"{leak.place} {leak.how}")
    if not found:
        draft.adapted("labels", "none follows from columns, order, times or names of files")


def format_of(name: str) -> Format:
    """Return the importer of that name. Raises UsageError, which suggests the closest name."""
    known = formats()
    if name not in known:
        near = get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}"
        raise UsageError(f"there is no importer of {name!r}; {hint}")
    return known[name]
