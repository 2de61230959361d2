"""Asks the Python that will run candidate code what it can compile. Runs none of that code."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from hpcscientist.files.python_source import SourceFault, fault, is_newer

HERE = sys.version_info[:2]
_TIMEOUT_S = 60.0  # a container that is started for the first time on a slow file system
# Old Pythons must read this too. A hostile source may take all the memory or time there is.
_SCRIPT = """
import json, resource, sys, warnings
resource.setrlimit(resource.RLIMIT_CPU, (50, 50))
resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
warnings.simplefilter("ignore")
faults = {}
for name, source in json.load(sys.stdin).items():
    try:
        compile(source.encode(), "source", "exec", dont_inherit=True)
    except SyntaxError as error:
        faults[name] = [error.lineno, "syntax error: %s" % error.msg]
    except ValueError as error:
        faults[name] = [None, "not Python source: %s" % error]
    except (RecursionError, MemoryError, OverflowError):
        faults[name] = [None, "nested too deeply to be compiled"]
print(json.dumps({"version": sys.version_info[:2], "faults": faults}))
"""


class Interpreter:
    """A Python, given by the command that starts it. Without a command its version is unknown.

    It is also unknown if the command fails. Then code passes if this Python, or only a newer one,
    can compile it.
    """

    def __init__(self, command: Sequence[str] | None = None) -> None:
        self._command = tuple(command or ())

    @cached_property
    def version(self) -> tuple[int, int] | None:
        """Its version, such as (3, 12), asked once; None if it is unknown."""
        if self._command == (sys.executable,):
            return HERE
        answer = self._ask({})
        try:
            major, minor = answer["version"] if answer else (None, None)
        except (KeyError, ValueError, TypeError):
            return None
        return (major, minor) if isinstance(major, int) and isinstance(minor, int) else None

    def faults(self, sources: Mapping[str, str]) -> dict[str, SourceFault]:
        """Return the faults of the sources that it cannot compile, by name."""
        here = {name: found for name, text in sources.items() if (found := fault(text))}
        if self.version == HERE or not sources:
            return here
        answer = self._ask(sources) if self.version else None
        if answer is None:
            return {name: found for name, found in here.items() if not is_newer(sources[name])}
        return {
            name: SourceFault(line, message) for name, (line, message) in answer["faults"].items()
        }

    def _ask(self, sources: Mapping[str, str]) -> dict[str, Any] | None:
        """Let it compile sources and return its answer, None if it does not answer."""
        if not self._command:
            return None
        try:
            asked = json.dumps(dict(sources))
            done = subprocess.run(
                [*self._command, "-I", "-c", _SCRIPT],
                input=asked,
                capture_output=True,
                text=True,
                timeout=_TIMEOUT_S,
                check=True,
            )
            answer = json.loads(done.stdout.splitlines()[-1])
        except (OSError, subprocess.SubprocessError, ValueError, IndexError):
            self._command = ()  # do not ask again: it might block as long
            return None
        return answer if isinstance(answer, dict) else None
