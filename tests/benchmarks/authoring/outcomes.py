"""What became of ideas in a bench of authoring."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final, Literal, get_args

Mode = Literal["none", "structure", "traceback"]  # as of `authoring.debugging`
MODES: Final[tuple[Mode, ...]] = get_args(Mode)


@dataclass(frozen=True, slots=True)
class Fixed:
    """What debugging in one mode came to for an idea that failed at first.

    `ran_after`: the round after which its pilot was scored; None if it never was. `rounds` were
    asked for. `unchanged`: what runs predicts exactly what the reference predicts.
    """

    mode: Mode
    ran_after: int | None
    rounds: int
    prompt_tokens: int
    completion_tokens: int
    unchanged: bool = False


@dataclass(frozen=True, slots=True)
class Written:
    """An idea's code as first written; `fixed` has one entry a mode where it failed."""

    number: int
    title: str
    first: Literal["ran", "failed", "no code"]
    fixed: tuple[Fixed, ...] = ()
    unchanged: bool = False

    def ran_within(self, mode: Mode, rounds: int) -> bool:
        """Whether its pilot was scored after at most so many rounds; 0: at first."""
        if self.first == "ran":
            return True
        after = next((m.ran_after for m in self.fixed if m.mode == mode), None)
        return after is not None and after <= rounds


@dataclass(frozen=True, slots=True)
class Measured:
    """A whole bench. `wanted` ideas were asked for.

    `recorded`: repairs were recorded replies. `estimated`: tokens were counted by characters.
    """

    ideas: Sequence[Written]
    wanted: int
    rounds: int
    recorded: bool = False
    estimated: bool = False

    @property
    def failed(self) -> int:
        """How many ideas failed at first, so that debugging began."""
        return sum(idea.first == "failed" for idea in self.ideas)

    def ran(self, mode: Mode, rounds: int) -> int:
        """How many ideas ran after at most so many rounds."""
        return sum(idea.ran_within(mode, rounds) for idea in self.ideas)

    def unchanged(self, mode: Mode) -> int:
        """How many of the ideas that ran in the end predict what the reference predicts."""
        of_mode = sum(fixed.unchanged for fixed in self._fixed(mode))
        return of_mode + sum(idea.unchanged for idea in self.ideas)

    def pairs(self, mode: Mode, other: Mode) -> list[tuple[bool, bool]]:
        """Return for each idea whether it ran in the end in one mode, and in another."""
        most = self.rounds
        return [(i.ran_within(mode, most), i.ran_within(other, most)) for i in self.ideas]

    def means(self, mode: Mode) -> tuple[float, float, float]:
        """Rounds, prompt tokens and completion tokens for an idea that failed at first.

        Raises ValueError where none did.
        """
        fixed = self._fixed(mode)
        return (
            fmean(of.rounds for of in fixed),
            fmean(of.prompt_tokens for of in fixed),
            fmean(of.completion_tokens for of in fixed),
        )

    def spreads(self, mode: Mode) -> tuple[float, float, float]:
        """The largest minus the smallest over ideas, of what `means` are taken of."""
        fixed = self._fixed(mode)
        columns = (
            [of.rounds for of in fixed],
            [of.prompt_tokens for of in fixed],
            [of.completion_tokens for of in fixed],
        )
        rounds, prompt, completion = (float(max(c) - min(c)) for c in columns)
        return rounds, prompt, completion

    def _fixed(self, mode: Mode) -> list[Fixed]:
        return [of for idea in self.ideas for of in idea.fixed if of.mode == mode]
