"""What a function takes, and whether a call gives it that."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from hpcscientist.authoring.checks.hints import hint


@dataclass(frozen=True, slots=True)
class Signature:
    """What a function takes; `bound` counts what is given without being written (self)."""

    name: str
    place: str
    args: ast.arguments
    bound: int = 0

    def misfit(self, call: ast.Call) -> str | None:
        """Return what is wrong with a call's arguments, None if they may fit."""
        return self._too_many(call) or self._keywords(call) or self._missing(call)

    @property
    def _positional(self) -> list[str]:
        return [arg.arg for arg in (*self.args.posonlyargs, *self.args.args)]

    def _too_many(self, call: ast.Call) -> str | None:
        given = sum(not isinstance(arg, ast.Starred) for arg in call.args) + self.bound
        most = len(self._positional)
        if self.args.vararg is not None or given <= most:
            return None
        return f"takes {_count(most, 'positional argument')}, but {given} are given"

    def _keywords(self, call: ast.Call) -> str | None:
        names = [keyword.arg for keyword in call.keywords if keyword.arg is not None]
        named = [arg.arg for arg in (*self.args.args, *self.args.kwonlyargs)]
        taken = self._positional[: self._certain(call)]
        for name in names:
            if name in taken and name in named:
                return f"is given {name!r} twice"
            if name not in named and self.args.kwarg is None:
                return f"has no parameter {name!r}{hint(name, named)}"
        return None

    def _missing(self, call: ast.Call) -> str | None:
        if any(isinstance(arg, ast.Starred) for arg in call.args) or any(
            keyword.arg is None for keyword in call.keywords
        ):
            return None
        positional, defaults = self._positional, len(self.args.defaults)
        needed = positional[: len(positional) - defaults][len(call.args) + self.bound :]
        needed += [
            arg.arg
            for arg, default in zip(self.args.kwonlyargs, self.args.kw_defaults, strict=True)
            if default is None
        ]
        # A name by which only a position is known goes to **more, if there is one.
        by_position = {arg.arg for arg in self.args.posonlyargs}
        names = {keyword.arg for keyword in call.keywords} - by_position
        lacking = [name for name in needed if name not in names]
        if not lacking:
            return None
        return f"is not given {', '.join(map(repr, lacking))}"

    def _certain(self, call: ast.Call) -> int:
        """Return how many parameters surely have values by position, `self` included."""
        count = self.bound
        for arg in call.args:
            if isinstance(arg, ast.Starred):
                break
            count += 1
        return count


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
