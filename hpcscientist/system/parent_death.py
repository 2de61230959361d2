"""A command that ends with the process that starts it, also where that is killed (SIGKILL)."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

# An interpreter that asks the kernel for it, then becomes the command. Nothing is run between fork
# and exec: the process that starts it may have threads.
_TIE = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)
if os.getppid() != int(sys.argv[1]):
    os._exit(137)
os.execv(sys.argv[2], sys.argv[2:])
"""


def tied(command: Sequence[str]) -> list[str]:
    """Return the command line that runs a program, given by its path, for as long as we live.

    It ends with the thread that starts it (PR_SET_PDEATHSIG, see prctl(2)); what it starts in turn
    does not.
    """
    return [sys.executable, "-I", "-S", "-c", _TIE, str(os.getpid()), *command]
