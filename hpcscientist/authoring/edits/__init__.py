"""Edits: how a model says what to change, and how edits are applied, all or none.

A search text is looked for as it stands, then line by line with other white space
(`authoring.edits.matching`), and must occur at one place only. An edit that is not certain is
refused, and the refusal goes back to the model. An edit is read as the difference between `search`
and `replace`: what it does not change stays as the file has it. This package works on texts alone
and never touches the disk.
"""

from hpcscientist.authoring.edits.application import apply, apply_noted
from hpcscientist.authoring.edits.outcome import Applied, EditError, Note

__all__ = ["Applied", "EditError", "Note", "apply", "apply_noted"]
