"""Scopes of a file: which names each binds and where it uses them, in order of evaluation.

This module reports nothing; the checks query it. If Python's rules leave room (conditions, loops,
handlers, code that runs later), the place of a use says so, and the checks let it pass.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["module", "function", "class", "comprehension"]
ANYTHING = "*"  # among the names of caught exceptions: every one of them


@dataclass(frozen=True, slots=True)
class FlowPlace:
    """The place of a node in its file's control flow.

    `loops` and `handlers` are the loops and `except` clauses around it. `caught` names the
    exceptions that a `try` around it survives. `maybe`: a condition decides whether it is reached;
    `foreign`: that condition tests the Python version or the system. `later`: it runs when
    something else is called, not in its own place.
    """

    scope: Scope
    loops: frozenset[int] = frozenset()
    handlers: frozenset[int] = frozenset()
    caught: frozenset[str] = frozenset()
    maybe: bool = False
    foreign: bool = False
    later: bool = False

    def survives(self, *errors: str) -> bool:
        """Return whether the code around the place survives one of these exceptions."""
        return not self.caught.isdisjoint({ANYTHING, *errors})


@dataclass(frozen=True, slots=True)
class Bind:
    """A place where a name gets a value, or loses it (`del`).

    `handler` is set if only that `except` clause has the name.
    """

    name: str
    node: ast.AST
    order: int
    place: FlowPlace
    handler: int | None = None


@dataclass(frozen=True, slots=True)
class Use:
    """A place where a name's value is read."""

    name: str
    node: ast.Name
    order: int
    place: FlowPlace


@dataclass(eq=False, slots=True)
class Scope:
    """A module, function, class or comprehension. `binds` holds parameters, too."""

    kind: Kind
    node: ast.AST
    parent: Scope | None
    entered: frozenset[int] = frozenset()  # the loops around it
    binds: dict[str, list[Bind]] = field(default_factory=dict)
    outer: dict[str, Scope] = field(default_factory=dict)  # names declared global or nonlocal

    @property
    def module(self) -> Scope:
        """The scope of the module that holds it."""
        return self if self.parent is None else self.parent.module

    def up(self) -> Iterator[Scope]:
        """Yield the scope and those around it whose names it sees, the nearest first."""
        yield self
        above = self.parent
        while above is not None:
            if above.kind != "class":
                yield above
            above = above.parent

    def owner(self, use: Use) -> Scope | None:
        """Return the scope whose name is used; None if no visible scope ever binds it."""
        for scope in self.up():
            declared = scope.outer.get(use.name)
            if declared is not None:
                return declared if use.name in declared.binds else None
            binds = scope.binds.get(use.name, ())
            if any(b.handler is None or b.handler in use.place.handlers for b in binds):
                return scope
        return None

    def sole(self, name: str) -> Bind | None:
        """Return the only binding of a name; None if there are none or several."""
        binds = self.binds.get(name, [])
        return binds[0] if len(binds) == 1 and binds[0].handler is None else None
