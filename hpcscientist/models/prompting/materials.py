"""Prompts that can be made shorter: each drops its least relevant material first.

A prompt has levels. At level 0 it is whole; each further level lacks one more thing. Nothing
is cut in the middle: a list loses entries, a file goes as a whole, a log loses its oldest lines.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from hpcscientist.models.prompting.prompts import render
from hpcscientist.records.asked.model import Message

T = TypeVar("T")

GONE = "[…]"
_FILE_GONE = "[left out for lack of room]"
_LINES = 8  # a log is kept down to so many of its last lines, then goes as a whole
_SHOWN = (16_000, 4_000, 1_000)  # characters of an earlier reply, ever fewer


@dataclass(frozen=True, slots=True)
class Prompt:
    """A chat at each of its levels, 0 to `levels`."""

    levels: int
    at: Callable[[int], tuple[Message, ...]]

    def noted(self, note: str) -> Prompt:
        """Return the prompt with a note at the end of what the user says."""
        return Prompt(self.levels, lambda level: _with_note(self.at(level), note))

    def answered(self, forms: Sequence[str], said: str) -> Prompt:
        """Return the prompt, an answer to it, and what is said to that.

        `forms` are the answer, ever shorter; it goes before anything of the prompt itself.
        """
        shorter = len(forms) - 1

        def at(level: int) -> tuple[Message, ...]:
            taken = min(level, shorter)
            return (
                *self.at(level - taken),
                Message(role="assistant", content=forms[taken]),
                Message(role="user", content=said),
            )

        return Prompt(self.levels + shorter, at)


@dataclass(frozen=True, slots=True)
class Part:
    """A material of a template: its name there, and its form after 0 to `steps` steps."""

    name: str
    steps: int
    at: Callable[[int], Any]


def fixed(messages: tuple[Message, ...]) -> Prompt:
    """Return a prompt that cannot be made shorter."""
    return Prompt(0, lambda _: messages)


def of_template(template: str, parts: Sequence[Part], **context: object) -> Prompt:
    """Return the prompt of a template; `parts` are its materials, the least relevant first.

    The template learns from `left_out` how many steps each material lost.
    """

    def at(level: int) -> tuple[Message, ...]:
        values, left_out = dict(context), dict[str, int]()
        for part in parts:
            left_out[part.name] = min(level, part.steps)
            values[part.name] = part.at(left_out[part.name])
            level -= left_out[part.name]
        content = render(template, **values, left_out=left_out)
        return (Message(role="user", content=content),)

    return Prompt(sum(part.steps for part in parts), at)


def entries(
    name: str, items: Sequence[T], keep_longest: Callable[[T], bool] = lambda _: False
) -> Part:
    """Entries of a list go one by one, the first first; those to be kept longest at last."""
    order = sorted(range(len(items)), key=lambda i: (keep_longest(items[i]), i))

    def at(step: int) -> tuple[T, ...]:
        gone = set(order[:step])
        return tuple(item for i, item in enumerate(items) if i not in gone)

    return Part(name, len(items), at)


def from_the_end(name: str, items: Sequence[T]) -> Part:
    """Entries of a list go one by one, the last first."""
    return Part(name, len(items), lambda step: tuple(items[: len(items) - step]))


def lines_from_the_end(name: str, text: str) -> Part:
    """Lines of a text go one by one, the last first; headings without entries go with them."""
    lines = text.splitlines()

    def at(step: int) -> str:
        if step == 0:
            return text
        kept = lines[: len(lines) - step]
        while kept and kept[-1].endswith(":"):
            kept.pop()
        return "\n".join([*kept, GONE]) if kept else ""

    return Part(name, len(lines), at)


def tail(name: str, text: str) -> Part:
    """The oldest half of a log's lines goes, and again, down to a few; then all of it."""
    lines = text.splitlines()
    counts = [len(lines)]
    while counts[-1] > _LINES:
        counts.append(max(_LINES, counts[-1] // 2))
    counts.append(0)

    def at(step: int) -> str:
        if step == 0:
            return text
        return "\n".join([GONE, *lines[-counts[step] :]]) if counts[step] else ""

    return Part(name, len(counts) - 1 if lines else 0, at)


def read_only_files(name: str, files: Mapping[str, str], editable: Sequence[str]) -> Part:
    """Files that may not be edited go as a whole, the longest first; their names stay."""
    droppable = [n for n in files if n not in editable and len(files[n]) > len(_FILE_GONE)]
    order = sorted(droppable, key=lambda n: (-len(files[n]), n))

    def at(step: int) -> dict[str, str]:
        gone = set(order[:step])
        return {n: _FILE_GONE if n in gone else text for n, text in files.items()}

    return Part(name, len(order), at)


def shortened(reply: str) -> tuple[str, ...]:
    """Return a reply ever shorter, its beginning and its end; for an answer shown again."""
    if not reply:
        return ("(empty)",)
    forms = [_ends(reply, size) for size in _SHOWN]
    return tuple(dict.fromkeys([*forms, GONE]))


def _ends(text: str, size: int) -> str:
    half = size // 2
    return text if len(text) <= size else f"{text[:half]}\n{GONE}\n{text[-half:]}"


def _with_note(messages: tuple[Message, ...], note: str) -> tuple[Message, ...]:
    if messages and messages[-1].role == "user":
        # Many chat templates refuse two user messages in a row.
        last = Message(role="user", content=f"{messages[-1].content}\n\n{note}")
        return (*messages[:-1], last)
    return (*messages, Message(role="user", content=note))
