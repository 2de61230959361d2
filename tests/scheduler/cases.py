"""Every case, by name; the files beside this one hold them by subject."""

from __future__ import annotations

import cases_daemons  # noqa: F401 (each puts its cases into the table)
import cases_driver  # noqa: F401
import cases_states  # noqa: F401
import cases_waiting  # noqa: F401
from case_table import CASES

__all__ = ["CASES"]
