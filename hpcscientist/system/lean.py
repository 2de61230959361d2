"""Keeps the start of commands and workers short, and their end."""

from __future__ import annotations

import atexit
import gc
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder

_NO_THREAD = ("JE_ARROW_MALLOC_CONF", "background_thread:false")
# New objects before a garbage collection. Python's own 700 cost a command 0.1 s: it imports some
# 100,000 objects, nearly all of which stay.
_COLLECTED = 50_000


def start_quickly() -> None:
    """Collect garbage less often, and keep NumPy's threads from spinning while they are idle.

    Call it before anything large is imported. No garbage is collected at the end, where Python
    would look through all objects several times before it deletes them, for 0.2 s. Each thread of
    OpenBLAS spins for 2**26 cycles before it sleeps, also after it was started: on a login node of
    64 cores that is seconds of processor time for each command. They sleep after 2**4 cycles now,
    in child processes too.
    """
    gc.set_threshold(_COLLECTED)
    atexit.register(gc.freeze)
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")


def spare_pandas() -> None:
    """If pyarrow is loaded, keep it from importing pandas with its first array, which takes 0.2 s.

    What needs pandas still gets it: `to_pandas` and `from_pandas` import it when they are called.
    """
    if pyarrow := sys.modules.get("pyarrow"):
        with without("pandas"):
            pyarrow.array([])


class _NotInstalled(MetaPathFinder):
    """Finds none of some modules: to import them fails as if they were not installed.

    None in sys.modules would do that for Python's import statement; Cython's returns it.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names

    def find_spec(self, fullname: str, *where: object) -> None:
        if fullname in self._names:
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)


@contextmanager
def without(*names: str) -> Iterator[None]:
    """Make modules that are not loaded yet look as if they were not installed, inside the context.

    It is for optional imports of libraries, such as pyarrow's of NumPy and cloudpickle. NumPy is
    the slowest import, and its OpenBLAS starts a thread for each core; a worker forks, so it must
    have one thread. For the same reason pyarrow's memory allocator is told to start no thread.
    Afterwards the modules can be imported as usual.
    """
    os.environ.setdefault(*_NO_THREAD)
    finder = _NotInstalled(names)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
