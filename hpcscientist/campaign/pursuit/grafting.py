"""What an author is asked for a version of a tree: what it is made from, and what is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from hpcscientist.authoring.tree import Expansion, Node, Tree
from hpcscientist.campaign.pursuit.course import Course
from hpcscientist.campaign.pursuit.legs import Legs
from hpcscientist.campaign.pursuit.tryout import Tried
from hpcscientist.campaign.reference import Reference
from hpcscientist.records.authoring import (
    Draft,
    FixTask,
    GaveUp,
    ImproveTask,
    RedraftTask,
    Variant,
)
from hpcscientist.records.outcome import IdeaFailed, Scored


@dataclass(slots=True)
class Grown:
    """A tree so far: its nodes in order, and by number what was tried and what was given up."""

    nodes: list[Node] = field(default_factory=list)
    tried: dict[int, Tried] = field(default_factory=dict)
    gave_up: dict[int, GaveUp] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Grafting:
    """Asks an author for the versions of one step; `grown` is the tree before it."""

    course: Course
    grown: Grown
    legs: Legs
    reference: Reference
    debug_depth: int

    async def ask(self, number: int, chosen: Expansion, earlier: Sequence[Draft]) -> Draft | GaveUp:
        """Have version `number` written. `earlier` are first versions of the same step."""
        author, tree = self.legs.craft.author, Tree(self.grown.nodes)
        if chosen.kind == "draft":
            return await self._draft(number, earlier)
        parent = tree.node(chosen.parent)
        if chosen.kind == "debug":
            return await author.fix(self._repair(number, tree, parent))
        reference = await self.reference.pilot_values()
        return await author.improve(self._improvement(number, tree, parent, reference))

    async def _draft(self, number: int, earlier: Sequence[Draft]) -> Draft | GaveUp:
        """Ask for a first version; `number` is its place among them, for they all come first."""
        author, brief = self.legs.craft.author, self.course.brief
        if number == 1:
            return await author.write(brief)
        roots = [self.grown.tried[n.number].draft for n in self._roots()]
        task = RedraftTask(
            brief=brief,
            number=number,
            earlier=tuple(draft.note for draft in (*roots, *earlier)),
            seen=tuple(self.course.seen),
        )
        return await author.redraft(task)

    def _roots(self) -> list[Node]:
        """The first versions so far; one that tampered, or does nothing, sets no example."""
        drafts = (n for n in self.grown.nodes if n.kind == "draft" and n.state != "barred")
        return [n for n in drafts if n.number in self.grown.tried]

    def _repair(self, number: int, tree: Tree, broken: Node) -> FixTask:
        tried, repairs = self.grown.tried[broken.number], tree.repairs(broken)
        assert isinstance(tried.outcome, IdeaFailed)
        return FixTask(
            idea=self.course.idea,
            files=tried.draft.files,
            outcome=tried.outcome,
            log_tail=self.legs.tryout.log_tail(tried),
            round=len(repairs) + 1,
            rounds=self.debug_depth,
            node=number,
            earlier=tuple(self._note(node) for node in repairs),
            seen=tuple(self.course.seen),
        )

    def _improvement(
        self, number: int, tree: Tree, node: Node, reference: dict[str, float]
    ) -> ImproveTask:
        tried = self.grown.tried[node.number]
        return ImproveTask(
            brief=self.course.brief,
            files=tried.draft.files,
            number=number,
            values=tried.values,
            reference=reference,
            led=tuple(self._note(one) for one in tree.line(node)),
            # What the machine spoilt is no evidence.
            tried=tuple(
                self._variant(tree, child)
                for child in tree.children(node)
                if child.state != "spoilt"
            ),
            seen=tuple(self.course.seen),
        )

    def _variant(self, tree: Tree, child: Node) -> Variant:
        """What was made of a version, with its repairs if it took any."""
        last = tree.mended(child)
        tried = self.grown.tried[last.number]
        outcome, note = tried.outcome, self._note(child)
        if isinstance(outcome, Scored):
            return Variant(note=note, values=tried.values)
        return Variant(note=note, failure=f"{outcome.failure.value}: {outcome.detail}")

    def _note(self, node: Node) -> str:
        return self.grown.tried[node.number].draft.note
