"""The environment of everything that serves: no hub, no telemetry, no proxy, nothing leaves.

And nobody comes in: Ray is told of its token, servers of the key.
"""

from __future__ import annotations

from collections.abc import Mapping

from hpcscientist.config.layers import KEY_VARIABLES
from hpcscientist.models.serving.nodes import gate
from hpcscientist.models.serving.order import ServingPaths

# For whatever opens a model. Each is read by the library whose name it carries.
HUBS = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "DO_NOT_TRACK": "1",
    "TOKENIZERS_PARALLELISM": "false",  # it warns in every process that is started later
}
# For whatever serves one.
QUIET = {
    **HUBS,
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_DO_NOT_TRACK": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DISABLE_DOCKER_CPU_WARNING": "1",
    # Ray's ports for metrics ask nobody for the token. The two servers of a head cannot be left
    # out; at a port that there is none of, they log an error and do without.
    "RAY_enable_metrics_collection": "0",
    "AUTOSCALER_METRIC_PORT": "65536",
    "DASHBOARD_METRIC_PORT": "65536",
    "OTEL_SDK_DISABLED": "true",
    # Ray looks at all of the machine, and would end engines for what others take of it.
    "RAY_memory_monitor_refresh_ms": "0",
    # Ray has its processes wait behind all others; engines have work to do as others have.
    "RAY_worker_niceness": "0",
}
_DROPPED = frozenset(
    # A cluster's proxy, another Ray that this shell may belong to, keys of other services.
    {
        *("http_proxy", "https_proxy", "all_proxy"),
        *("ray_address", "ray_namespace", "ray_auth_token"),
        *(name.lower() for name in KEY_VARIABLES),
    }
)


def environment(given: Mapping[str, str], paths: ServingPaths) -> dict[str, str]:
    """Return the variables that a node's processes start with."""
    kept = {name: value for name, value in given.items() if name.lower() not in _DROPPED}
    ray = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(paths.token)}
    return kept | QUIET | ray | {gate.KEY_FILE: str(paths.key)}
