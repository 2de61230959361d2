"""How far and how wide a campaign goes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Plan:
    """How far and how wide the loop goes. `rounds` 0 means steady state."""

    ideas: int
    rounds: int
    in_flight: int
    model_name: str
    seed: int

    def first_of(self, round_number: int) -> int:
        """The first idea of a round."""
        rounds = min(self.rounds, self.ideas) or 1
        return (round_number - 1) * self.ideas // rounds + 1

    def chunks(self) -> Iterator[tuple[int, range]]:
        """Yield (round, idea numbers); there is a barrier after each."""
        rounds = min(self.rounds, self.ideas) or 1
        for index in range(rounds):
            yield index + 1, range(self.first_of(index + 1), self.first_of(index + 2))
