"""Makes the brief of a paper: the task and, in words, one idea with its outcome or all ideas.

It also selects the facts for a section. The texts of a brief were written by models or by the
recipe's author. Numbers in them are not measurements: every number that is printed comes from a
fact.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError

from hpcscientist.campaign.proposals.idea_file import read_idea
from hpcscientist.errors import RunDirectoryError, UsageError
from hpcscientist.files.handed import Read
from hpcscientist.files.rundir import RunPaths
from hpcscientist.history import frozen
from hpcscientist.models.prompting.prompts import line
from hpcscientist.papers.writing.advice import SectionAdvice
from hpcscientist.recipe.load import Recipe
from hpcscientist.records.experiment import AnalysisReply, ExperimentPlan
from hpcscientist.records.facts import BASELINE, Fact, FactIdea, FactKind, FactSheet, Statistic
from hpcscientist.records.findings import Verdict
from hpcscientist.records.idea import BASELINE_ID, CAMPAIGN_ID, Idea
from hpcscientist.records.literature import ConceptRecord
from hpcscientist.records.manuscript import PaperScope
from hpcscientist.records.proposing import NoveltyVerdict
from hpcscientist.records.trial import Split

T = TypeVar("T", bound=BaseModel)

_FIELD = 1500  # characters of one field
_REASON = 300
_READINGS = 20
_CONCEPTS = TypeAdapter(tuple[ConceptRecord, ...])


@dataclass(frozen=True, slots=True)
class PaperBrief:
    """What one paper is about. `subject` names its folder and model calls; `number` is its seed.

    `fields` are named texts about it, the most important first. `query` is the first search for
    related work, and `papers` are those that the campaign itself found.
    """

    subject: str
    number: int
    scope: PaperScope
    title: str
    topic: str
    fields: tuple[tuple[str, str], ...]
    query: str
    papers: tuple[str, ...]

    @property
    def is_campaign(self) -> bool:
        """Return whether the paper is on the campaign as a whole."""
        return not self.scope.ideas


def of_idea(paths: RunPaths, recipe: Recipe, sheet: FactSheet, idea_id: str) -> PaperBrief:
    """Return the brief on one idea. Raises UsageError, RunDirectoryError, IdeaDamaged."""
    known = sheet.idea_by_id.get(idea_id)
    folder = paths.idea(idea_id)
    read = frozen.reader(paths)
    idea = read_idea(folder.idea, read=read) if known is not None else None
    if known is None or idea is None:
        raise _no_such_idea(sheet, idea_id)
    novelty = _record(folder.verdict("novelty"), NoveltyVerdict, read)
    found = tuple(citation.paper_id for citation in novelty.evidence) if novelty else ()
    concepts = _concepts(paths, idea_id, read)
    proposal = idea.proposal
    return PaperBrief(
        subject=idea_id,
        number=idea.number,
        scope=PaperScope(campaign_id=sheet.campaign_id, ideas=(idea_id,)),
        title=proposal.title,
        topic=_topic(recipe),
        fields=tuple(_filled(_of_idea(paths, idea, known, concepts, read))),
        query=f"{proposal.title}. {proposal.summary}",
        papers=(*proposal.papers, *found, *(p for concept in concepts for p in concept.papers)),
    )


def of_campaign(paths: RunPaths, recipe: Recipe, sheet: FactSheet) -> PaperBrief:
    """Return the brief on all ideas, in order of their numbers. Raises IdeaDamaged."""
    read = frozen.reader(paths)
    fields = [(idea.idea_id, _in_brief(paths, idea, read)) for idea in sheet.ideas]
    return PaperBrief(
        subject=CAMPAIGN_ID,
        number=0,
        scope=PaperScope(campaign_id=sheet.campaign_id),
        title=recipe.spec.topic.title,
        topic=_topic(recipe),
        fields=tuple(_filled(iter(fields))),
        query=f"{recipe.spec.topic.title}. {recipe.spec.topic.description}",
        papers=(),
    )


def subjects(sheet: FactSheet, asked: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Return the subjects of the papers to write.

    These are the ideas asked for or, by default, each confirmed improvement and the campaign.
    Raises UsageError for an unknown idea.
    """
    there = {CAMPAIGN_ID, *sheet.idea_by_id} - {BASELINE_ID}
    for subject in asked:
        if subject not in there:
            raise _no_such_idea(sheet, subject)
    if asked:
        return tuple(dict.fromkeys(asked))
    confirmed = (idea.idea_id for idea in sheet.ideas if idea.confirmed)
    return (*confirmed, CAMPAIGN_ID)


