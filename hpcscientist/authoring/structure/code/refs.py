"""References: which of the candidate's definitions an expression may stand for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from hpcscientist.authoring.structure.code.units import Unit

_MOST = 8  # alternatives for one expression
_DEEP = 3


@dataclass(frozen=True, slots=True)
class Ref:
    """A module, class or function of the candidate, an object of a class, or a sequence of these.

    `items` holds what each place of a sequence may be. `above` marks what `super()` returns: the
    object seen as one of its bases.
    """

    kind: Literal["module", "class", "function", "instance", "sequence"]
    unit: Unit | None = None
    items: tuple[tuple[Ref, ...], ...] = ()
    above: bool = False
    depth: int = 0  # of sequences in sequences


Refs = tuple[Ref, ...]


def union(found: Iterable[Refs]) -> Refs:
    """Return the references in any of `found`, each once, in order; at most _MOST."""
    return tuple(dict.fromkeys(ref for refs in found for ref in refs))[:_MOST]


def sequence(items: Iterable[Refs]) -> Refs:
    """Return a sequence of items; () if nothing is known of any item."""
    known = tuple(items)
    depth = 1 + max((ref.depth for refs in known for ref in refs), default=0)
    return (Ref("sequence", items=known, depth=depth),) if any(known) and depth <= _DEEP else ()


def elements(refs: Refs, index: int | None = None) -> Refs:
    """Return what items of sequences may be: the one at `index`, or any."""
    found = []
    for ref in refs:
        if index is not None and -len(ref.items) <= index < len(ref.items):
            found.append(ref.items[index])
        elif ref.kind == "sequence" and (index is None or len(ref.items) == 1):
            found.extend(ref.items)
    return union(found)
