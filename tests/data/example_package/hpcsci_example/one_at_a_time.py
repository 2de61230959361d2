"""A backend: this machine, and never more than one trial."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from hpcscientist.config.settings import Settings
from hpcscientist.launching.sites.machine import ThisMachine
from hpcscientist.recipe.schema import RecipeSpec
from hpcscientist.records.site import Site


@dataclass(frozen=True, slots=True)
class OneAtATime(ThisMachine):
    kind: ClassVar[str] = "one-at-a-time"

    def slots(self, spec: RecipeSpec) -> int:
        return 1


def site(profile: Site, settings: Settings) -> OneAtATime:
    return OneAtATime("as --backend says", profile, 1)
