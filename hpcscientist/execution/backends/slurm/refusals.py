"""What sbatch's refusals mean: a limit that could not be read, a closed partition, or a no."""

from __future__ import annotations

import re

from hpcscientist.execution.backends.slurm import clock

# Slurm's words for a limit on the number of jobs; and for one on a job's size, which stays.
_SUBMIT_LIMIT = re.compile(r"Submit\w*Limit|violates accounting/QOS policy|too many jobs", re.I)
_SIZE_LIMIT = re.compile(r"PerJob|Wall|Max(Cpu|Node|Mem|GRES|Billing|TRES)(?!\w*PerUser)", re.I)
_CLOSED = re.compile(r"partition not available|inactive or drain", re.IGNORECASE)
_REFUSALS, _LEARNED_S = 20, 300.0

UNLIMITED = 10**9


def is_closed(said: str) -> bool:
    """Whether the partition takes no jobs for now."""
    return bool(_CLOSED.search(said))


class Learned:
    """A submit limit that Slurm did not tell, found out by its refusals; for a while."""

    def __init__(self) -> None:
        self._most, self._until, self._refusals = UNLIMITED, 0.0, 0

    @property
    def most(self) -> int:
        """How many array tasks of ours may be in the queue, as far as is known."""
        return self._most if clock.now() < self._until else UNLIMITED

    def accepted(self) -> None:
        """Slurm took an array."""
        self._refusals = 0

    def is_limit(self, said: str) -> bool:
        """Whether a refusal speaks of a limit below which fewer tasks may fit."""
        many = bool(_SUBMIT_LIMIT.search(said)) and not _SIZE_LIMIT.search(said)
        return many and self._refusals < _REFUSALS

    def refused(self, own: int, others: int, tasks: int) -> None:
        """Fit below the limit: `own` and `others` were in the queue, `tasks` were too many."""
        self._most, self._until = max(1, (own + tasks) // 2), clock.now() + _LEARNED_S
        # With nothing of ours in the queue only others can make room, or nobody ever will.
        self._refusals = 0 if own or others else self._refusals + 1
