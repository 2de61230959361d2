"""Static analysis of a candidate's code: the structure around a failure, or of all of it.

`local` says what is read; from `parsing` (files that do not parse, too) to `units` (definitions),
`bindings` and `scopes` (names), `project` (imports), `inference` (what may be which object),
`calls`, `values` and `shapes`.
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
