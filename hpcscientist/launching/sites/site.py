"""What a campaign asks of the place where its trials run."""

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
    """What trials find there, which shares its file system with the driver.

    `python`: the interpreter of workers and candidates. `data`, `labels`: where what is prepared
    for candidates, and what they never see, is kept. `given`: the user's folder of files that
    prepare.py reads, None for none.
    """

    python: str
    data: Path
    labels: Path
    given: Path | None = None

    @classmethod
    def of(cls, settings: Settings) -> Home:
        """Return the home that settings name, with this very interpreter."""
        roots = default_data_root(settings), default_private_root(settings)
        return cls(sys.executable, *roots, Path(settings.data) if settings.data else None)

    def prepare(self, recipe: Recipe) -> PreparedData:
        """Prepare a recipe's data there, or take what is; see `recipe.data.prepare`."""
        return prepare(recipe, self.data, self.labels, self.given)


class TrialSite(Protocol):
    """Where trials run. The driver asks it, and never the machine that it is on itself."""

    @property
    def kind(self) -> BackendKind:
        """Which backend it has."""
        ...

    @property
    def why(self) -> str:
        """Why it was chosen, in words."""
        ...

    @property
    def profile(self) -> Site:
        """Its site profile."""
        ...

    def home(self, settings: Settings) -> Home:
        """Return what trials find there."""
        ...

    def isolation(self, image: str | None) -> Isolation:
        """Return the strongest isolation there is for a recipe's image."""
        ...

    def require(self, isolation: Isolation) -> None:
        """See that trials that need this isolation can have it. Raises UsageError."""
        ...

    def check(self, spec: RecipeSpec) -> Sequence[str]:
        """Hold what a trial asks for against what there is; return what people should know.

        Raises UsageError for what it can never have.
        """
        ...

    def slots(self, spec: RecipeSpec) -> int | None:
        """Return how many trials run at once; None: as many as its queue takes."""
        ...

    def open(self, paths: RunPaths, campaign_id: str, slots: int) -> Backend:
        """Return the backend for a run directory, which nothing was asked of yet.

        It lives from its `adopt` to its `close`. Raises SchedulerError and UsageError.
        """
        ...
