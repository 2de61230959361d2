"""Takes one version of an idea's code to its end: pilot, fixes, review, seeds.

A version runs at the pilot budget and is fixed until it runs. A reviewer's findings go back to the
coder. Then the version's seeds run.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hpcscientist.conduct.strategy.steps import (
    Measured,
    Piloted,
    Review,
    Version,
    WriteCompletion,
    WriteDraft,
    WriteFix,
    Written,
)
from hpcscientist.conduct.strategy.strategy_replay import (
    InfraFailed,
    Measuring,
    NotWritten,
    Reviewed,
    StrategyReplay,
)
from hpcscientist.records.authoring import GaveUp
from hpcscientist.records.idea import AttemptKind
from hpcscientist.records.trial import DISQUALIFIED, IdeaFailed, IdeaFailure, MachineFailed, Scored

NOTHING_DONE = (
    "its pilot's predictions are those of the unchanged reference with the same seed: nothing was "
    "done"
)
FAR_WORSE = "it is far worse than the unchanged reference: look for a mistake in the changed code"


def objected(objection: str) -> IdeaFailed:
    """Return the failure of a version that ran, and to whose predictions there is an objection."""
    return IdeaFailed(failure=IdeaFailure.BAD_PREDICTIONS, detail=objection)


@dataclass(frozen=True, slots=True)
class Arrived:
    """A leg that ended with a version scored on its seeds. `lacking` is what a reviewer found
    missing, `short` the reason why it did not get all seeds.
    """

    version: Version
    lacking: str = ""
    short: str | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """A leg that failed: its last trial failure, and why the author gave up, if it did."""

    failed: IdeaFailed | None
    gave_up: GaveUp | None

    def reason(self, attempts_made: int) -> str:
        """Return the reason in one line."""
        parts = []
        if self.failed is not None:
            parts.append(f"{self.failed.failure.value}: {self.failed.detail}")
        if self.gave_up is not None:
            parts.append(f"given up: {self.gave_up.reason}")
        elif attempts_made > 1:
            parts.append(f"after {attempts_made} attempts")
        return "; ".join(parts)


@dataclass(frozen=True, slots=True)
class Dropped:
    """A leg not worth its seeds: its last pilot is hopeless or equals the baseline's."""

    number: int
    why: str


End = Arrived | Failed | Dropped | InfraFailed


@dataclass(frozen=True, slots=True)
class MadeVersion:
    """A version and the hash of its files."""

    version: Version
    code_hash: str


