"""Which GPUs of a node a trial may use: of those that are kept for trials, each for one at a time.

Slurm cannot say: steps that overlap are all given the same GPUs. So a trial's step is given all
that the job has on its node, and shown its own alone.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from hpcscientist.errors import SchedulerRefused


@dataclass(frozen=True, slots=True)
class NodeGpus:
    """GPUs that a job holds of each of its nodes; serving has the first, trials the last `kept`."""

    held: int = 0
    kept: int = 0


NO_GPUS = NodeGpus()


class Pool:
    """The GPUs for trials, node by node, by their places among those that the job holds."""

    def __init__(self, nodes: Sequence[str], gpus: NodeGpus) -> None:
        self._gpus = gpus
        self._free = {node: list(range(gpus.held - gpus.kept, gpus.held)) for node in nodes}

    def with_room(self, nodes: Collection[str], count: int) -> list[str]:
        """Return those of some nodes that have so many free. Raises SchedulerRefused if none can.

        With as many trials at once as the kept GPUs hold, there always is such a node of all.
        """
        if count > self._gpus.kept:
            raise SchedulerRefused(
                f"serving.trials_inside: a trial needs {count} GPUs, and {self._gpus.kept} of each "
                "node are kept for trials; raise gpus in the site profile's [controller]"
            )
        return [node for node in nodes if len(self._free[node]) >= count]

    def take(self, node: str, count: int) -> tuple[int, ...]:
        """Take GPUs of a node that has so many free."""
        free = self._free[node]
        taken, free[:] = tuple(free[:count]), free[count:]
        return taken

    def give_back(self, node: str, taken: Collection[int]) -> None:
        """Return what a trial had."""
        self._free[node] = sorted({*self._free[node], *taken})


def shown(taken: Sequence[int], held: int) -> str:
    """Return the beginning of a shell's line that shows what follows these GPUs alone; "" for none.

    Slurm's own numbers of them are kept, where it gave some.
    """
    if not taken:
        return ""
    numbers = ",".join(map(str, range(held)))
    fields = ",".join(str(place + 1) for place in taken)
    strict = "-s " if held > 1 else ""  # where there are fewer than asked for: none
    listed = f'$(echo "${{CUDA_VISIBLE_DEVICES:-{numbers}}}" | cut {strict}-d, -f{fields})'
    # By the numbers of the bus, as the engines on the other GPUs have it.
    order = 'CUDA_DEVICE_ORDER="${CUDA_DEVICE_ORDER:-PCI_BUS_ID}"'
    return f"export {order} CUDA_VISIBLE_DEVICES={listed}; "
