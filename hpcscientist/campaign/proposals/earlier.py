"""Adds ideas of earlier campaigns on the same recipe to the bank, before the first idea.

Every admitted idea of theirs joins, with its fate, except improvements: new ideas build on those,
so improvements must not reject follow-ups. (Within one campaign all admitted ideas reject their
look-alikes.) The ideas are copied into the run directory at launch, so a resumed campaign keeps its
bank whatever happens to the earlier run directories.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from hpcscientist.campaign.proposals.idea_file import read_idea
from hpcscientist.config.settings import Settings
from hpcscientist.errors import CampaignError, RecipeError, RunDirectoryError, UsageError
from hpcscientist.files.atomic import write_text
from hpcscientist.files.handed import expanded, read_regular, resolved
from hpcscientist.files.rundir import RunPaths
from hpcscientist.history import frozen
from hpcscientist.history.entities import IdeaState
from hpcscientist.history.status import read_state
from hpcscientist.ideation.bank import Bank, Banked
from hpcscientist.judgement.summary import fate, read_rows
from hpcscientist.records.base import Record
from hpcscientist.records.findings import ResultRow, Verdict
from hpcscientist.records.idea import KnobValue

FILE = "earlier.jsonl"


class EarlierIdea(Record):
    """One line of earlier.jsonl: an idea, its fate, and the text or knobs it is compared by."""

    banked: Banked
    summary: str
    knobs: dict[str, KnobValue] | None = None


def settle(settings: Settings, folder: Path) -> Settings:
    """Return the settings with the earlier run directories as absolute paths, each once."""
    given = [resolved(folder / expanded(run)) for run in settings.loop.bank]
    bank = tuple(dict.fromkeys(map(str, given)))
    loop = settings.loop.model_copy(update={"bank": bank})
    return settings.model_copy(update={"loop": loop})


def read(settings: Settings, recipe: str) -> tuple[EarlierIdea, ...]:
    """Return the ideas that the configured campaigns contribute to one on `recipe`, in order.

    Those campaigns may still run. Raises UsageError for a folder that is no run directory, is
    damaged, or belongs to another recipe.
    """
    folders = [Path(run) for run in settings.loop.bank]
    names = [folder.name for folder in folders]
    ideas: list[EarlierIdea] = []
    for folder in folders:
        origin = folder.name if names.count(folder.name) == 1 else str(folder)
        try:
            ideas += _let_in(RunPaths(folder), origin, recipe)
        except (CampaignError, RecipeError) as error:
            raise UsageError(f"loop.bank: {error}") from error
        except OSError as error:
            raise UsageError(
                f"loop.bank: {error.filename or folder}: cannot be read: {error.strerror}"
            ) from error
    return tuple(ideas)


def write(paths: RunPaths, ideas: tuple[EarlierIdea, ...]) -> None:
    """Write the ideas of earlier campaigns to the run directory, unless there are none."""
    if ideas:
        lines = (idea.model_dump_json(exclude_defaults=True) for idea in ideas)
        write_text(paths.root / FILE, "\n".join(lines) + "\n")


def seeded(bank: Bank, paths: RunPaths) -> Bank:
    """Return the bank, filled with the ideas that `write` kept.

    Raises RunDirectoryError, and the embedder's ModelError.
    """
    path = paths.root / FILE
    try:
        lines = read_regular(path).splitlines()
        ideas = [EarlierIdea.model_validate_json(line) for line in lines]
    except FileNotFoundError:
        return bank
    except (OSError, ValidationError) as error:
        raise RunDirectoryError(f"{path}: is damaged; restore it from a backup") from error
    bank.add_earlier([(idea.banked, idea.summary, idea.knobs) for idea in ideas])
    return bank


def statement(ideas: tuple[EarlierIdea, ...]) -> str:
    """Return the header's text on earlier campaigns, "" if there are none."""
    runs = len({idea.banked.origin for idea in ideas})
    return f"{len(ideas)} ideas of earlier campaigns ({runs})" if ideas else ""


def _let_in(paths: RunPaths, origin: str, recipe: str) -> list[EarlierIdea]:
    """Return one campaign's ideas that reject look-alikes, in the order of their numbers."""
    states = read_state(paths).ideas
    theirs = frozen.read(paths).recipe_name
    if theirs != recipe:
        raise UsageError(
            f"loop.bank: {paths.root}: is a campaign on recipe {theirs!r}, not {recipe!r}; what "
            "became of its ideas says nothing here: leave it out"
        )
    rows = {row.idea_id: row for row in read_rows(paths).rows}
    found: list[EarlierIdea] = []
    for state in sorted(states.values(), key=lambda state: state.number):
        became = _fate(state, rows.get(state.idea_id))
        idea = read_idea(paths.idea(state.idea_id).idea) if became else None
        if idea is not None and became is not None:
            banked = Banked(idea_id=idea.idea_id, origin=origin, fate=became)
            summary = idea.proposal.summary
            found.append(EarlierIdea(banked=banked, summary=summary, knobs=idea.knobs))
    return found


def _fate(state: IdeaState, row: ResultRow | None) -> str | None:
    """Return an idea's fate, None for an idea that rejects nothing."""
    if state.ended is None:
        return fate(None, None) if state.attempts else None
    if state.ended.status == "rejected":
        return None
    verdict = row.finding if row else None
    return None if verdict is Verdict.IMPROVEMENT else fate(state.ended, verdict)
