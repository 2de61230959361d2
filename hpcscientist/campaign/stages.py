"""All stages that ask a model, in the order in which a campaign runs them.

To add one to this package, write a module (see `models.stage`) and add a line here. Another
installed package registers a stage as an entry point of the group `hpcscientist.stages`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from hpcscientist.authoring.coder import AUTHOR
from hpcscientist.authoring.planner import PLAN
from hpcscientist.authoring.review.advisor import ADVISE
from hpcscientist.authoring.run_reading import ANALYSE
from hpcscientist.config.settings import Settings
from hpcscientist.errors import UsageError
from hpcscientist.ideation.directions import DIRECTIONS
from hpcscientist.ideation.feasibility import FEASIBILITY
from hpcscientist.ideation.novelty import NOVELTY
from hpcscientist.ideation.propose import PROPOSE
from hpcscientist.ideation.reflect import REFLECT
from hpcscientist.literature.analyst import CONCEPTS
from hpcscientist.literature.survey import SURVEY
from hpcscientist.models.stage import Judge, Kind, Means, Stage, VettingStage
from hpcscientist.records.base import Record
from hpcscientist.system import plugins

T = TypeVar("T")

OURS: tuple[Stage[Any], ...] = (
    PROPOSE,
    SURVEY,
    DIRECTIONS,
    REFLECT,
    NOVELTY,
    FEASIBILITY,
    CONCEPTS,
    PLAN,
    AUTHOR,
    ADVISE,
    ANALYSE,
)


def stages() -> tuple[Stage[Any], ...]:
    """Return all stages. Raises UsageError for a plugin that is no `VettingStage`."""
    names = frozenset(stage.name for stage in OURS)
    others = plugins.load("stages", names)
    for name, plugin in others.items():
        stage = plugin.value
        if not isinstance(stage, VettingStage) or stage.name != name:
            raise UsageError(
                f"{plugin.origin}: {name!r} is no VettingStage of that name; fix or uninstall it"
            )
    return (*OURS, *(plugin.value for plugin in others.values()))


def kinds() -> Mapping[str, Kind]:
    """Return all kinds of calls, by name. Raises UsageError for a name that two stages use."""
    found: dict[str, Kind] = {}
    for stage in stages():
        for kind in stage.kinds:
            if kind.name in found:
                raise UsageError(
                    f"stage {stage.name!r} has calls of a kind {kind.name!r}, which another stage "
                    "has; uninstall its package"
                )
            found[kind.name] = kind
    return found


def replies() -> Mapping[str, type[Record]]:
    """Return the reply schema of each kind of call: what a playbook may hold."""
    return {name: kind.reply for name, kind in kinds().items()}


def roles() -> tuple[str, ...]:
    """Return the roles that answer calls, each once."""
    return tuple(dict.fromkeys(kind.role for kind in kinds().values()))


def applied(
    settings: Settings, has_library: bool, recorded: Mapping[str, frozenset[str]]
) -> tuple[str, ...]:
    """Return the names of a model campaign's optional stages, in order.

    They are fixed at launch and stay the same at every resume. A stage is left out if the
    configuration says so, if it needs a library and there is none, or if a playbook answers it but
    holds no reply of its first kind. `recorded` names the kinds that each role's playbook holds; a
    role missing from it asks a model that can answer anything.
    """

    def answered(stage: Stage[Any]) -> bool:
        first = stage.kinds[0]
        held = recorded.get(first.role)
        return held is None or first.name in held

    return tuple(
        stage.name
        for stage in stages()
        if stage.optional and stage.applies(settings, has_library) and answered(stage)
    )


def reads_library(names: Collection[str]) -> bool:
    """Return whether any of these stages reads a library."""
    return any(stage.reads_library for stage in stages() if stage.name in names)


@dataclass(frozen=True, slots=True)
class Opened:
    """The opened stages of a campaign. Empty: all are left out."""

    by_name: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, means: Means) -> Opened:
        """Open the stages that `means` names, and those that every model campaign has."""
        wanted = [stage for stage in stages() if not stage.optional or stage.name in means.stages]
        return cls({stage.name: stage.open(means) for stage in wanted})

    def get(self, stage: Stage[T]) -> T | None:
        """Return the object that carries out a stage, None if the stage is left out."""
        return cast("T | None", self.by_name.get(stage.name))

    def judges(self) -> tuple[tuple[VettingStage[Any], Judge], ...]:
        """Return the vetting stages and their judges, in order; they vet ideas before any code."""
        return tuple(
            (stage, self.by_name[stage.name])
            for stage in (stages() if self.by_name else ())
            if isinstance(stage, VettingStage) and stage.name in self.by_name
        )
