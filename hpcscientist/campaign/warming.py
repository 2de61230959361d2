"""What is slow to import, imported beside the first trials: else the loop would stand still for it
when it is needed, and with it every slot that is free then.
"""

from __future__ import annotations

from importlib import import_module

# The bank compares texts by the first, statistics reckon with the others.
SLOW = ("scipy.sparse", "scipy.special", "numpy.polynomial.legendre")


def warm_up() -> None:
    """Import it all. From any thread; raises ImportError."""
    for name in SLOW:
        import_module(name)
