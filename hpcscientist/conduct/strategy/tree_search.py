"""Grows a tree of versions of an idea's code, then takes the best working version to its end.

The tree grows in steps: `authoring.tree` chooses the next versions, these are written and piloted
concurrently, and the next step begins when all have ended. So the tree depends on what was
measured and never on what ended first, and a driver that resumes grows the same tree. Versions are
numbered when they are chosen, so the number of a version whose author gave up stays unused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hpcscientist.authoring.revising import REPEATS
from hpcscientist.authoring.tree import (
    Expansion,
    NodeState,
    TreeBounds,
    TreeVersion,
    VersionTree,
    best,
    choose,
)
from hpcscientist.conduct.strategy.linear import NOTHING_DONE, Dropped, End, Evaluation, Failed
from hpcscientist.conduct.strategy.steps import (
    Abandon,
    Pilot,
    Piloted,
    Version,
    Write,
    WriteDraft,
    WriteFix,
    WriteImprovement,
    Written,
)
from hpcscientist.conduct.strategy.strategy_replay import (
    Grown,
    InfraFailed,
    NotWritten,
    StrategyReplay,
)
from hpcscientist.records.authoring import GaveUp
from hpcscientist.records.trial import DISQUALIFIED, IdeaFailed, MachineFailed


@dataclass(frozen=True, slots=True)
class _Shoot:
    """A version in the tree, with its code and its pilot's outcome."""

    version: Version
    written: Written | GaveUp
    piloted: Piloted | None
    node: TreeVersion

    @property
    def infra_failed(self) -> InfraFailed | None:
        """The machine failure that the idea has to wait for, None if there is none."""
        if self.piloted is None or self.piloted.lost:
            return None
        failed, number = self.piloted.outcome, self.version.number
        if not isinstance(failed, MachineFailed):
            return None
        return InfraFailed(number, failed, self.piloted.trial_id, lost=False)


@dataclass(frozen=True, slots=True)
class TreeWay:
    """The way of a tree search. `seed` is the idea's own."""

    bounds: TreeBounds
    seed: int
    legs: Evaluation

    def go(self, replay: StrategyReplay) -> End:
        """Grow the tree and take the best version through its first leg. Raises NeedsAnswer."""
        grown: list[_Shoot] = []
        step = 0
        while True:
            step += 1
            nodes = [shoot.node for shoot in grown]
            chosen = choose(nodes, self.bounds, self.seed, step)
            if not chosen:
                break
            for shoot in _Batch(self.bounds, replay, grown, chosen).made():
                if shoot.infra_failed is not None:
                    return shoot.infra_failed
                _tell(replay, shoot)
                grown.append(shoot)
        found = best(nodes, self.bounds.objective)
        replay.told.append(Grown(tuple(nodes), None if found is None else found.number))
        if found is None:
            return _fruitless(grown)
        (made,) = (shoot for shoot in grown if shoot.version.number == found.number)
        return self.legs.go(replay, made.version, made.written)


