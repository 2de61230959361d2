"""How work speaks to people: a line at a time, with a name where a campaign's journal keeps it."""

from __future__ import annotations

import logging
from collections.abc import Callable

Tell = Callable[[str], None]
Notify = Callable[[str, str], None]

_LOG = logging.getLogger(__name__)


def logged(name: str, text: str) -> None:
    """Log a note: for whoever keeps no journal."""
    _LOG.warning("%s: %s", name, text)
