"""Whether a text is valid Python; nothing is run."""

from __future__ import annotations

import warnings
from functools import lru_cache


@lru_cache(maxsize=64)
def fault(text: str) -> str | None:
    """Return what is wrong with a Python text, and where; None if it compiles."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(text.encode(), "edit", "exec", dont_inherit=True)
    except SyntaxError as error:
        return f"line {error.lineno}: {error.msg}"
    except ValueError as error:
        return str(error)
    except (RecursionError, MemoryError, OverflowError):
        return "nested too deeply to be compiled"
    return None


def is_python(file: str) -> bool:
    """Whether a file of that name holds Python."""
    return file.endswith((".py", ".pyi"))
