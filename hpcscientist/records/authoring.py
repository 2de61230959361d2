"""An author's tasks, the drafts that it returns, and the schemas of a model's replies with code."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, field_validator

from hpcscientist.records.base import Prose, Record
from hpcscientist.records.experiment import CodeReview, ExperimentPlan, FurtherRun
from hpcscientist.records.idea import Idea
from hpcscientist.records.literature import ConceptRecord
from hpcscientist.records.trial import IdeaFailed


class Draft(Record):
    """A complete set of files (name to text), with a note on what was changed."""

    files: dict[str, str]
    note: str

    @field_validator("note", mode="after")
    @classmethod
    def _as_it_is_saved(cls, note: str) -> str:
        """Strip trailing white space: the note is saved as a line, and must read back unchanged."""
        return note.rstrip()


class GaveUp(Record):
    """The author's answer that it cannot continue; `reason` is one line."""

    reason: str


class Brief(Record):
    """Everything that is known of an idea before its code is written."""

    idea: Idea
    concepts: tuple[ConceptRecord, ...] = ()
    plan: ExperimentPlan | None = None


class CompleteTask(Record):
    """An attempt that runs but does not implement all of its idea. `round` counts from 1."""

    brief: Brief
    files: dict[str, str]
    review: CodeReview
    round: int = Field(ge=1)
    seen: tuple[str, ...] = ()


class ExtendTask(Record):
    """A further run of a scored idea: its files, and the change. `number` counts runs from 1."""

    brief: Brief
    files: dict[str, str]
    run: FurtherRun
    number: int = Field(ge=1)
    seen: tuple[str, ...] = ()


class Variant(Record):
    """An earlier change of a version: its note, and its pilot's values or its failure."""

    note: str
    values: dict[str, float] = Field(default={})
    failure: str | None = None


class RedraftTask(Record):
    """Another first version, unlike earlier ones. `number` counts first versions, so from 2.

    `earlier` holds the notes of the first versions so far.
    """

    brief: Brief
    number: int = Field(ge=2)
    earlier: tuple[str, ...] = ()
    seen: tuple[str, ...] = ()


class ImproveTask(Record):
    """A version that runs, to be improved. `number` is the number of the version to write.

    `values` are its pilot's values by metric, `reference` the reference's pilot's, if it had one.
    `led` holds the notes of the versions that led to it, oldest first; `tried` the versions that
    were already made from it.
    """

    brief: Brief
    files: dict[str, str]
    number: int = Field(ge=1)
    values: dict[str, float]
    reference: dict[str, float] = Field(default={})
    led: tuple[str, ...] = ()
    tried: tuple[Variant, ...] = ()
    seen: tuple[str, ...] = ()


class FixTask(Record):
    """A failed attempt to fix. `round` counts debug rounds from 1; `run` is the further run it
    belongs to, 0 for the idea itself. `node` is the number of the fixed version in a tree of
    versions, 0 outside of one.

    `log_tail` is the end of the trial's log, with the traceback. `earlier` holds the notes of
    earlier rounds, `seen` the code hashes of all versions so far.
    """

    idea: Idea
    files: dict[str, str]
    outcome: IdeaFailed
    log_tail: str
    round: int = Field(ge=1)
    rounds: int = Field(ge=1)
    run: int = Field(default=0, ge=0)
    node: int = Field(default=0, ge=0)
    earlier: tuple[str, ...] = ()
    seen: tuple[str, ...] = ()


# The schemas of a model's structured replies, one per stage; see also `records.idea.Proposal`.


class Edit(Record):
    """One change of one file."""

    file: str = Field(description="Path relative to the code folder, as listed in the prompt.")
    search: str | None = Field(
        default=None,
        description=(
            "Text that occurs exactly once in the file and is to be replaced, copied "
            "exactly; null to replace the whole file."
        ),
    )
    replace: str = Field(description="The new text.")


class UnitEdit(Record):
    """One change of one unit of a file: a function, a class, a method, a constant, the imports."""

    unit: str = Field(description="One of the units that the prompt lists.")
    action: Literal["replace", "add"] = Field(
        default="replace", description="Put the code in the unit's place, or add it after the unit."
    )
    code: str = Field(description="The complete new source of the unit, or of what is added.")


def _form(edit: Any) -> str:
    """Return the form of an edit, so that validation errors are about that form only."""
    has_unit = "unit" in edit if isinstance(edit, dict) else isinstance(edit, UnitEdit)
    return "UnitEdit" if has_unit else "Edit"


AnyEdit = Annotated[
    Annotated[Edit, Tag("Edit")] | Annotated[UnitEdit, Tag("UnitEdit")], Discriminator(_form)
]


# The docstring is part of the schema and so of each prompt: changing it changes the prompts.
class CodeReply(Record):
    """The reply schema of stages `code`, `complete` and `extend`."""

    note: Prose = Field(description="What was changed, in one or two sentences.")
    edits: tuple[AnyEdit, ...]


class FixReply(Record):
    """The reply schema of stage `debug`; the edits apply to the failed version."""

    diagnosis: Prose = Field(description="The cause of the failure, in one or two sentences.")
    give_up: bool = Field(default=False, description="The idea cannot be made to work.")
    edits: tuple[AnyEdit, ...] = ()


class PartChange(Record):
    """One part of the code that changes."""

    part: str = Field(description="One of the parts that the prompt lists.")
    change: Prose = Field(
        min_length=1, description="What its new code does differently, with numbers and formulas."
    )


class ChangesReply(Record):
    """The reply of stages `code`, `complete` and `extend` where parts are named first."""

    note: Prose = Field(description="What is changed, in one sentence.")
    changes: tuple[PartChange, ...]


class PartReply(Record):
    """A part's new code, which is asked for as text."""

    code: str


class FixChangesReply(Record):
    """The reply of stage `debug` where parts are named first."""

    diagnosis: Prose = Field(description="The cause of the failure, in one or two sentences.")
    give_up: bool = Field(default=False, description="The idea cannot be made to work.")
    changes: tuple[PartChange, ...] = ()


class StructureReply(Record):
    """The reply schema of stage `structure`: the failed code's local structure, analysed."""

    analysis: Prose = Field(
        min_length=1, description="Which definitions and calls meet where it fails, and how."
    )
    cause: Prose = Field(min_length=1, description="The cause, with file and line.")
