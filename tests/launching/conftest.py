from __future__ import annotations

import sys
from pathlib import Path

from watched_campaigns import what_is_recorded_comes_of_actions  # noqa: F401

sys.path.insert(0, str(Path(__file__).parent.parent / "e2e"))  # its tiny recipe
