"""Whether a file is Python at all."""

from __future__ import annotations

import ast
import warnings

from hpcscientist.files.handed.python import syntax_tree
from hpcscientist.records.problem import Problem


def parsed(name: str, text: str) -> ast.Module | Problem:
    """Return the tree of a file that compiles, or why it does not."""
    try:
        with warnings.catch_warnings():
            # A dubious escape or comparison is no reason to refuse code that runs.
            warnings.simplefilter("ignore")
            # As bytes, as the interpreter will read it: a wrong coding line counts.
            compile(text.encode(), name, "exec", dont_inherit=True)
            return syntax_tree(text.encode(), name)
    except SyntaxError as error:
        return Problem(file=name, line=error.lineno, message=f"syntax error: {error.msg}")
    except ValueError as error:  # null bytes, characters that cannot be encoded
        return Problem(file=name, line=None, message=f"not Python source: {error}")
    except (RecursionError, MemoryError, OverflowError):
        return Problem(file=name, line=None, message="nested too deeply to be compiled")
