"""What a static analysis says of code: definitions, calls, bindings and shapes, with places."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from hpcscientist.records.base import Record

Kind = Literal["module", "class", "function", "method"]


class Definition(Record):
    """A function or class of the candidate's own, or a statement at module level.

    `name` is qualified (`Net.forward`); a statement at module level is `<module>`. Lines `first`
    to `last` count from 1, decorators included. `code` is its source, with gaps ("…") where it
    is long; "" in an outline. `signature` is its header on one line.
    """

    file: str
    name: str
    kind: Kind
    first: int = Field(ge=1)
    last: int = Field(ge=1)
    signature: str = ""
    code: str = ""


class Call(Record):
    """A call between our own definitions, by their names; `file` and `line` are the call's own.

    A function that is handed to a library (`map(work, …)`) counts as called there.
    """

    caller: str
    callee: str
    file: str
    line: int = Field(ge=1)
    code: str = ""


class Binding(Record):
    """Where a name of a failing line got its value; line 0 where nothing binds it.

    An attribute is named with what it belongs to (`self.width`, `settings.RATE`).
    """

    name: str
    file: str
    line: int = Field(ge=0)
    code: str = ""


class Shape(Record):
    """What the text tells of a shape or size: `(3, 4)`, or `784 -> 10` of a layer.

    `name` is what is built or reshaped there; what is not known stays as it is written.
    """

    name: str
    file: str
    line: int = Field(ge=1)
    shape: str


class LocalStructure(Record):
    """The code around the frames of a traceback, or an outline of all code.

    `definitions` start with those that the frames stand in, in their order; the nearer to a
    failing line, the earlier. `calls` go by file and line.
    """

    definitions: tuple[Definition, ...] = ()
    calls: tuple[Call, ...] = ()
    names: tuple[Binding, ...] = ()
    shapes: tuple[Shape, ...] = ()

    def __bool__(self) -> bool:
        """Whether anything was found."""
        return bool(self.definitions or self.calls or self.names or self.shapes)
