"""Opens the models that write and judge papers, and records every call beside the paper."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from hpcscientist.config.settings import Settings
from hpcscientist.errors import UsageError
from hpcscientist.files import vault
from hpcscientist.files.rundir import PaperPaths, RunPaths
from hpcscientist.history.frozen import CampaignConfig
from hpcscientist.models.open import open_models, role_specs
from hpcscientist.models.recorded import RecordedModel
from hpcscientist.models.role_client import RoleClient, Roles
from hpcscientist.papers.writing.advice import WantedSection, advice_on
from hpcscientist.papers.writing.brief import brief_of
from hpcscientist.papers.writing.drafts import FigureOffer
from hpcscientist.papers.writing.writer import Build, Check, Writer, WrittenManuscript
from hpcscientist.ports import Library
from hpcscientist.recipe.checks.files import PAPERS_PLAYBOOK
from hpcscientist.recipe.load import Recipe
from hpcscientist.records.facts import FactSheet
from hpcscientist.records.model_calls import ModelReply, ModelRequest

_SEARCH: Final = "search"
_ROLES: Final = ("writing", "review")


@dataclass(slots=True)
class WritingCosts:
    """The cost of writing a paper: replies, replies that fixed an earlier one, tokens."""

    replies: int = 0
    repairs: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    estimated: bool = False

    def add(self, request: ModelRequest, reply: ModelReply, _: int) -> None:
        """Count a reply, whether recorded earlier or new."""
        self.replies += 1
        self.repairs += bool(request.repair)
        self.prompt_tokens += reply.prompt_tokens
        self.completion_tokens += reply.completion_tokens
        self.estimated = self.estimated or reply.tokens_estimated


@dataclass(frozen=True, slots=True)
class PaperCampaign:
    """The campaign that papers are written about; it is not changed.

    `library` is the campaign's literature library, offline; None if it had none.
    """

    paths: RunPaths
    config: CampaignConfig
    recipe: Recipe
    sheet: FactSheet
    library: Library | None


@dataclass(frozen=True, slots=True)
class PaperLayout:
    """What a paper has to contain: its sections, its page limit (0 for none), possible figures."""

    sections: Sequence[WantedSection]
    pages: int = 0
    figures: Sequence[FigureOffer] = ()


def open_writers(campaign: PaperCampaign, settings: Settings, spec: str = "") -> Roles:
    """Open the models that write and judge papers: those of `spec`, else the campaign's own.

    The spec `playbook` means the recipe's recorded replies for papers. Raises ModelSpecError, and
    UsageError if the campaign used no model.
    """
    config = campaign.config
    spec = spec or config.role_specs.get("ideation", "") or config.model_spec
    if spec == _SEARCH and not settings.writing.model:
        raise UsageError(
            "this campaign asked no model, and papers are written by one: give --model SPEC"
        )
    own = campaign.recipe.folder / PAPERS_PLAYBOOK
    playbook = own if own.is_file() else campaign.recipe.playbook
    specs = role_specs(settings, spec, _ROLES)
    return open_models({role: specs[role] for role in _ROLES}, playbook, settings)


@dataclass(frozen=True, slots=True)
class PaperWriters:
    """A campaign with the models that write its papers; `folder` holds one folder per paper."""

    campaign: PaperCampaign
    roles: Roles
    folder: PaperPaths
    settings: Settings
    tell: Callable[[str], None] = lambda _: None
    tally: WritingCosts = field(default_factory=WritingCosts)

    async def write(
        self, subject: str, layout: PaperLayout, check: Check, build: Build | None = None
    ) -> WrittenManuscript:
        """Write the paper on a subject: an idea's id, or the campaign's.

        Recorded replies are reused. Raises UsageError for an unknown idea, EndpointError,
        ReplyError if the model gives no outline, and what the campaign's files, the library and
        `build` raise.
        """
        campaign, settings = self.campaign, self.settings
        brief = brief_of(campaign.paths, campaign.recipe, campaign.sheet, subject)
        sealed = campaign.config.campaign_id if vault.has_key(campaign.config.campaign_id) else ""
        model = RecordedModel(self.roles, self.folder, self.tally.add, sealed)
        seed, windows = campaign.config.settings.seed, self.roles.windows
        writer = Writer(
            client=RoleClient(model, "writing", settings.writing, seed, windows.get("writing")),
            judge=RoleClient(model, "review", settings.review, seed, windows.get("review")),
            brief=brief,
            sheet=campaign.sheet,
            library=campaign.library,
            sections=advice_on(layout.sections, layout.pages),
            figures=layout.figures,
            check=check,
            settings=settings.papers,
            build=build,
            tell=self.tell,
        )
        return await writer.write()
