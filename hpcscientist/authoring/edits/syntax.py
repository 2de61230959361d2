"""Whether a text is valid Python; nothing is run."""

from __future__ import annotations

from functools import lru_cache

from hpcscientist.files.handed import python


@lru_cache(maxsize=64)
def fault(text: str) -> str | None:
    """Return what is wrong with a Python text, and where; None if it compiles.

    What only a newer Python than this one compiles has no fault: whether trials have such a
    Python, `checks` says of the whole file.
    """
    found = python.fault(text)
    if found is None or python.is_newer(text):
        return None
    message = found.message.removeprefix("syntax error: ")
    return message if found.line is None else f"line {found.line}: {message}"


def is_python(file: str) -> bool:
    """Whether a file of that name holds Python."""
    return file.endswith((".py", ".pyi"))
