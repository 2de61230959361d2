"""The results of the static analysis: definitions, calls, bindings and shapes, with places."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from hpcscientist.records.base import Record

Kind = Literal["module", "class", "function", "method"]


class Definition(Record):
    """A function or class in the candidate's code, or a statement at module level.

    `name` is qualified (`Net.forward`); a statement at module level is `<module>`. Lines `first`
    to `last` count from 1, decorators included. `code` is its source, with gaps ("…") if it is
    long; "" in an outline. `signature` is its header on one line.
    """

    file: str
    name: str
    kind: Kind
    first: int = Field(ge=1)
    last: int = Field(ge=1)
    signature: str = ""
    code: str = ""


class Call(Record):
    """A call between the candidate's definitions, by name; `file` and `line` are the call's.

    A function that is passed to a library (`map(work, …)`) counts as called there.
    """

    caller: str
    callee: str
    file: str
    line: int = Field(ge=1)
    code: str = ""


class Binding(Record):
    """The place where a name of a failing line got its value; line 0 if nothing binds it.

    An attribute's name includes its owner (`self.width`, `settings.RATE`).
    """

    name: str
    file: str
    line: int = Field(ge=0)
    code: str = ""


class Shape(Record):
    """A shape or size that the source shows, such as `Linear(784, 10)` or `zeros((3, 4))`.

    `name` is what is built or reshaped there. Unknown values stay as they are written.
    """

    name: str
    file: str
    line: int = Field(ge=1)
    shape: str


class LocalStructure(Record):
    """The code around the frames of a traceback, or an outline of all code.

    `definitions` begin with those that hold the frames, in the frames' order; the others follow,
    those nearest to a failing line first. `calls` are sorted by file and line.
    """

    definitions: tuple[Definition, ...] = ()
    calls: tuple[Call, ...] = ()
    names: tuple[Binding, ...] = ()
    shapes: tuple[Shape, ...] = ()

    def __bool__(self) -> bool:
        """Return whether anything was found."""
        return bool(self.definitions or self.calls or self.names or self.shapes)
