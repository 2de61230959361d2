from __future__ import annotations

from watched_campaigns import what_is_recorded_comes_of_actions  # noqa: F401
