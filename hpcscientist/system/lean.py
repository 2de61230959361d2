"""What keeps a start short where thousands of processes read their modules from one file system."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_NO_THREAD = ("JE_ARROW_MALLOC_CONF", "background_thread:false")


@contextmanager
def without(*names: str) -> Iterator[None]:
    """Have the import system say, for now, that modules are not installed, unless they are loaded.

    For what libraries import only if it is there, as pyarrow does NumPy and cloudpickle. NumPy is
    the longest of all imports, and its OpenBLAS starts a thread a core; a worker forks, and so has
    to have one thread. For the same reason the memory allocator that pyarrow brings is told to
    start none. Afterwards they can be imported as ever.
    """
    os.environ.setdefault(*_NO_THREAD)
    out = [name for name in names if name not in sys.modules]
    sys.modules.update(dict.fromkeys(out))  # type: ignore[arg-type] # to import them fails now
    try:
        yield
    finally:
        for name in out:
            del sys.modules[name]
