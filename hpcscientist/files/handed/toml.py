"""TOML that strangers wrote: whatever is wrong with a text, it is one kind of error."""

from __future__ import annotations

import re
import tomllib
from typing import Any

from hpcscientist.files.handed.nesting import is_too_deep

_DEEP = 50  # brackets within each other, or parts of a key: no honest document has as many
_LONG = re.compile(r"[0-9_]{4000,}")


def parse(text: str) -> dict[str, Any]:
    """Return a TOML document. Raises TOMLDecodeError, also for what tomllib itself chokes on."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        raise
    except RecursionError:
        raise _error("nested too deeply", text, _deep(text)) from None
    except ValueError as error:  # a whole number of thousands of digits
        found = _LONG.search(text)
        raise _error("a number of too many digits", text, found.start() if found else 0) from error
    if is_too_deep(document):
        raise _error("nested too deeply", text, _deep(text))
    return document


def _error(what: str, text: str, place: int) -> tomllib.TOMLDecodeError:
    """In tomllib's own words for a place."""
    return tomllib.TOMLDecodeError(f"{what} (at line {text.count(chr(10), 0, place) + 1})")


def _deep(text: str) -> int:
    """Where brackets are first within each other as deeply, texts and comments regardless."""
    depth = 0
    for place, character in enumerate(text):
        depth += (character in "[{") - (character in "]}")
        if depth == _DEEP:
            return place
    lines = text.splitlines(keepends=True)
    for parts in (_key, str):  # an inline table has its keys behind the first `=`
        place = 0
        for line in lines:
            if parts(line).count(".") >= _DEEP:
                return place
            place += len(line)
    return 0


def _key(line: str) -> str:
    return line.partition("=")[0]
