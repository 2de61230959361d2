"""Which fan-out a campaign uses."""

from __future__ import annotations

from hpcscientist.config.settings import FanOutChoice
from hpcscientist.errors import ServingError
from hpcscientist.models.fanout.on_ray import RayCluster, RayFanOut
from hpcscientist.models.fanout.threads import ThreadFanOut
from hpcscientist.ports.fanout import FanOut


def open_fan_out(choice: FanOutChoice, width: int, cluster: RayCluster | None) -> FanOut:
    """Return the fan-out that `serving.fan_out` names; `cluster`: the model plane's, if any.

    auto: Ray where a model plane serves, for it spans the allocation and is there anyway; else
    threads. `width`: how many tasks run at once. Raises ServingError for ray without a plane.
    """
    if choice == "threads" or (choice == "auto" and cluster is None):
        return ThreadFanOut(width)
    if cluster is None:
        raise ServingError(
            "serving.fan_out is ray, but no model plane serves; give --model vllm:PATH, or set "
            "serving.fan_out to auto"
        )
    return RayFanOut(cluster, width)
