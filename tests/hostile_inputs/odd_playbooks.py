"""Playbooks in which something is odd, each played as a whole campaign."""

from __future__ import annotations

import json
from dataclasses import dataclass

from hypothesis import strategies as st
from odd_campaigns import campaign, recorded
from odd_parts import Part, parts, rewritten
from odd_values import BYTES, JSON_VALUES
from try_out import ground


@dataclass(frozen=True)
class Reply:
    """The recorded reply to a call, such as `1/code/1`, of which parts are others.

    `as_text`: it is given as a model's raw text, which may be anything.
    """

    call: str
    parts: tuple[Part, ...]
    as_text: bool = False


@dataclass(frozen=True)
class Playbook:
    """`whole`: its ideas go through every step. `bytes`: start, end and what is there instead."""

    replies: tuple[Reply, ...]
    whole: bool = False
    bytes: tuple[tuple[int, int, bytes], ...] = ()


@st.composite
def playbooks(draw: st.DrawFn) -> Playbook:
    whole = draw(st.sampled_from((False,) * 5 + (True,)))
    calls = st.sampled_from(sorted(recorded(whole)))
    replies = []
    for call in draw(st.lists(calls, min_size=1, max_size=4, unique=True)):
        as_text = draw(st.booleans())
        entry = recorded(whole)[call]
        line = json.dumps(entry["reply"] if as_text and "reply" in entry else entry)
        replies.append(Reply(call, draw(parts(line, JSON_VALUES)), as_text))
    places = st.lists(st.tuples(st.integers(0, 9_000), st.integers(0, 99), BYTES), max_size=1)
    spliced = draw(places) if draw(st.integers(0, 4)) == 4 else []
    found = tuple((start, start + length, put) for start, length, put in spliced)
    return Playbook(tuple(replies), whole, found)


def try_playbook(case: Playbook) -> None:
    lines = {call: json.dumps(entry) for call, entry in recorded(case.whole).items()}
    for reply in case.replies:
        entry = recorded(case.whole)[reply.call]
        if reply.as_text and "reply" in entry:
            said = rewritten(json.dumps(entry["reply"]), reply.parts)
            others = {name: value for name, value in entry.items() if name != "reply"}
            lines[reply.call] = json.dumps(others | {"text": said})
        else:
            lines[reply.call] = rewritten(lines[reply.call], reply.parts)
    book = "".join(f"{line}\n" for line in lines.values()).encode("utf-8", "surrogatepass")
    for start, end, put in case.bytes:
        book = book[:start] + put + book[end:]
    with ground() as folder:
        (folder / "book.jsonl").write_bytes(book)
        campaign(folder, "playbook:book.jsonl", whole=case.whole)
