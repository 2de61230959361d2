"""Separates the answer in a model's text from its reasoning, and finds its JSON objects.

Servers separate reasoning from the answer only if they were configured with the model's marks. So
the marks of all known models are looked for here too. A mark within a JSON object is part of the
answer.
"""

from __future__ import annotations

import hashlib
import json
import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from hpcscientist.records.model_calls import Message

_NAME = r"(?:[\w-]+[:_])?(?:think(?:ing)?|thoughts?|reasoning|reflection|scratchpad|analysis)"
# Ends a thought even without a beginning: chat templates put the opening mark into the prompt.
_END = (
    rf"</{_NAME}>|<\|/{_NAME}\|>|<\|{_NAME}[:_]end\|>|<\|end_(?:of_)?{_NAME}\|>|◁/{_NAME}▷"
    r"|(?-i:\[/THINK(?:ING)?\])|<\|inner_suffix\|>|<\|close\|>think<\|sep\|>"
)
_BEGIN = (
    rf"<{_NAME}(?:\s[^<>]*)?>|<\|{_NAME}(?:[:_]start)?\|>|◁{_NAME}▷|(?-i:\[THINK(?:ING)?\])"
    r"|<\|inner_prefix\|>|<\|open\|>think<\|sep\|>|<\|content_thinking\|>|<\|channel>thought\b"
    r"|<unused94>thought\b|\[unused16\]|\A\s*(?-i:analysis(?=[A-Z]))"
    r"|\bHere(?:'s| is) my thought process:"
)
# Ends a thought that has begun; has no meaning elsewhere.
_STOP = (
    r"<\|(?:end|return|call|end_message)\|>|<channel\|>|<unused95>|\[unused17\]"
    r"|assistant\s*final|\bHere(?:'s| is) my response:"
)
# gpt-oss names a channel for each message; the answer is in `final` if there is such a message.
_CHANNEL = (
    r"(?:<\|start\|>\s*assistant\s*)?<\|channel\|>\s*(?P<channel>\w+)[^<]*"
    r"(?:<\|constrain\|>[^<]*)?<\|message\|>"
)
_MARK = re.compile(
    rf"(?P<end>{_END})|(?P<begin>{_BEGIN})|(?P<stop>{_STOP})|(?:{_CHANNEL})", re.IGNORECASE
)
# Models quote regular expressions and LaTeX without escaping backslashes. JSON knows no `\d`.
_BACKSLASH = re.compile(r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})|\\')

_OPENING = re.compile(r'\{\s*["}]')
_CLOSES = re.compile(r"\s*[}\]]")
_STRICT = json.JSONDecoder()
_LENIENT = json.JSONDecoder(strict=False)
_PIECE = 50_000  # characters
_COMMAS = 50  # trailing commas of a text that are left out; each copies its piece
_FAILURES = 20_000  # opening braces that begin no object: no honest reply has as many
_PATIENCE = 20  # lenient parsing stops after this many times the text's length: torn texts are slow
LONGEST_REPLY = 1_000_000  # characters; no honest reply is longer, and parsing blocks the loop


@dataclass(slots=True)
class Objects:
    """The outermost JSON objects of a text: `values`, with the `spans` where they are.

    `torn` is where an object begins that the end of the text cuts off. Objects found after it are
    parts of it, not objects of their own. `mended`: commas before closing brackets were left out.
    """

    values: list[dict[str, Any]] = field(default_factory=list)
    spans: list[tuple[int, int]] = field(default_factory=list)
    torn: int | None = None
    mended: bool = False

    def holds(self, place: int) -> bool:
        """Return whether a position is within an object."""
        at = bisect_right(self.spans, place, key=lambda span: span[0])
        return at > 0 and place < self.spans[at - 1][1]


def strip_reasoning(text: str) -> str:
    """Return the answer without the reasoning around it; see `split_reasoning`."""
    return split_reasoning(text)[1]


