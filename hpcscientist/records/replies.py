"""The schemas of a model's structured replies, one a stage; see also `records.idea.Proposal`."""

from __future__ import annotations

from pydantic import Field

from hpcscientist.records.base import Record
from hpcscientist.records.idea import Proposal


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


class CodeReply(Record):
    """The reply schema of stage `code`."""

    note: str = Field(description="What was changed, in one or two sentences.")
    edits: tuple[Edit, ...]


class FixReply(Record):
    """The reply schema of stage `debug`; the edits apply to the failed version."""

    diagnosis: str = Field(description="The cause of the failure, in one or two sentences.")
    give_up: bool = Field(default=False, description="The idea cannot be made to work.")
    edits: tuple[Edit, ...] = ()


# Stage of a call -> what its reply must fit.
STAGES: dict[str, type[Record]] = {"propose": Proposal, "code": CodeReply, "debug": FixReply}
