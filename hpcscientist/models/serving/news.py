"""What a plane waits for, as whoever follows it from elsewhere is told."""

from __future__ import annotations

from collections.abc import Callable

from hpcscientist.files.atomic import read_tail
from hpcscientist.files.text import one_line
from hpcscientist.models.serving.paths import ServingPaths

# Seconds: models may load for a quarter of an hour, and nothing changes meanwhile.
AGAIN_S = 60.0
_BYTES = 2000


class PlaneNews:
    """Tells each state of a plane once, and again every minute for as long as it lasts.

    What stands there at first may be of an earlier plane: it is told only once ours is known to be
    on its way, and never if that one was ready or had failed.
    """

    def __init__(self, paths: ServingPaths, clock: Callable[[], float]) -> None:
        """`clock`: seconds."""
        self._paths, self._clock = paths, clock
        self._state = self._read()
        self._since = self._due = clock()

    def look(self, *, is_running: bool) -> str:
        """Return what is to be told now, "" for nothing. `is_running`: whoever serves runs."""
        now, state = self._clock(), self._read()
        if state != self._state:
            self._state, self._since, self._due = state, now, now + AGAIN_S
            return f"model plane: {state}" if state else ""
        if not is_running or now < self._due or not state or is_over(state):
            return ""
        self._due = now + AGAIN_S
        minutes = int((now - self._since) // 60)
        lasts = f", for {minutes} minute{'s' * (minutes > 1)} so far" if minutes else ""
        return f"model plane: {state}{lasts}"

    def _read(self) -> str:
        return plane_state(self._paths)


def plane_state(paths: ServingPaths) -> str:
    """Return what a plane says of itself in a line; "" where there is none."""
    return one_line(read_tail(paths.state, _BYTES).strip())


def is_over(state: str) -> bool:
    """Whether a plane that says so waits for nothing: it answers, or it failed."""
    return state == "ready" or state.startswith("failed")
