"""Further runs of a scored idea: those that an analyst asks for, or the ablations of its plan.

Each is a leg of its own, from the code that was scored. What it comes to never changes what that
code measured.
"""

from __future__ import annotations

from dataclasses import dataclass

from hpcscientist.conduct.strategy.linear import Arrived, Dropped, End, Evaluation, Failed
from hpcscientist.conduct.strategy.steps import Extension, Ran, Read, Version, Write
from hpcscientist.conduct.strategy.strategy_replay import Spoilt, StrategyReplay, Understood
from hpcscientist.files.text import one_line
from hpcscientist.records.experiment import FurtherRun

_TITLE = 200  # characters


@dataclass(frozen=True, slots=True)
class Following:
    """Which further runs there are, `most` of an idea at most.

    `analysed`: an analyst asks for them. Else each of `parts` is left out in turn.
    """

    most: int
    analysed: bool
    parts: tuple[str, ...]
    legs: Evaluation

    def follow_up(self, replay: StrategyReplay, main: Arrived) -> Spoilt | None:
        """Do an idea's further runs; return the one that the machine spoilt and that it waits for.

        An idea that was given up before all seeds has none. Raises NeedsAnswer.
        """
        if main.short is not None:
            return None
        return self._analyse(replay, main) if self.analysed else self._ablate(replay, main)

    def _analyse(self, replay: StrategyReplay, main: Arrived) -> Spoilt | None:
        runs: list[Ran] = []
        for number in range(1, self.most + 1):
            run = _read(replay, number, main, runs)
            if run is None:
                return None
            end = self._further(replay, main, run, number)
            if isinstance(end, Spoilt):
                # A driver that resumes would run it again: nothing may be built on it.
                return None if end.lost else end
            runs.append(_ran(run, end))
        _read(replay, self.most + 1, main, runs)  # the last of them is read too
        return None

    def _ablate(self, replay: StrategyReplay, main: Arrived) -> Spoilt | None:
        """Leave out what the plan says may be left out, a part a run."""
        for number, part in enumerate(self.parts[: self.most], start=1):
            end = self._further(replay, main, _without(part), number)
            if isinstance(end, Spoilt):  # as above
                return None if end.lost else end
        return None

    def _further(self, replay: StrategyReplay, main: Arrived, run: FurtherRun, number: int) -> End:
        version = Version(replay.latest + 1, run.kind, main.version.number, run=number)
        wish = Extension(number, run)
        written = replay.of(Write(version, f"extend/{number}", wish, replay.latest))
        return self.legs.go(replay, version, written)


def _read(replay: StrategyReplay, number: int, main: Arrived, runs: list[Ran]) -> FurtherRun | None:
    run = replay.of(Read(number, main.version.number, tuple(runs)))
    replay.told.append(Understood(number))
    return run


def _ran(run: FurtherRun, end: Arrived | Failed | Dropped) -> Ran:
    match end:
        case Arrived():
            return Ran(run, end.version.number)
        case Dropped():
            return Ran(run, None, one_line(end.why))
        case Failed():
            return Ran(run, None, one_line(end.reason(1)))


def _without(part: str) -> FurtherRun:
    """The run that shows what a part of the method gives."""
    return FurtherRun(
        kind="ablation",
        title=one_line(f"Without {part}", _TITLE),
        purpose=f"What does this part give: {part}?",
        change=f"Leave this part out: {part}",
    )
