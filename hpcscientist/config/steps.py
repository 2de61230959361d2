"""Which steps an idea takes: settled at launch, the same at every resume.

A step is left out where the configuration says so, where there is no library for it, and where
a playbook answers it and holds no reply of its kind: what was never recorded cannot be replayed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from hpcscientist.config.settings import Settings
from hpcscientist.records.asked.model import Role, role_of

Step = Literal[
    "survey",
    "directions",
    "reflect",
    "novelty",
    "feasibility",
    "concepts",
    "plan",
    "advise",
    "analyse",
]

# A step and the stage without which it comes to nothing.
_STAGE: dict[Step, str] = {
    "survey": "attributes",
    "directions": "directions",
    "reflect": "reflect",
    "novelty": "novelty",
    "feasibility": "feasibility",
    "concepts": "concepts",
    "plan": "plan",
    "advise": "advise",
    "analyse": "analyse",
}


def steps(
    settings: Settings, has_library: bool, recorded: Mapping[Role, frozenset[str]]
) -> tuple[Step, ...]:
    """Return the steps of a campaign with language models, in their order.

    `recorded` names the stages that a role's playbook holds; a role that is not in it asks a
    model that can answer anything.
    """
    literature, proposing = settings.literature, settings.proposing
    authoring = settings.authoring
    wanted: dict[Step, bool] = {
        "survey": literature.survey and has_library,
        "directions": proposing.batch > 1,
        "reflect": proposing.reflections > 0,
        "novelty": proposing.novelty_rounds > 0 and has_library,
        "feasibility": proposing.feasibility,
        "concepts": literature.concepts > 0 and has_library,
        "plan": authoring.plan,
        "advise": authoring.advice_rounds > 0,
        "analyse": authoring.further_runs > 0,
    }

    def answered(step: Step) -> bool:
        stages = recorded.get(role_of(_STAGE[step]))
        return stages is None or _STAGE[step] in stages

    return tuple(step for step, wish in wanted.items() if wish and answered(step))
