"""The reply schemas of the stages that write a paper: outline, evidence, sections, checks.

Every text is restricted text; see `records.manuscript`.
"""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field

from hpcscientist.records.base import Prose, Record


class OutlinedSection(Record):
    """What one section is going to say; part of a reply."""

    section: str = Field(description="Its id, as listed in the prompt.")
    points: tuple[Prose, ...] = Field(
        min_length=1, description="What it says, one thought each, in their order."
    )
    figures: tuple[str, ...] = Field(default=(), description="Ids of the figures it explains.")


class OutlineReply(Record):
    """The reply schema of stage `outline`."""

    title: Prose = Field(min_length=1, description="Plain words, no number.")
    contribution: Prose = Field(min_length=1, description="What the paper shows, one sentence.")
    sections: tuple[OutlinedSection, ...] = Field(min_length=1)


class Evidence(Record):
    """A sentence of a paper that the manuscript may cite it for; part of a reply."""

    evidence: str = Field(description="Id of the sentence, as listed in the prompt.")
    section: str = Field(description="Id of the section that it is for.")
    use: Prose = Field(min_length=1, description="What it will be cited for, one sentence.")


class RelatedReply(Record):
    """The reply schema of stage `related`: what to keep of the papers found, and what to search."""

    keep: tuple[Evidence, ...] = ()
    query: Prose = Field(default="", description="The next search; empty when done.")
    done: bool = Field(description="Whether the papers so far suffice.")


class Caption(Record):
    """The words about a figure; part of a reply."""

    figure: str = Field(description="Its id, as listed in the prompt.")
    caption: Prose = Field(min_length=1)


class SectionReply(Record):
    """The reply schema of stages `section`, `refine` and `mend`: one section, whole."""

    paragraphs: tuple[Prose, ...] = Field(
        min_length=1, description="One string a paragraph; lines that begin with '- ' are a list."
    )
    captions: tuple[Caption, ...] = Field(
        default=(), description="Captions of this section's figures."
    )


class Answer(Record):
    """One question of a checklist, answered; part of a reply."""

    question: str = Field(description="Its id, as listed in the prompt.")
    met: bool
    remark: Prose = Field(default="", description="What to change; empty where it is met.")


class ChecklistReply(Record):
    """The reply schema of stage `checklist`."""

    answers: tuple[Answer, ...] = Field(min_length=1)


class Remark(Record):
    """What to change in a section; part of a reply."""

    section: str = Field(description="Its id, as listed in the prompt.")
    remark: Prose = Field(min_length=1)


class WholeReply(Record):
    """The reply schema of stage `whole`: what the paper lacks as a whole; nothing where it is
    good.
    """

    remarks: tuple[Remark, ...] = ()


# Stage -> the schema of its reply.
REPLIES: Mapping[str, type[Record]] = {
    "outline": OutlineReply,
    "related": RelatedReply,
    "section": SectionReply,
    "checklist": ChecklistReply,
    "refine": SectionReply,
    "whole": WholeReply,
    "mend": SectionReply,
}
