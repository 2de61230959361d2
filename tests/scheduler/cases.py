"""Every case, by name; the files beside this one hold them by subject."""

from __future__ import annotations

import cases_states  # noqa: F401 (it puts its cases into the table)
from case_table import CASES

__all__ = ["CASES"]
