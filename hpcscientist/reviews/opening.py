"""Opens the models that judge papers, and records every call beside the review."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from hpcscientist.config.settings import RoleSettings, Settings
from hpcscientist.errors import UsageError
from hpcscientist.files.rundir import ReviewPaths, RunPaths
from hpcscientist.models.open import open_models
from hpcscientist.models.recorded import RecordedModel
from hpcscientist.models.role_client import RoleClient
from hpcscientist.models.roles import Roles
from hpcscientist.recipe.checks.files import REVIEWS_PLAYBOOK
from hpcscientist.records.model_calls import ModelReply, ModelRequest
from hpcscientist.records.reviews import Effort

ROLE: Final = "review"


def open_judge(settings: Settings, spec: str, papers: tuple[Path, ...]) -> Roles:
    """Open the model of a SPEC, or else of the settings' role `review`.

    `playbook` means the recorded reviews beside the recipe of the paper's campaign. Raises
    ModelSpecError, and UsageError if no model is named.
    """
    spec = spec or settings.review.model or settings.model
    if not spec:
        raise UsageError(
            "no model reviews: give http://HOST:PORT/v1#NAME (see `hpcsci serve`) or playbook:FILE"
        )
    return open_models({ROLE: spec}, _recorded(papers), settings)


def _recorded(papers: tuple[Path, ...]) -> Path | None:
    """Return the recorded reviews in the campaign folder that contains a paper."""
    for paper in papers:
        for folder in paper.absolute().parents:
            run = RunPaths(folder)
            if run.campaign.is_file():
                found = run.recipe / REVIEWS_PLAYBOOK
                return found if found.is_file() else None
    return None


@dataclass(slots=True)
class JudgeCosts:
    """The number and cost of a judge's replies, including replies that were recorded earlier."""

    effort: Effort = field(default_factory=Effort)
    models: tuple[str, ...] = ()

    def add(self, request: ModelRequest, reply: ModelReply, _: int) -> None:
        """Count a reply."""
        was = self.effort
        self.effort = Effort(
            replies=was.replies + 1,
            repairs=was.repairs + bool(request.repair),
            prompt_tokens=was.prompt_tokens + reply.prompt_tokens,
            completion_tokens=was.completion_tokens + reply.completion_tokens,
            estimated=was.estimated or reply.tokens_estimated,
            seconds=was.seconds + reply.latency_s,
        )
        if reply.model not in self.models:
            self.models = tuple(sorted((*self.models, reply.model)))


@dataclass(frozen=True, slots=True)
class JudgeClient:
    """One judge that records into one folder: its client, its tally and the recorded model."""

    client: RoleClient
    tally: JudgeCosts
    recorded: RecordedModel


def desk(roles: Roles, paths: ReviewPaths, settings: Settings, temperature: float) -> JudgeClient:
    """Return a judge whose calls are recorded in a folder."""
    tally = JudgeCosts()
    recorded = RecordedModel(roles, paths, tally.add)
    own: RoleSettings = settings.review.model_copy(update={"temperature": temperature})
    client = RoleClient(recorded, ROLE, own, settings.seed, roles.windows.get(ROLE))
    return JudgeClient(client, tally, recorded)