def _no_such_idea(sheet: FactSheet, idea_id: str) -> UsageError:
    ids = ", ".join(idea.idea_id for idea in sheet.ideas if idea.status == "scored")
    return UsageError(f"--idea {idea_id}: there is no such idea; those scored: {ids or 'none'}")


def brief_of(paths: RunPaths, recipe: Recipe, sheet: FactSheet, subject: str) -> PaperBrief:
    """Return the brief of the paper on a subject. Raises as `of_idea` does."""
    if subject == CAMPAIGN_ID:
        return of_campaign(paths, recipe, sheet)
    return of_idea(paths, recipe, sheet, subject)


def _topic(recipe: Recipe) -> str:
    topic = recipe.spec.topic
    return (
        f"{topic.title}. {' '.join(topic.description.split())} Inputs: {topic.inputs}. "
        f"Outputs: {topic.outputs}."
    )


def _of_idea(
    paths: RunPaths,
    idea: Idea,
    known: FactIdea,
    concepts: tuple[ConceptRecord, ...],
    read: Read,
) -> Iterator[tuple[str, str]]:
    proposal, folder = idea.proposal, paths.idea(idea.idea_id)
    yield "Its id", idea.idea_id
    yield "Its title", proposal.title
    yield "What became of it", _end(known)
    yield "Hypothesis", proposal.hypothesis
    yield "Method", proposal.method
    yield "Details", proposal.technical_details
    plan = _record(folder.plan, ExperimentPlan, read)
    if plan is not None:
        yield "Parts of the code", "; ".join(plan.parts)
        yield "Training, as planned", plan.training
        yield "Model, as planned", plan.model
        yield "Data, as planned", plan.data
        yield "Testing, as planned", plan.testing
    for number, name in sorted(known.parts.items()):
        yield f"Further run, attempt {number}", name
    for number in range(1, _READINGS):
        reading = _record(folder.reading(number), AnalysisReply, read)
        if reading is None:
            break
        yield f"Reading {number} of its runs", reading.reading
    for concept in concepts:
        formula = f" Formula: {concept.formula}" if concept.formula else ""
        yield f"Concept: {concept.name}", f"{concept.definition}{formula}"
    yield "Motivation", proposal.motivation
    yield "Expected", proposal.expected_outcome
    yield "Risks", proposal.risks


def _in_brief(paths: RunPaths, known: FactIdea, read: Read) -> str:
    folder = paths.idea(known.idea_id)
    idea = read_idea(folder.idea, read=read) if known.status != "baseline" else None
    summary = f" {idea.proposal.summary}" if idea else ""
    return f"{known.title}: {_end(known)}.{summary}"


def _end(known: FactIdea) -> str:
    if known.status == "baseline":
        return "the reference that ideas are compared with"
    if known.status != "scored":
        reason = f": {line(known.reason, _REASON)}" if known.reason else ""
        return f"{known.status}{reason}"
    if known.verdict is not Verdict.IMPROVEMENT:
        return f"scored, {known.verdict or 'undecided'} against the reference"
    held = {True: "confirmed", False: "not confirmed", None: "not run"}[known.confirmed]
    return f"an improvement on validation, {held} on the test split"


