"""The schemas of a model's structured replies, one a stage; see also `records.idea.Proposal`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from hpcscientist.records.base import Prose, Record


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
    """Return which form an edit has, so that what is wrong with it is said of that one."""
    has_unit = "unit" in edit if isinstance(edit, dict) else isinstance(edit, UnitEdit)
    return "UnitEdit" if has_unit else "Edit"


AnyEdit = Annotated[
    Annotated[Edit, Tag("Edit")] | Annotated[UnitEdit, Tag("UnitEdit")], Discriminator(_form)
]


# A docstring is part of the schema, and so of each prompt: left as it is, prompts stay the same.
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
