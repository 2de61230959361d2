"""Static analysis of a candidate's code: the structure around a failure, or an outline of all code.

Start with `local`, which returns both. `code` has `units` (definitions, also of files that do not
parse), `scopes` (names and what binds them) and `project` (imports). `inference` finds which
object an expression may be; `calls` and `shapes` build on it.
"""

from hpcscientist.authoring.structure.local import local_structure, outline
from hpcscientist.authoring.structure.records import (
    Binding,
    Call,
    Definition,
    LocalStructure,
    Shape,
)

__all__ = [
    "Binding",
    "Call",
    "Definition",
    "LocalStructure",
    "Shape",
    "local_structure",
    "outline",
]
