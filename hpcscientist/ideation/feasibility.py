"""Feasibility: compares what one full trial of an idea needs with what the recipe gives.

AI-Researcher (arXiv 2505.18705) names a better assessment of feasibility as what its pipeline
lacks. A model makes the estimate, because nothing else can before there is code. Whether the
estimate fits is arithmetic, and is computed here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from hpcscientist.config.settings import Settings
from hpcscientist.ideation.material import CORE, DETAILS, idea_fields
from hpcscientist.models.prompting import naming
from hpcscientist.models.prompting.fitting import Prompt, of_template, read_only_files
from hpcscientist.models.prompting.prompts import line, render
from hpcscientist.models.reply_limits import Limit
from hpcscientist.models.role_client import UNANSWERED, CallPurpose, RoleClient
from hpcscientist.models.stage import TRIES, Calls, Expected, Kind, Means, Sample, VettingStage
from hpcscientist.recipe import packages
from hpcscientist.records.idea import Idea
from hpcscientist.records.proposing import FeasibilityReply, FeasibilityVerdict

if TYPE_CHECKING:
    from hpcscientist.recipe.load import Recipe

_MOST_NAMED = 10  # data or packages
_REASON = 1000  # characters of what a model says


class FeasibilityJudge:
    """Judges whether ideas fit a recipe; stage `feasibility`, ordinal 2 if 1 contradicts itself."""

    def __init__(self, client: RoleClient, recipe: Recipe) -> None:
        self._client, self._recipe = client, recipe
        self._packages = packages.imported(recipe.reference)

    async def judge(self, idea: Idea, reference_s: float | None = None) -> FeasibilityVerdict:
        """Return whether an idea fits, with every problem and its figures. Raises EndpointError.

        `reference_s` are the measured seconds of a full trial of the reference, if known. A figure
        beyond a limit is a problem. If the model says that the idea does not fit, everything it
        lists as missing is a problem too. A reply that contradicts itself is asked once more:

        - It says that the idea does not fit, but nothing it names exceeds a limit. If the model
          repeats that, its reason alone is the problem, because not every obstacle is one of the
          figures (missing labels, a second process).
        - It says that the idea fits, but lists missing files, packages or data. Those lists are
          often remarks ("only the provided data", a new file for code that could go into an
          editable one), so its second reply decides. Packages are the exception: if they are listed
          again, they count in any case. The prompt stated which packages can be imported, and the
          code would fail at the import after every fix.

        If the second reply is unusable, the first was only a guess, and the idea fits: a pilot
        trial costs less than a good idea is worth. If the first reply is unusable, the idea fits
        too, with the reason that it could not be judged.
        """
        prompt = self._prompt(idea, reference_s)
        try:
            reply = await self._ask(idea, 1, prompt)
        except UNANSWERED as error:
            reason = line(f"it could not be judged: {error}", _REASON)
            return FeasibilityVerdict(fits=True, reason=reason)
        exceeded, lacking = self._exceeded(reply), self._lacking(reply)
        if exceeded or reply.fits != bool(lacking):
            return _verdict(reply, exceeded + lacking)
        doubt = render("contradiction", lacking=lacking)
        try:
            again = await self._ask(idea, 2, prompt.answered((reply.model_dump_json(),), doubt))
        except UNANSWERED:
            return _unsettled(reply, lacking)
        return _verdict(again, self._confirmed(again))

    async def _ask(self, idea: Idea, ordinal: int, prompt: Prompt) -> FeasibilityReply:
        call = CallPurpose(idea.idea_id, idea.number, "feasibility", ordinal)
        # Files that may not change are allowed here: an idea that needs one does not fit.
        files = dict.fromkeys((*self._recipe.spec.editable, *self._recipe.reference))
        limits = {
            "files": Limit(values=tuple(files), most=len(files)),
            "data": Limit(most=_MOST_NAMED),
            "packages": Limit(most=_MOST_NAMED),
        }
        return await self._client.ask(call, FeasibilityReply, prompt, limits)

    def _prompt(self, idea: Idea, reference_s: float | None) -> Prompt:
        """Return the prompt for an estimate; if too long, it drops the longest reference files."""
        spec = self._recipe.spec
        return of_template(
            "feasibility",
            (read_only_files("reference_files", self._recipe.reference, ()),),
            topic=spec.topic,
            editable=spec.editable,
            budgets=spec.budgets,
            resources=spec.resources,
            packages=self._packages,
            reference_s=reference_s,
            idea_fields=idea_fields(idea.proposal, CORE + DETAILS),
        )

    def _confirmed(self, again: FeasibilityReply) -> tuple[str, ...]:
        """Return the problems of a second reply."""
        exceeded = self._exceeded(again)
        if again.fits:
            return exceeded + self._unimportable(again)
        return exceeded + self._lacking(again) or (_reason(again),)

    def _exceeded(self, reply: FeasibilityReply) -> tuple[str, ...]:
        """Return the limits that figures exceed, each with what is needed and what there is."""
        spec, found = self._recipe.spec, list[str]()
        given_s, given_mb = spec.budgets.full.seconds, spec.resources.memory_mb
        if reply.seconds > given_s:
            found.append(
                f"needs about {_figure(reply.seconds)} s of a full trial; "
                f"the recipe gives {_figure(given_s)} s"
            )
        if reply.memory_mb > given_mb:
            found.append(
                f"needs about {_figure(reply.memory_mb)} MiB of memory; "
                f"the recipe gives {_figure(given_mb)} MiB"
            )
        return tuple(found)

    def _lacking(self, reply: FeasibilityReply) -> tuple[str, ...]:
        """Return the files, packages and data that are named and missing."""
        spec, reference = self._recipe.spec, self._recipe.reference
        editable = ", ".join(spec.editable)
        changed = naming.files(reply.files, reference)
        return (
            *(
                f"changes {name}; the recipe lets change {editable} alone"
                for name in changed
                if name not in spec.editable
            ),
            *self._unimportable(reply),
            *(
                f"needs data that the recipe lacks: {name}"
                for name in naming.data(reply.data, reference)
            ),
        )

    def _unimportable(self, reply: FeasibilityReply) -> tuple[str, ...]:
        there = ", ".join((*self._packages, "the standard library"))
        return tuple(
            f"imports {name}; there is {there}, and nothing can be installed"
            for name in naming.packages(reply.packages)
            if not packages.importable(name, self._packages)
        )


def _unsettled(reply: FeasibilityReply, lacking: tuple[str, ...]) -> FeasibilityVerdict:
    """Return the verdict on a contradictory reply that got no usable second one."""
    said = _reason(reply)
    if lacking:
        reason = f"it was said to fit ({said}), though it {'; '.join(lacking)}"
    else:
        reason = f"no limit is exceeded, though it was said not to fit: {said}"
    return _verdict(reply, ()).model_copy(update={"reason": line(reason, _REASON)})


def _verdict(reply: FeasibilityReply, problems: tuple[str, ...]) -> FeasibilityVerdict:
    return FeasibilityVerdict(
        fits=not problems,
        problems=problems,
        reason=_reason(reply),
        seconds=reply.seconds if math.isfinite(reply.seconds) else None,
        memory_mb=reply.memory_mb if math.isfinite(reply.memory_mb) else None,
    )


def _reason(reply: FeasibilityReply) -> str:
    return line(reply.reason, _REASON) or "no reason was given"


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


class FeasibilityStage(VettingStage[FeasibilityJudge]):
    """Judges whether an idea fits the recipe, once an idea."""

    name = "feasibility"
    kinds = (Kind("feasibility", "review", FeasibilityReply),)
    verdict = FeasibilityVerdict

    def applies(self, settings: Settings, has_library: bool) -> bool:
        """Return whether settings enable it."""
        return settings.proposing.feasibility

    def calls(self, expected: Expected) -> Sequence[Calls]:
        """Return the calls: one an idea, and one more if a reply contradicts itself."""
        ideas = expected.settings.ideas
        return (Calls("feasibility", ideas, 2 * ideas * TRIES),)

    def open(self, means: Means) -> FeasibilityJudge:
        """Return the judge."""
        return FeasibilityJudge(means.client("review"), means.recipe)

    async def weigh(self, opened: FeasibilityJudge, sample: Sample) -> None:
        """Judge an idea."""
        await opened.judge(sample.idea)


FEASIBILITY = FeasibilityStage()
