"""Growing a tree of versions of an idea's code; the best that works goes the ordinary way.

The tree grows in steps: `authoring.tree` says which versions are made next, these are written and
piloted side by side, and the next step begins when all have ended. So what is made depends on
what was measured and never on what ended first, and a driver that resumes grows the same tree.
Versions are numbered as they are chosen, so a number where an author came to nothing stays empty.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from hpcscientist.authoring.revising import REPEATS
from hpcscientist.authoring.tree import Bounds, Expansion, Node, NodeState, best, choose
from hpcscientist.campaign.pursuit.course import Course, Dropped, End, Failed, Leg, Spoilt
from hpcscientist.campaign.pursuit.craft import Craft
from hpcscientist.campaign.pursuit.gate import NOTHING_DONE, Gate
from hpcscientist.campaign.pursuit.grafting import Grafting, Grown
from hpcscientist.campaign.pursuit.legs import Legs
from hpcscientist.campaign.pursuit.tryout import Tried
from hpcscientist.campaign.reference import Reference
from hpcscientist.files.hashing import hash_texts
from hpcscientist.records.authoring import Draft, GaveUp
from hpcscientist.records.idea import idea_seed
from hpcscientist.records.outcome import BARRED, IdeaFailed, MachineFailed


@dataclass(frozen=True, slots=True)
class Branching:
    """The way of a tree; see `ways`."""

    bounds: Bounds
    reference: Reference
    craft: Craft
    gate: Gate
    legs: Legs

    async def go(self, course: Course) -> End:
        """Grow the tree, and take the best version through the leg of the idea itself."""
        grown = await self._grow(course)
        if isinstance(grown, Spoilt):
            return grown
        chosen = best(grown.nodes, self.bounds.direction)
        course.diary.grown(grown.nodes, None if chosen is None else chosen.number)
        if chosen is None:
            return _fruitless(grown)
        tried = grown.tried[chosen.number]
        return await self.legs.go(course, Leg(run=0, kind=tried.kind), tried)

    async def _grow(self, course: Course) -> Grown | Spoilt:
        idea, grown, step = course.idea, Grown(), 0
        seed = idea_seed(idea.seed, idea.number)
        while True:
            step += 1
            chosen = choose(grown.nodes, self.bounds, seed, step)
            if not chosen:
                return grown
            for made in await self._step(course, grown, chosen):
                end = self._spoilt(course, made)
                if end is not None:
                    return end
                self._add(course, grown, made)

    async def _step(self, course: Course, grown: Grown, chosen: Sequence[Expansion]) -> list[_Made]:
        """Write and pilot versions side by side; return them in the order of their numbers."""
        grafting = Grafting(course, grown, self.legs, self.reference, self.bounds.debug_depth)
        shoots = [_Shoot(n, e) for n, e in enumerate(chosen, start=course.latest + 1)]
        course.latest += len(shoots)
        try:
            async with asyncio.TaskGroup() as group:
                writing: list[asyncio.Task[Draft | GaveUp]] = []
                for shoot in shoots:
                    work = self._write(course, grafting, shoot, tuple(writing))
                    writing.append(group.create_task(work))
                trying = [
                    group.create_task(self._try(course, shoot, written))
                    for shoot, written in zip(shoots, writing, strict=True)
                ]
        except ExceptionGroup as failed:
            raise failed.exceptions[0] from None
        return [task.result() for task in trying]

    async def _write(
        self,
        course: Course,
        grafting: Grafting,
        shoot: _Shoot,
        before: Sequence[asyncio.Task[Draft | GaveUp]],
    ) -> Draft | GaveUp:
        """Have a version written. `before` writes those with lower numbers.

        A first version is told of the ones before it, so it waits for them; a version that is
        another's double is cut.
        """
        earlier: list[Draft] = []
        if shoot.expansion.kind == "draft":
            earlier = await _written(before)
        name = f"tree/{shoot.number}"
        written = await self.craft.ask(
            *(course.brief, name, shoot.number),
            lambda: grafting.ask(shoot.number, shoot.expansion, earlier),
        )
        earlier = await _written(before)
        if isinstance(written, GaveUp):
            return written
        own = hash_texts(written.files)
        if own in course.seen or own in {hash_texts(draft.files) for draft in earlier}:
            self.craft.give_up(course.brief, name, REPEATS)
            return GaveUp(reason=REPEATS)
        return written

    async def _try(
        self, course: Course, shoot: _Shoot, writing: asyncio.Task[Draft | GaveUp]
    ) -> _Made:
        await asyncio.wait([writing])
        if writing.cancelled() or writing.exception() is not None:
            raise asyncio.CancelledError  # its error is raised where it was written
        written, tryout = writing.result(), self.legs.tryout
        if isinstance(written, GaveUp):
            return _Made(shoot, "unwritten", gave_up=written)
        number, chosen = shoot.number, shoot.expansion
        if self.craft.given_up(course.brief, f"pilot/{number}") is not None:
            tried = tryout.piloted(course.idea, number, written, chosen.parent, chosen.kind)
        else:
            tried = await tryout.pilot(course.idea, number, written, chosen.parent, chosen.kind)
        return _Made(shoot, await self._state(shoot, tried), tried)

    async def _state(self, shoot: _Shoot, tried: Tried) -> NodeState:
        match tried.outcome:
            case MachineFailed():
                return "spoilt"
            case IdeaFailed() as failed if failed.failure in BARRED:
                return "barred"
            case IdeaFailed():
                return "broken"
            case _:
                idle = await self.gate.does_nothing(shoot.leg, tried)
                return "barred" if idle else "works"

    def _spoilt(self, course: Course, made: _Made) -> Spoilt | None:
        """Return the end of a version that the machine spoilt and that the idea waits for.

        One that it spoilt under two drivers is left out for good: a driver that resumes might
        have it run, and would grow another tree from there.
        """
        if made.state != "spoilt" or made.tried is None:
            return None
        tried, name = made.tried, f"pilot/{made.shoot.number}"
        assert isinstance(tried.outcome, MachineFailed)
        if self.craft.given_up(course.brief, name) is not None:
            return None
        if not self.legs.tryout.is_given_up(tried.report.trial_id):
            return Spoilt(made.shoot.number, tried.outcome, tried.report.trial_id)
        self.craft.give_up(course.brief, name, f"machine failed: {tried.outcome.failure.value}")
        return None

    def _add(self, course: Course, grown: Grown, made: _Made) -> None:
        number, chosen, leg = made.shoot.number, made.shoot.expansion, made.shoot.leg
        node = Node(number=number, parent=chosen.parent, kind=chosen.kind, state=made.state)
        if made.gave_up is not None:
            course.diary.gave_up(leg, made.gave_up)
            grown.gave_up[number] = made.gave_up
        if made.tried is not None:
            tried = made.tried
            before = course.files.get(chosen.parent, self.legs.reference_files)
            course.diary.tried(leg, tried, before)
            course.files[number] = tried.draft.files
            course.seen.append(tried.attempt.code_hash)
            grown.tried[number] = tried
            if made.state == "works":
                value = tried.values[self.legs.tryout.specs.recipe.spec.primary.name]
                node = node.model_copy(update={"value": value})
        grown.nodes.append(node)


@dataclass(frozen=True, slots=True)
class _Shoot:
    """A version that was chosen to be made, and its number."""

    number: int
    expansion: Expansion

    @property
    def leg(self) -> Leg:
        return Leg(run=0, kind=self.expansion.kind, parent=self.expansion.parent)


@dataclass(frozen=True, slots=True)
class _Made:
    """What became of a version."""

    shoot: _Shoot
    state: NodeState
    tried: Tried | None = None
    gave_up: GaveUp | None = None


async def _written(tasks: Sequence[asyncio.Task[Draft | GaveUp]]) -> list[Draft]:
    """Wait for versions and return those that were written; an error is raised elsewhere."""
    if tasks:
        await asyncio.wait(tasks)
    ended = (task for task in tasks if not task.cancelled() and task.exception() is None)
    return [written for task in ended if isinstance(written := task.result(), Draft)]


def _fruitless(grown: Grown) -> End:
    """How a tree ends in which no version works."""
    idle = [n for n in grown.nodes if n.state == "barred" and grown.tried[n.number].scored]
    if idle:
        return Dropped(idle[-1].number, NOTHING_DONE)
    failed = [t.outcome for t in grown.tried.values() if isinstance(t.outcome, IdeaFailed)]
    last = max(grown.gave_up, default=None)
    if not failed and last is None and any(n.state == "spoilt" for n in grown.nodes):
        return Failed(None, GaveUp(reason="the machine failed every version again and again"))
    return Failed(failed[-1] if failed else None, None if last is None else grown.gave_up[last])
