"""Opens pages in a real browser, for tests marked `browser`; see tests/browser_environment."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

DRIVER = Path(__file__).parent / "report" / "browser.mjs"


def why_no_browser() -> str | None:
    """Return what is missing to drive a browser; None if nothing is."""
    folder = os.environ.get("HPCTEST_BROWSER", "")
    if not shutil.which("node"):
        return "COULD NOT RUN: no node; tests/browser_environment FOLDER installs it"
    if not Path(folder, "node_modules", "playwright-core").is_dir():
        return "COULD NOT RUN: HPCTEST_BROWSER names no folder that tests/browser_environment made"
    if not Path(os.environ.get("HPCTEST_CHROMIUM", "/usr/bin/chromium")).exists():
        return "COULD NOT RUN: no chromium; tests/browser_environment FOLDER installs it"
    return None


def opened(page: Path, *flags: str | Path) -> dict[str, Any]:
    """Open a page and return the browser's report; skip the test if there is no browser."""
    if lacking := why_no_browser():
        pytest.skip(lacking)
    modules = str(Path(os.environ["HPCTEST_BROWSER"]) / "node_modules")
    done = subprocess.run(
        ["node", str(DRIVER), str(page), *map(str, flags)],
        env=os.environ | {"NODE_PATH": modules},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found
