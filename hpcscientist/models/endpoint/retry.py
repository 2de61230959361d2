"""Decides which failed requests to retry, and how long to wait first."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from tenacity import RetryCallState, wait_exponential, wait_random
from tenacity.wait import wait_base

from hpcscientist.config.settings import ClientSettings

# 424: Text Generation Inference, when a shard failed during generation.
_RETRIED = {408, 409, 424, 425, 429}
_FINAL = {501, 505}  # not implemented: another try gets the same answer


class Transient(Exception):
    """A try failed, but another may succeed. `retry_after` (s) is the wait the server asked for."""

    def __init__(self, reason: str, retry_after: float | None = None) -> None:
        super().__init__(reason)
        self.retry_after = retry_after


class OutOfTime(Transient):
    """A try was ended at `client.timeout_s`."""


def is_transient(status: int) -> bool:
    """Return whether an HTTP status is worth another try."""
    return status in _RETRIED or (status >= 500 and status not in _FINAL)


def retry_after_s(header: str | None, now: datetime) -> float | None:
    """Return a Retry-After header, seconds or a date, as seconds from `now`; None if unusable."""
    if header is None:
        return None
    try:
        seconds = float(header)
    except ValueError:
        try:
            when = parsedate_to_datetime(header)
            aware = when if when.tzinfo else when.replace(tzinfo=UTC)
            seconds = (aware - now).total_seconds()
        except (ValueError, OverflowError):  # no date, or one outside the calendar
            return None
    return seconds if 0 < seconds < float("inf") else None


class RetryBackoff(wait_base):
    """Exponential backoff with jitter, unless the server named a time. Both are capped."""

    def __init__(self, settings: ClientSettings) -> None:
        self._cap = settings.backoff_max_s
        self._exponential = wait_exponential(multiplier=settings.backoff_s, max=self._cap)
        self._jitter = wait_random(0, settings.backoff_s)

    def __call__(self, retry_state: RetryCallState) -> float:
        """Return the seconds to wait after this failed try."""
        error = retry_state.outcome.exception() if retry_state.outcome else None
        if isinstance(error, Transient) and error.retry_after is not None:
            return min(error.retry_after, self._cap)
        return min(self._exponential(retry_state) + self._jitter(retry_state), self._cap)
