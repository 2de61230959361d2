"""The control arm's author: sets module-level constants of the reference code."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hpcscientist.recipe.knobs import set_constants
from hpcscientist.records.authoring import Draft, FixTask, GaveUp
from hpcscientist.records.idea import Idea, KnobValue

if TYPE_CHECKING:
    from hpcscientist.recipe.load import Recipe


class KnobAuthor:
    """Writes an idea's knobs into the reference; implements `ports.author.Author`."""

    def __init__(self, recipe: Recipe) -> None:
        self._reference = dict(recipe.reference)
        self._file_of = {knob.name: knob.file for knob in recipe.spec.knobs}

    async def write(self, idea: Idea) -> Draft | GaveUp:
        """Return the reference with the idea's knobs set.

        Raises RecipeError where a constant is missing, which loading a recipe rules out.
        """
        if not idea.knobs:
            return GaveUp(reason="the idea sets no knobs")
        unknown = sorted(set(idea.knobs) - set(self._file_of))
        if unknown:
            return GaveUp(reason=f"the recipe has no knob {unknown[0]}")
        by_file: dict[str, dict[str, KnobValue]] = {}
        for name, value in idea.knobs.items():
            by_file.setdefault(self._file_of[name], {})[name] = value
        files = dict(self._reference)
        for file, values in by_file.items():
            files[file] = set_constants(files[file], values)
        settings = ", ".join(f"{name} = {value!r}" for name, value in idea.knobs.items())
        return Draft(files=files, note=f"Set {settings}.")

    async def fix(self, task: FixTask) -> Draft | GaveUp:
        """Give up: a setting that fails is a result, and there is nothing to mend."""
        return GaveUp(reason="the control arm does not debug")
