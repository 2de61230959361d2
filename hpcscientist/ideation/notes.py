"""What a step tells people when it goes on without an answer: a name, and one line of text."""

from __future__ import annotations

import logging
from collections.abc import Callable

Notify = Callable[[str, str], None]

_LOG = logging.getLogger(__name__)


def logged(name: str, text: str) -> None:
    """Log a note: for whoever keeps no journal."""
    _LOG.warning("%s: %s", name, text)