def split_reasoning(text: str) -> tuple[str, str]:
    """Return a text's reasoning and its answer.

    Reasoning is what is between the marks of any known model, what precedes a closing mark without
    an opening one, and what follows an opening mark without a closing one (the reply was cut off).
    """
    if len(text) > LONGEST_REPLY:
        return "", text
    objects = _scanned(text)
    marks = [mark for mark in _MARK.finditer(text) if not objects.holds(mark.start())]
    final = any((mark["channel"] or "").lower() == "final" for mark in marks)
    answer, thoughts = list[str](), list[str]()
    at, thinking = 0, False
    for mark in marks:
        (thoughts if thinking else answer).append(text[at : mark.start()])
        if mark["end"] and not thinking:
            thoughts, answer = [*thoughts, *answer], []
        channel = (mark["channel"] or "").lower()
        of_thought = channel == "analysis" or (final and channel not in ("", "final"))
        thinking = bool(mark["begin"]) or of_thought
        at = mark.end()
    (thoughts if thinking else answer).append(text[at:])
    return _joined(thoughts), _joined(answer)


def find_objects(text: str) -> Objects:
    """Return the outermost JSON objects of a text, in order, those in reasoning included.

    Any text may surround them: prose, fences, stray braces. Bare line breaks and single backslashes
    within strings are accepted, because models write them when they quote code, and so are commas
    before closing brackets.
    """
    return _scanned(_fixed(text))


def is_fixed(text: str) -> bool:
    """Return whether `find_objects` changes a text: objects are moved, or no JSON as written."""
    return _fixed(text) != text or _scanned(text).mended


def _fixed(text: str) -> str:
    return _BACKSLASH.sub(lambda match: match[0] if len(match[0]) > 1 else r"\\", text)


def _scanned(text: str) -> Objects:
    found, failures, spent, base, commas = Objects(), 0, 0, 0, 0
    last, limit = len(text.rstrip()), _PATIENCE * len(text)
    at = _next(text, 0)
    while at >= 0 and failures < _FAILURES:
        if at > _PIECE:  # a decoding error counts the lines of all text before it
            text, base, last, at = text[at:], base + at, last - at, 0
        decoder = _LENIENT if spent <= limit else _STRICT
        try:
            value, end = decoder.raw_decode(text, at)
        except json.JSONDecodeError as error:
            comma = _trailing_comma(text, error.pos) if commas < _COMMAS else None
            if comma is not None:
                text = f"{text[:comma]} {text[comma + 1 :]}"
                commas += 1
                found.mended = True
                continue
            runs_out = error.msg.startswith("Unterminated") or error.pos >= last
            if runs_out and found.torn is None:
                found.torn = base + at
            failures += 1
            spent += (last if runs_out else error.pos) - at
            end = _resumed(text, at)
        except ValueError:  # a number with thousands of digits
            end = at + 1
        except RecursionError:  # nested a thousand levels deep: no reply, and slow to search
            break
        else:
            found.values.append(value)
            found.spans.append((base + at, base + end))
        at = _next(text, end)
    return found


def _trailing_comma(text: str, failed: int) -> int | None:
    """Return the place of a comma before a closing bracket, where a parse failed; None if none.

    Python reports the bracket, since 3.13 the comma.
    """
    if text[failed : failed + 1] in ("}", "]"):
        at = failed - 1
        while at >= 0 and text[at].isspace():
            at -= 1
    else:
        at = failed
    if text[at : at + 1] != "," or not _CLOSES.match(text, at + 1):
        return None
    return at


def _next(text: str, at: int) -> int:
    """Return where the next object may begin; -1 if nowhere."""
    found = _OPENING.search(text, at)
    return found.start() if found else -1


def _resumed(text: str, start: int) -> int:
    """Return where to continue the search after a failed parse.

    Continuing at the error keeps parts of a torn object from being taken for whole replies, and
    keeps the search linear. The strict decoder finds that position: the lenient one would run from
    a stray brace and quotation mark far into the answer.
    """
    try:
        return _STRICT.raw_decode(text, start)[1]
    except json.JSONDecodeError as error:
        return max(start + 1, error.pos)
    except (ValueError, RecursionError):
        return start + 1


def _joined(parts: list[str]) -> str:
    return "\n\n".join(part.strip() for part in parts if part.strip())


# Small text helpers shared by adapters: token estimates and prompt hashes.

_CHARACTERS_PER_TOKEN = 4  # the usual rule of thumb for English and code


def prompt_hash(prompt: Sequence[Message]) -> str:
    """Return the hash of a prompt, by which ideas' records refer to it and replies are matched."""
    text = json.dumps([message.model_dump() for message in prompt])
    return hashlib.sha256(text.encode()).hexdigest()


def estimate_tokens(text: str) -> int:
    """Return about how many tokens a text has; 0 for an empty one."""
    return -(-len(text) // _CHARACTERS_PER_TOKEN)
