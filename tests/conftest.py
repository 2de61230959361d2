"""Fixtures for all rooms: nobody's own configuration, cache or state is used by a test."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="session", autouse=True)
def own_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            if name.startswith("HPCSCI_") and name != "HPCSCI_TEST_IMAGE":
                patch.delenv(name)
        patch.setenv("HOME", str(home))
        for name in ("CONFIG", "CACHE", "STATE"):
            patch.delenv(f"XDG_{name}_HOME", raising=False)
        yield home
