"""A tree of versions as a small picture of text, for notes.md."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hpcscientist.authoring.tree import Node

_KINDS = {"draft": "first version", "debug": "repair", "improve": "improvement"}
_STATES = {
    "broken": "failed",
    "barred": "set aside",
    "unwritten": "not written",
    "spoilt": "spoilt by the machine",
}


def picture(nodes: Sequence[Node], best: int | None) -> str:
    """Return a line a version, drawn below the one it was made from; `best` is marked.

    Holds nothing that a model or a program has written.
    """
    return "\n".join(["reference", *_below(0, "", nodes, best)])


def _below(parent: int, indent: str, nodes: Sequence[Node], best: int | None) -> Iterator[str]:
    children = [node for node in nodes if node.parent == parent]
    for place, node in enumerate(children, start=1):
        last = place == len(children)
        mark = ", the best" if node.number == best else ""
        drawn = f"{indent}{'└─' if last else '├─'} {node.number}"
        yield f"{drawn} {_KINDS[node.kind]}: {_came_to(node)}{mark}"
        yield from _below(node.number, f"{indent}{'   ' if last else '│  '}", nodes, best)


def _came_to(node: Node) -> str:
    return f"{node.value:.5g}" if node.value is not None else _STATES.get(node.state, node.state)