@dataclass(slots=True)
class _Leg:
    """The state of one leg: `run` 0 is the idea itself, further runs count from 1.

    `kind` and `parent` belong to the next version. `ready` is the last version whose pilot was
    scored although a reviewer found it incomplete: a fallback if completing it fails.
    """

    run: int
    kind: AttemptKind
    parent: int
    debugged: int = 0
    advised: int = 0
    diagnoses: list[int] = field(default_factory=list)
    failed: IdeaFailed | None = None
    objection: str = ""  # to the last version, if it ran
    doubted: bool = False  # whether a hopeless version was fixed
    ready: MadeVersion | None = None
    lacking: dict[int, str] = field(default_factory=dict)  # a reviewer's findings by version


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Takes versions through a leg.

    `debug_rounds` bounds the repairs of one leg, `advice_rounds` the rounds of a reviewer's
    findings; `advised`: there is a reviewer; `doubts`: a hopeless pilot may be due to a mistake, so
    it is fixed once.
    """

    debug_rounds: int
    advice_rounds: int
    advised: bool
    measuring: Measuring
    doubts: bool = False

    def go(self, replay: StrategyReplay, version: Version, written: Written | GaveUp) -> End:
        """Try versions until one is scored on its seeds, or none is left to try.

        `version` is the first one. Raises NeedsAnswer.
        """
        leg = _Leg(version.run, version.kind, version.parent)
        now: MadeVersion | GaveUp | None = _made(version, written)
        while True:
            if isinstance(now, GaveUp):
                replay.told.append(NotWritten(leg.kind, leg.run, now.reason))
            fresh = isinstance(now, MadeVersion)
            made = now if isinstance(now, MadeVersion) else leg.ready
            if made is None:
                return Failed(leg.failed, now if isinstance(now, GaveUp) else None)
            if not fresh:
                leg.ready = None
            tried = replay.pilot(made.version, made.code_hash)
            leg.parent = made.version.number
            if tried.scored and fresh:
                advised = self._advise(replay, leg, made, tried)
                if advised is not None:
                    now, leg.kind = advised, "complete"
                    continue
            objection = _objection(tried) if tried.scored else None
            if objection is not None and leg.ready is not None:
                now = GaveUp(reason=objection)  # the completion made it worse
                continue
            if objection is not None:
                if not self._is_worth_fixing(leg, tried):
                    return Dropped(made.version.number, objection)
                leg.objection = f"{FAR_WORSE} ({objection})" if tried.hopeless else objection
                leg.doubted |= tried.hopeless is not None
                leg.failed = objected(leg.objection)
                now, leg.kind = self._fix(replay, leg, made), "debug"
                continue
            end = self.measuring.measure(replay, made.version) if tried.scored else tried
            match end.outcome:
                case Scored():
                    short = end.short if isinstance(end, Measured) else None
                    return Arrived(made.version, leg.lacking.get(made.version.number, ""), short)
                case MachineFailed() as failed:
                    return InfraFailed(made.version.number, failed, end.trial_id, end.lost)
                case IdeaFailed() as failed:
                    leg.failed, leg.objection = failed, ""
            now, leg.kind = self._fix(replay, leg, made), "debug"

    def _advise(
        self, replay: StrategyReplay, leg: _Leg, made: MadeVersion, tried: Piloted
    ) -> MadeVersion | GaveUp | None:
        """Have a version reviewed; return the coder's completed version, None if none is needed."""
        if not tried.idle:
            leg.diagnoses.clear()  # the repairs solved their problem
        if leg.run or tried.hopeless is not None or not self.advised:
            return None
        number = made.version.number
        review = replay.of(Review(number, tried.idle))
        leg.lacking[number] = review.lacking
        replay.told.append(Reviewed(number))
        if review.complete or leg.advised == self.advice_rounds:
            return None
        leg.advised += 1
        leg.ready = made
        version = _next(replay, leg, "complete")
        task = f"complete/{leg.advised}"
        step = WriteCompletion(version, task, replay.latest, round=leg.advised)
        return _made(version, replay.of(step))

    def _is_worth_fixing(self, leg: _Leg, tried: Piloted) -> bool:
        """Return whether to repair an idle version like a failed one, or a hopeless one, once.

        Only without a reviewer: a reviewer would have said what the version lacks.
        """
        if self.advised or leg.debugged >= self.debug_rounds:
            return False
        return tried.hopeless is None or (self.doubts and not leg.doubted)

    def _fix(
        self, replay: StrategyReplay, leg: _Leg, made: MadeVersion
    ) -> MadeVersion | GaveUp | None:
        """Return a repaired version, None if no repair is left or the failure disqualifies it."""
        assert leg.failed is not None
        leg.debugged += 1
        if leg.failed.failure in DISQUALIFIED:
            leg.ready = None
            return None
        if leg.debugged > self.debug_rounds:
            return None
        if made.version.kind == "debug":
            leg.diagnoses.append(made.version.number)
        version = _next(replay, leg, "debug")
        step = WriteFix(
            *(version, f"debug/{leg.run}/{leg.debugged}", replay.latest),
            round=leg.debugged,
            rounds=self.debug_rounds,
            earlier=tuple(leg.diagnoses),
            objection=leg.objection,
        )
        return _made(version, replay.of(step))


@dataclass(frozen=True, slots=True)
class LinearWay:
    """The way of one first version, taken to its end."""

    legs: Evaluation

    def go(self, replay: StrategyReplay) -> End:
        """Take an idea through its first leg. Raises NeedsAnswer."""
        version = Version(1)
        return self.legs.go(replay, version, replay.of(WriteDraft(version, "code", 0)))


def _objection(tried: Piloted) -> str | None:
    """Return why a version with a scored pilot is not worth its seeds, None if it is."""
    return tried.hopeless or (NOTHING_DONE if tried.idle else None)


def _next(replay: StrategyReplay, leg: _Leg, kind: AttemptKind) -> Version:
    return Version(replay.latest + 1, kind, leg.parent, leg.run)


def _made(version: Version, written: Written | GaveUp) -> MadeVersion | GaveUp:
    return MadeVersion(version, written.code_hash) if isinstance(written, Written) else written