def _filled(fields: Iterator[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    return ((name, line(text, _FIELD)) for name, text in fields if text.strip())


def _concepts(paths: RunPaths, idea_id: str, read: Read) -> tuple[ConceptRecord, ...]:
    path = paths.idea(idea_id).concepts
    try:
        return _CONCEPTS.validate_json(read(path))
    except FileNotFoundError:
        return ()
    except (OSError, ValidationError) as error:
        raise RunDirectoryError(f"{path}: cannot be read; restore it, or delete it") from error


def _record(path: Path, kind: type[T], read: Read) -> T | None:
    """Return the record in an idea's file; None if there is none. Raises RunDirectoryError."""
    try:
        return kind.model_validate_json(read(path))
    except FileNotFoundError:
        return None
    except (OSError, ValidationError) as error:
        raise RunDirectoryError(f"{path}: cannot be read; restore it, or delete it") from error


# Selection of the facts for a section, the most important first: a prompt cannot hold all facts.

MOST: Final = 70  # most facts in one prompt
_RANK: Final = {
    Statistic.DELTA: 0,
    Statistic.INTERVAL: 1,
    Statistic.MEAN: 2,
    Statistic.P_ADJUSTED: 3,
    Statistic.P: 3,
    Statistic.SHRINKAGE: 4,
    Statistic.N: 5,
    Statistic.SD: 6,
    Statistic.LOW: 7,
    Statistic.HIGH: 7,
}
_OF_SEEDS: Final = (Statistic.BEST, Statistic.WORST)
_KNOBS: Final = "recipe.knob."  # search ranges of the control arm, which no paper needs
_OF_ALL: Final = (Statistic.DELTA, Statistic.INTERVAL, Statistic.P_ADJUSTED, Statistic.MEAN)


def facts_for(section: SectionAdvice, sheet: FactSheet, ideas: Sequence[str]) -> tuple[Fact, ...]:
    """Return at most `MOST` facts for a section of a paper on `ideas`; () means the campaign.

    Values of single seeds are left out, as a paper reports statistics over all seeds.
    Hyperparameters with the reference's value come last.
    """
    primary = sheet.metrics[0].name if sheet.metrics else ""
    fitting = (fact for fact in sheet.facts if _is_told(fact, ideas))
    reference = {f.scope.of: f.value for f in sheet.facts if _is_reference_s(f)}
    kinds = {kind: place for place, kind in enumerate(section.kinds)}

    def order(fact: Fact) -> tuple[int, int, int, int, int, int]:
        scope = fact.scope
        same = fact.kind is FactKind.HYPERPARAMETER and reference.get(scope.of) == fact.value
        return (
            1 if scope.metric not in (None, primary) or same else 0,
            kinds[fact.kind],
            1 if scope.run not in (None, "main") else 0,
            0 if scope.split in (None, Split.TEST) else 1,
            _RANK.get(scope.statistic, 8) if scope.statistic else 0,
            1 if scope.idea == BASELINE else 0,
        )

    chosen = (fact for fact in fitting if fact.kind in kinds)
    return tuple(sorted(chosen, key=order)[:MOST])


def lines_of(facts: Sequence[Fact]) -> tuple[str, ...]:
    """Return facts as prompts show them: id, printed text, unit and label."""
    return tuple(_line(fact) for fact in facts)


def _line(fact: Fact) -> str:
    unit = f" ({fact.unit})" if fact.unit else ""
    return f"{{{fact.id}}} is printed as “{fact.text}”{unit}: {fact.label}"


def _is_reference_s(fact: Fact) -> bool:
    return fact.kind is FactKind.HYPERPARAMETER and fact.scope.idea == BASELINE


def _is_told(fact: Fact, ideas: Sequence[str]) -> bool:
    scope = fact.scope
    if scope.statistic in _OF_SEEDS or fact.id.startswith(_KNOBS):
        return False
    if scope.idea in (None, BASELINE) or scope.idea in ideas:
        return True
    # The campaign's paper reports the result of every idea, but not its further runs.
    return not ideas and scope.run in (None, "main") and scope.statistic in _OF_ALL
