"""Keeps start-up short when thousands of processes load their modules from one file system."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_NO_THREAD = ("JE_ARROW_MALLOC_CONF", "background_thread:false")


@contextmanager
def without(*names: str) -> Iterator[None]:
    """Make modules that are not loaded yet look as if they were not installed, inside the context.

    It is for optional imports of libraries, such as pyarrow's of NumPy and cloudpickle. NumPy is
    the slowest import, and its OpenBLAS starts a thread for each core; a worker forks, so it must
    have one thread. For the same reason pyarrow's memory allocator is told to start no thread.
    Afterwards the modules can be imported as usual.
    """
    os.environ.setdefault(*_NO_THREAD)
    out = [name for name in names if name not in sys.modules]
    sys.modules.update(dict.fromkeys(out))  # type: ignore[arg-type] # to import them fails now
    try:
        yield
    finally:
        for name in out:
            del sys.modules[name]
