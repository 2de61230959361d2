"""All hostile candidates, each with what has to become of it in a container.

`write_trials` makes trials of them in any run directory, so that the same list runs one after
another on one machine and as elements of an array on a cluster. `hostile_kit.verify` says
whether a trial came to the end it had to come to.
"""

from __future__ import annotations

from hostile_disk import DISK
from hostile_kit import Hostile, HostileBench, Surroundings, write_trial
from hostile_leftovers import LEFTOVERS
from hostile_processes import MEMORY, PROCESSES
from hostile_reach import LABELS, NETWORK, OTHERS, SCORER

from hpcscientist.records.site import Host
from hpcscientist.records.trial import TrialSpec

HOSTILE: tuple[Hostile, ...] = (
    *(*LABELS, *SCORER, *OTHERS, *NETWORK),
    *(*PROCESSES, *MEMORY, *DISK, *LEFTOVERS),
)


def write_trials(
    bench: HostileBench, image: str, around: Surroundings, host: Host | None = None
) -> list[tuple[Hostile, TrialSpec]]:
    """Write the folder of a trial of each candidate below the bench's run directory."""
    return [(hostile, write_trial(bench, hostile, image, around, host)) for hostile in HOSTILE]
