from __future__ import annotations

from pathlib import Path

import pytest

from hpcscientist.recipe.load import Recipe, load, shipped_folder


@pytest.fixture
def recipe() -> Recipe:
    return load(shipped_folder() / "digits")


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH with nothing on it yet."""
    folder = tmp_path / "programs"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder
