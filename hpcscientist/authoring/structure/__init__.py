"""Static analysis of a candidate's code: the structure around a failure, or of all of it.

`local` says what is read; `code` has `units` (definitions; files that do not parse, too), `scopes`
(names and what binds them) and `project` (imports); `inference` says what may be which object;
`calls` and `shapes` follow from that.
"""

from hpcscientist.authoring.structure.code.records import (
    Binding,
    Call,
    Definition,
    LocalStructure,
    Shape,
)
from hpcscientist.authoring.structure.local import local_structure, outline

__all__ = [
    "Binding",
    "Call",
    "Definition",
    "LocalStructure",
    "Shape",
    "local_structure",
    "outline",
]
