"""The generator shares the scripted trials of the campaign's tests."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "campaign"))
