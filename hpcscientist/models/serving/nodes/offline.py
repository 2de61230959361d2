"""The environment of all serving processes: no hub, no telemetry, no proxy, no outgoing traffic.

It also closes them to others: Ray gets the path of its token, servers that of the key.
"""

from __future__ import annotations

from collections.abc import Mapping

from hpcscientist.config.layers import KEY_VARIABLES
from hpcscientist.models.serving.nodes import gate
from hpcscientist.models.serving.order import ServingPaths

# For whatever opens a model. Each variable is read by the library in its name.
HUBS = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "DO_NOT_TRACK": "1",
    "TOKENIZERS_PARALLELISM": "false",  # else it warns in every process that is forked later
}
# For whatever serves one.
QUIET = {
    **HUBS,
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_DO_NOT_TRACK": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DISABLE_DOCKER_CPU_WARNING": "1",
    # Ray's metrics ports do not check the token. Two servers of a head cannot be switched off;
    # with an impossible port they log an error and continue without one.
    "RAY_enable_metrics_collection": "0",
    "AUTOSCALER_METRIC_PORT": "65536",
    "DASHBOARD_METRIC_PORT": "65536",
    "OTEL_SDK_DISABLED": "true",
    # Ray monitors the whole machine's memory, and would kill engines for what others use.
    "RAY_memory_monitor_refresh_ms": "0",
    # Ray starts its processes at the lowest priority; engines have work to do as others have.
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
