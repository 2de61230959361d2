"""Starts commands that end together with their parent process, even if SIGKILL ends it."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

# An interpreter that asks the kernel for this, then execs the command. Nothing runs between fork
# and exec, because the parent may have threads.
_TIE = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)
if os.getppid() != int(sys.argv[1]):
    os._exit(137)
os.execv(sys.argv[2], sys.argv[2:])
"""


def tied(command: Sequence[str]) -> list[str]:
    """Return the command line that runs a program, given by its path, as long as we live.

    The program ends with the thread that starts it (PR_SET_PDEATHSIG, see prctl(2)); its own
    children do not.
    """
    return [sys.executable, "-I", "-S", "-c", _TIE, str(os.getpid()), *command]