class _Batch:
    """The versions of one step. `grown` holds those of earlier steps."""

    def __init__(
        self,
        bounds: TreeBounds,
        replay: StrategyReplay,
        grown: Sequence[_Shoot],
        chosen: Sequence[Expansion],
    ) -> None:
        self._bounds, self._replay, self._grown = bounds, replay, grown
        self._known = replay.latest
        self._versions = [
            Version(number, expansion.kind, expansion.parent)
            for number, expansion in enumerate(chosen, start=replay.latest + 1)
        ]
        self._nodes = [
            TreeVersion(number=v.number, parent=v.parent, kind=expansion.kind, state="unwritten")
            for v, expansion in zip(self._versions, chosen, strict=True)
        ]
        replay.latest += len(chosen)

    def made(self) -> list[_Shoot]:
        """Return the step's versions in order of number, once all ended. Raises NeedsAnswer."""
        replay = self._replay
        seen = set(replay.hashes)
        written: list[Written | GaveUp | None] = []  # None: not yet
        made: list[_Shoot] = []
        for version, node in zip(self._versions, self._nodes, strict=True):
            # The author of a first version sees the earlier ones, so it waits for them.
            waits = version.kind == "draft" and None in written
            one = None if waits else replay.look(self._write(version, written))
            written.append(one)
            # Duplicates are dropped, so the versions before this one must be known.
            if one is None or None in written:
                continue
            if isinstance(one, Written) and one.code_hash in seen:
                replay.look(Abandon(_task(version), REPEATS, version.number))
                one = written[-1] = GaveUp(reason=REPEATS)
            if isinstance(one, Written):
                seen.add(one.code_hash)
            shoot = self._shoot(version, one, node)
            if shoot is not None:
                made.append(shoot)
        replay.need()
        self._leave_out(made)
        return made

    def _leave_out(self, made: Sequence[_Shoot]) -> None:
        """Record the pilots that machine failures lost for good: a driver that resumes might rerun
        one and grow another tree from there. Stop at the first failure that the idea waits for:
        then the step is not over, and all of it may be rerun. Raises NeedsAnswer.
        """
        for shoot in made:
            if shoot.infra_failed is not None:
                return
            if shoot.piloted is not None and isinstance(shoot.piloted.outcome, MachineFailed):
                reason = f"machine failed: {shoot.piloted.outcome.failure.value}"
                self._replay.look(Abandon(f"pilot/{shoot.version.number}", reason))
        self._replay.need()

    def _write(self, version: Version, written: Sequence[Written | GaveUp | None]) -> Write:
        step = version, _task(version), self._known
        if version.kind == "draft":
            return WriteDraft(*step, earlier=self._earlier(version, written))
        tree = VersionTree([shoot.node for shoot in self._grown])
        parent = tree.node(version.parent)
        if version.kind == "debug":
            earlier = tuple(node.number for node in tree.repairs(parent))
            rounds = self._bounds.debug_depth
            return WriteFix(
                *step, round=len(earlier) + 1, rounds=rounds, earlier=earlier, grown=True
            )
        return WriteImprovement(
            *step,
            led=tuple(node.number for node in tree.line(parent)),
            # A machine failure is no evidence about the idea.
            others=tuple(
                (child.number, tree.fixed(child).number)
                for child in tree.children(parent)
                if child.state != "infra_failed"
            ),
        )

    def _earlier(
        self, version: Version, written: Sequence[Written | GaveUp | None]
    ) -> tuple[int, ...]:
        # First versions are made before all others, so they are numbered 1, 2, ….
        if version.number == 1:
            return ()
        # A version that tampered or does nothing is no example to show.
        roots = [
            shoot.version.number
            for shoot in self._grown
            if shoot.version.kind == "draft"
            and shoot.node.state not in ("disqualified", "unwritten")
        ]
        beside = [
            other.number
            for other, one in zip(self._versions, written, strict=False)
            if isinstance(one, Written)
        ]
        return *roots, *beside

    def _shoot(
        self, version: Version, written: Written | GaveUp, node: TreeVersion
    ) -> _Shoot | None:
        """Return a version with its outcome, `node` as it is if it was not written.

        None while its pilot runs.
        """
        if isinstance(written, GaveUp):
            return _Shoot(version, written, None, node)
        piloted = self._replay.look(Pilot(version))
        if piloted is None:
            return None
        state = _state(piloted)
        measured = dict(piloted.measured) if state == "works" else {}
        node = node.model_copy(update={"state": state, **measured})
        return _Shoot(version, written, piloted, node)


def _task(version: Version) -> str:
    return f"tree/{version.number}"


def _tell(replay: StrategyReplay, shoot: _Shoot) -> None:
    if isinstance(shoot.written, GaveUp):
        version = shoot.version
        replay.told.append(NotWritten(version.kind, version.run, shoot.written.reason))
    else:
        replay.add(shoot.version, shoot.written.code_hash)


def _state(piloted: Piloted) -> NodeState:
    match piloted.outcome:
        case MachineFailed():
            return "infra_failed"
        case IdeaFailed() as failed if failed.failure in DISQUALIFIED:
            return "disqualified"
        case IdeaFailed():
            return "broken"
        case _:
            return "disqualified" if piloted.idle else "works"


def _fruitless(grown: Sequence[_Shoot]) -> End:
    """Return the end of a tree in which no version works."""
    idle = [s for s in grown if s.node.state == "disqualified" and s.piloted and s.piloted.scored]
    if idle:
        return Dropped(idle[-1].version.number, NOTHING_DONE)
    outcomes = [shoot.piloted.outcome for shoot in grown if shoot.piloted is not None]
    failed = [outcome for outcome in outcomes if isinstance(outcome, IdeaFailed)]
    gave_up = [shoot.written for shoot in grown if isinstance(shoot.written, GaveUp)]
    if not failed and not gave_up and any(shoot.node.state == "infra_failed" for shoot in grown):
        return Failed(None, GaveUp(reason="the machine failed every version again and again"))
    return Failed(failed[-1] if failed else None, gave_up[-1] if gave_up else None)
