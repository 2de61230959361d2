"""How often a campaign will ask its models, stage by stage: what is likely, and the most."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Literal

from hpcscientist.authoring import planner
from hpcscientist.authoring.coder import MOST_DRAFTS, REPLIES
from hpcscientist.config.settings import Settings
from hpcscientist.config.steps import Step
from hpcscientist.launching.costs.versions import RUNS, versions
from hpcscientist.models.structured import REPAIRS
from hpcscientist.records.asked.model import Role, role_of

_SEARCHES = 2  # guess: rounds until it is decided whether an idea is new
_TRIES = 1 + REPAIRS
_SERVED = "vllm:"


@dataclass(frozen=True, slots=True)
class Calls:
    """How often a stage is asked: a guess, and a bound that counts every repair."""

    stage: str
    guess: int
    most: int

    @property
    def role(self) -> Role:
        """Who answers."""
        return role_of(self.stage)


def calls(settings: Settings, steps: tuple[Step, ...], mends: int) -> tuple[Calls, ...]:
    """Return the calls of all stages; `mends` is how often an idea's code is likely mended."""
    ideas = settings.ideas
    # A look-alike goes back to its proposer once.
    most = ideas * _TRIES * (2 if settings.loop.independence else 1)
    found = [Calls("propose", ideas, most)]
    for step in steps:
        found += _of_step(step, settings)
    return (*found, *_of_versions(settings, steps, mends))


def _of_versions(settings: Settings, steps: tuple[Step, ...], mends: int) -> list[Calls]:
    """Return what is asked for code: of one version and its repairs, or of a tree of them."""
    ideas, authoring, own = settings.ideas, settings.authoring, versions(settings, steps)
    replies = _replies(settings)
    # Of a tree all but a first version may be repairs, or all of them improvements.
    repairs = ideas * (own.beside + (1 + own.runs_at_most) * settings.loop.debug_rounds)
    first = ideas * own.first
    found = [
        Calls("code", first, first * _TRIES * replies),
        Calls("debug", ideas * mends, repairs * _TRIES * replies),
    ]
    if authoring.analysis and authoring.debugging != "none":
        found.append(Calls("structure", ideas * mends, repairs * _TRIES))
    if own.beside:
        most = ideas * own.beside * _TRIES * replies
        found.append(Calls("improve", ideas * own.improvements, most))
    if own.ablates:
        found.append(_further(settings, ideas * own.runs, ideas * own.runs_at_most))
    return found


def _further(settings: Settings, guess: int, runs: int) -> Calls:
    return Calls("extend", guess, runs * _TRIES * _replies(settings))


def _replies(settings: Settings) -> int:
    """Return how many replies a question for edits takes at most; drafts count each."""
    spec = settings.code.model or settings.model
    drafts = settings.authoring.samples or (MOST_DRAFTS if spec.startswith(_SERVED) else 1)
    return drafts - 1 + REPLIES


def _of_step(step: Step, settings: Settings) -> list[Calls]:
    ideas, literature, proposing = settings.ideas, settings.literature, settings.proposing
    batches = _batches(settings)
    match step:
        case "survey":
            ranked = literature.papers if literature.ranking else 0
            asked = 1 + literature.expansions
            return [_once("attributes", 1), _once("queries", asked), _once("rank", ranked)]
        case "directions":
            return [_once("directions", batches), _once("converge", batches)]
        case "reflect":
            return [_once("reflect", ideas * proposing.reflections)]
        case "novelty":
            likely = ideas * min(_SEARCHES, proposing.novelty_rounds)
            # A decision without evidence is asked for once more, beyond the rounds.
            return [Calls("novelty", likely, ideas * (proposing.novelty_rounds + 1) * _TRIES)]
        case "concepts":
            return [_once("concepts", ideas), _once("profile", ideas * literature.concepts)]
        case _:
            return _of_one_idea(step, settings)


def _of_one_idea(
    step: Literal["feasibility", "plan", "advise", "analyse"], settings: Settings
) -> list[Calls]:
    ideas = settings.ideas
    match step:
        case "feasibility":
            return [Calls("feasibility", ideas, 2 * ideas * _TRIES)]  # a doubt is asked for twice
        case "plan":
            return [Calls("plan", ideas, ideas * _TRIES * (1 + planner.REPAIRS + planner.AGAIN))]
        case "advise":
            return _of_advice(settings)
        case "analyse":
            runs = settings.authoring.further_runs
            likely = ideas * min(RUNS, runs)
            return [
                # The last question reads the last run.
                Calls("analyse", ideas + likely, ideas * (1 + runs) * _TRIES),
                _further(settings, likely, ideas * runs),
            ]


def _of_advice(settings: Settings) -> list[Calls]:
    """A first review, and another after each time its findings went back."""
    ideas, authoring = settings.ideas, settings.authoring
    rounds = authoring.advice_rounds
    most = 1 + rounds + settings.loop.debug_rounds
    reviews = ideas * authoring.judges
    return [
        # An attempt that was mended after all seeds were asked for is reviewed again.
        Calls("advise", reviews * (1 + min(1, rounds)), reviews * most * _TRIES),
        Calls("complete", ideas * min(1, rounds), ideas * rounds * _TRIES * _replies(settings)),
    ]


def _batches(settings: Settings) -> int:
    rounds = min(settings.rounds, settings.ideas) or 1
    return rounds * ceil(ceil(settings.ideas / rounds) / settings.proposing.batch)


def _once(stage: str, count: int) -> Calls:
    return Calls(stage, count, count * _TRIES)
