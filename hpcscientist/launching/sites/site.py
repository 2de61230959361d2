"""The interface between a campaign and the place where its trials run."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from hpcscientist.config.layers import default_data_root, default_private_root
from hpcscientist.config.settings import Settings
from hpcscientist.files.rundir import RunPaths
from hpcscientist.ports import Backend
from hpcscientist.recipe.data import PreparedData, prepare
from hpcscientist.recipe.load import Recipe
from hpcscientist.recipe.schema import RecipeSpec
from hpcscientist.records.site import BackendKind, Site
from hpcscientist.records.trial import Isolation


@dataclass(frozen=True, slots=True)
class Home:
    """The interpreter and folders of trials at a site, which shares its file system with the
    driver.

    `python` is the interpreter of workers and candidates. `data` holds the prepared data that
    candidates see, `labels` what they never see. `given` is the user's folder of files that
    prepare.py reads, None for none.
    """

    python: str
    data: Path
    labels: Path
    given: Path | None = None

    @classmethod
    def of(cls, settings: Settings) -> Home:
        """Return the home from the settings, with this process's interpreter."""
        roots = default_data_root(settings), default_private_root(settings)
        return cls(sys.executable, *roots, Path(settings.data) if settings.data else None)

    def prepare(self, recipe: Recipe) -> PreparedData:
        """Prepare a recipe's data there, or reuse prepared data; see `recipe.data.prepare`."""
        return prepare(recipe, self.data, self.labels, self.given)


class TrialSite(Protocol):
    """A place where trials run. The driver asks this object, and never its own machine directly."""

    @property
    def kind(self) -> BackendKind:
        """The site's backend."""
        ...

    @property
    def why(self) -> str:
        """Why this site was chosen, in words."""
        ...

    @property
    def profile(self) -> Site:
        """The site profile."""
        ...

    def home(self, settings: Settings) -> Home:
        """Return the interpreter and folders of trials at this site."""
        ...

    def isolation(self, image: str | None) -> Isolation:
        """Return the strongest isolation that the site has for a recipe's image."""
        ...

    def require(self, isolation: Isolation) -> None:
        """Raise UsageError if trials cannot have this isolation here."""
        ...

    def check(self, spec: RecipeSpec) -> Sequence[str]:
        """Compare what a trial asks for with what the site has; return notes for users.

        Raises UsageError if the site can never run the trial.
        """
        ...

    def slots(self, spec: RecipeSpec) -> int | None:
        """Return how many trials run at once; None for as many as the site's queue takes."""
        ...

    def open(self, paths: RunPaths, campaign_id: str, slots: int) -> Backend:
        """Return a new backend for a run directory; it is in use from its `adopt` to its `close`.

        Raises SchedulerError and UsageError.
        """
        ...
