from __future__ import annotations

from pathlib import Path

import pytest
from steps_kit import real_allocation, stand_in_allocation
from trialkit import Bench

__all__ = ["real_allocation", "stand_in_allocation"]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path).prepare()
