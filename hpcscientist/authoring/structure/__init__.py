"""Static analysis of a candidate's code: the structure around a failure, or of all of it.

`local` says what is read; from `parsing` (files that do not parse, too) to `units` (definitions),
`bindings` and `scopes` (names), `project` (imports), `inference` (what may be which object),
`calls`, `values` and `shapes`.
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
