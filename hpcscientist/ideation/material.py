"""The material of this package's prompts: the campaign's knowledge, ideas and papers, all quoted.

A text by a paper or a model becomes one line of bounded length (see `models.prompting.prompts`). An
instruction comes from the user who runs the campaign and is shown as given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from hpcscientist.models.prompting.fitting import (
    Prompt,
    PromptPart,
    entries,
    from_the_end,
    lines_from_the_end,
    of_template,
    read_only_files,
)
from hpcscientist.models.prompting.prompts import line
from hpcscientist.models.reply_limits import Limit, Limits
from hpcscientist.records.findings import Verdict
from hpcscientist.records.idea import Proposal
from hpcscientist.records.proposing import ArchiveEntry, ProposalTask, Reference

if TYPE_CHECKING:
    from hpcscientist.recipe.load import Recipe

TITLE = 300  # characters, like the limits below; no honest text of its kind is longer
SUMMARY = 1500
ABSTRACT = 1000  # the main point of an abstract comes earlier
FIELD = 6000

# The parts of a proposal in reading order; those kept longest come first.
CORE = ("title", "summary", "hypothesis", "method")
DETAILS = ("technical_details", "experiment_plan")
REST = ("motivation", "expected_outcome", "risks")

_MOST_IDS = 5  # parents or papers of one idea
_IMPROVED = Verdict.IMPROVEMENT.value


def idea_fields(proposal: Proposal, names: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Return the named texts of a proposal with their names, without empty ones."""
    texts = ((name, line(getattr(proposal, name), FIELD)) for name in names)
    return tuple((name.replace("_", " ").capitalize(), text) for name, text in texts if text)


def proposal_limits(task: ProposalTask, within: str = "") -> Limits:
    """Return limits that allow only parents and papers that the prompt shows.

    `within` is the path of fields before the proposal.
    """
    ids = {
        "parent_ids": tuple(entry.idea_id for entry in task.archive),
        "papers": tuple(line(paper.paper_id, TITLE) for paper in task.references),
    }
    return {f"{within}{name}": Limit(values=of, most=_MOST_IDS) for name, of in ids.items()}


def fields_part(
    name: str, proposal: Proposal, kept: Sequence[str], more: Sequence[str]
) -> PromptPart:
    """Return a proposal's texts as a part: `kept` stay, `more` go one by one, the last first."""
    core, rest = idea_fields(proposal, kept), idea_fields(proposal, more)
    return PromptPart(name, len(rest), lambda step: core + rest[: len(rest) - step])


def abstracts_part(papers: Sequence[Reference]) -> PromptPart:
    """Return abstracts by paper, the best paper first, as a part that loses the last first."""
    texts = [(line(paper.paper_id, TITLE), line(paper.abstract, ABSTRACT)) for paper in papers]
    shown = [(paper_id, text) for paper_id, text in texts if text]

    def at(step: int) -> Mapping[str, str]:
        return dict(shown[: len(shown) - step])

    return PromptPart("abstracts", len(shown), at)


def titles_of(papers: Sequence[Reference]) -> tuple[Reference, ...]:
    """Return papers as lists show them, without abstracts, which are a part of their own."""
    return tuple(
        Reference(
            paper_id=line(paper.paper_id, TITLE),
            title=line(paper.title, TITLE),
            abstract="",
            year=paper.year,
        )
        for paper in papers
    )


def knowledge_prompt(
    template: str,
    recipe: Recipe,
    task: ProposalTask,
    keep: Sequence[str] = (),
    **context: object,
) -> Prompt:
    """Return a prompt that begins with what is known when an idea is proposed.

    If it is too long for the model, the least useful material goes first, in this order:

    - Abstracts, the lowest ranked first: a title reminds a model of what it has read.
    - Earlier ideas, the oldest first and improvements last: the bank finds repetitions anyway.
    - Titles of papers.
    - Feedback, from its end: it is sorted by how much it teaches.
    - The topic's seed ideas.
    - Titles that others work on.
    - The reference's files except `keep`: without those nobody can say what should change.
    - The leader's texts beyond its core.

    Instruction and direction stay, because they are the task.
    """
    spec, leader = recipe.spec, task.leader if task.mode == "follow-up" else None
    leading = fields_part(
        "leader_fields", leader.proposal, CORE, DETAILS + REST
    ) if leader else PromptPart("leader_fields", 0, lambda _: ())  # fmt: skip
    direction = task.direction and task.direction.model_copy(
        update={
            "title": line(task.direction.title, TITLE),
            "summary": line(task.direction.summary, SUMMARY),
        }
    )
    return of_template(
        template,
        (
            abstracts_part(task.references),
            entries(
                "archive", [_quoted(e) for e in task.archive], lambda e: e.finding == _IMPROVED
            ),
            from_the_end("references", titles_of(task.references)),
            lines_from_the_end("feedback_text", task.feedback),
            from_the_end("seed_ideas", recipe.seed_ideas),
            from_the_end("others", [line(title, TITLE) for title in task.others]),
            read_only_files("reference_files", recipe.reference, keep),
            leading,
        ),
        number=task.number,
        topic=spec.topic,
        metrics=spec.metrics,
        budgets=spec.budgets,
        editable=spec.editable,
        instruction="" if task.mode == "open" else task.instruction.strip(),
        leader=leader,
        direction=direction,
        **context,
    )


def _quoted(entry: ArchiveEntry) -> ArchiveEntry:
    return entry.model_copy(
        update={"title": line(entry.title, TITLE), "summary": line(entry.summary, SUMMARY)}
    )
