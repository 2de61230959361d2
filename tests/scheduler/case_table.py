"""The table that cases put themselves into."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from case_world import World

Play = Callable[[World], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Case:
    """A case. `by_hand`: the development cluster cannot be made to do it."""

    name: str
    play: Play
    by_hand: bool = False


CASES: dict[str, Case] = {}


def case(by_hand: bool = False) -> Callable[[Play], Play]:
    """Put a coroutine into the table, by its name."""

    def added(play: Play) -> Play:
        name = play.__name__.replace("_", "-")
        assert name not in CASES, name
        CASES[name] = Case(name, play, by_hand)
        return play

    return added
