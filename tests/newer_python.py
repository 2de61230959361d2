"""Code that needs a newer Python than the oldest supported one, and Pythons of other versions."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

# Syntax that Python 3.12 added.
NEWER = (
    "def first[T](x: list[T]) -> T: return x[0]",
    "class Box[S]:\n    held: S",
    "type Pair = tuple[int, int]",
    "async def go[**P](*args: P.args): pass",
    'd = {"a": 1}\nprint(f"{d["a"]}")',
    "x = []\nprint(f\"{'\\n'.join(x)}\")",
    "print(f'{\n    1  # one\n}')",
    'print(f"""{\n    1  # one\n}""")',
)
# Invalid in every Python, with or without newer syntax.
BROKEN = (
    "x = = 1",
    "def first[T](x: T -> T: return x",
    'print(f"{d["a"}")',
    "print 'a'",
    "if True:\nx = 1",
    "x = (1, 2",
    "return 3\nx = '\ud800'",
)


# Folders of the Pythons that pyenv and uv install.
_PLACES = (".pyenv/versions/*/bin", ".local/share/uv/python/*/bin")


@cache
def python(low: tuple[int, int], high: tuple[int, int] = (3, 99)) -> str:
    """Return a Python of this machine between two versions; skip the test if there is none."""
    home = Path(pwd.getpwuid(os.getuid()).pw_dir)  # tests set their own HOME
    folders = [str(folder) for place in _PLACES for folder in sorted(home.glob(place))]
    places = os.pathsep.join([*folders, os.environ.get("PATH", "")])
    for minor in range(low[1], min(high[1], 30) + 1):
        path = shutil.which(f"python3.{minor}", path=places)
        if path is not None and (3, minor) != sys.version_info[:2]:
            works = [path, "-c", "import json, resource"]
            done = subprocess.run(works, capture_output=True, check=False)
            if done.returncode == 0:
                return path
    pytest.skip(f"NOT TESTED: another Python, for lack of one from {low} to {high}")
