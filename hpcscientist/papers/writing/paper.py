"""One paper with its model: opened by its role, every call recorded beside the paper."""

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
from hpcscientist.models.role_client import RoleClient
from hpcscientist.models.roles import Roles
from hpcscientist.papers.writing.advice import Wanted, advice_on
from hpcscientist.papers.writing.brief import brief_of
from hpcscientist.papers.writing.drafts import FigureOffer
from hpcscientist.papers.writing.writer import Build, Check, Writer, Written
from hpcscientist.ports import Library
from hpcscientist.recipe.checks.files import PAPERS_PLAYBOOK
from hpcscientist.recipe.load import Recipe
from hpcscientist.records.facts import FactSheet
from hpcscientist.records.model_calls import ModelReply, ModelRequest

_SEARCH: Final = "search"
_ROLES: Final = ("writing", "review")


@dataclass(slots=True)
class Tally:
    """What the writing of papers took: replies, those of them that fixed others, tokens."""

    replies: int = 0
    repairs: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    estimated: bool = False

    def add(self, request: ModelRequest, reply: ModelReply, _: int) -> None:
        """Count a reply, recorded earlier or now."""
        self.replies += 1
        self.repairs += bool(request.repair)
        self.prompt_tokens += reply.prompt_tokens
        self.completion_tokens += reply.completion_tokens
        self.estimated = self.estimated or reply.tokens_estimated


@dataclass(frozen=True, slots=True)
class Campaign:
    """The campaign that papers are written about; nothing of it is changed.

    `library` is the one that it was grounded in, offline; None where it had none.
    """

    paths: RunPaths
    config: CampaignConfig
    recipe: Recipe
    sheet: FactSheet
    library: Library | None


@dataclass(frozen=True, slots=True)
class Layout:
    """What a venue asks of a paper: its sections, its pages (0: any), figures there are."""

    sections: Sequence[Wanted]
    pages: int = 0
    figures: Sequence[FigureOffer] = ()


def open_writers(campaign: Campaign, settings: Settings, spec: str = "") -> Roles:
    """Open the models that write and judge papers: those of `spec`, else the campaign's own.

    `playbook` means the recorded replies for papers that came with the recipe. Raises
    ModelSpecError, and UsageError where the campaign asked no model.
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
class Desk:
    """Who writes papers on a campaign, and where: `folder` has a folder of each."""

    campaign: Campaign
    roles: Roles
    folder: PaperPaths
    settings: Settings
    tell: Callable[[str], None] = lambda _: None
    tally: Tally = field(default_factory=Tally)

    async def write(
        self, subject: str, layout: Layout, check: Check, build: Build | None = None
    ) -> Written:
        """Write the paper on an idea or, by its id, the campaign.

        What was asked for before is taken from the record. Raises UsageError for an idea that
        there is none of, EndpointError, ReplyError where not even an outline comes, and what the
        campaign's files, the library and `build` raise.
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
