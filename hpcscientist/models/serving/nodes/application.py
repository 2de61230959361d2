"""The process that deploys models on a plane's Ray, and says where they answer.

    python -m hpcscientist.models.serving.nodes.application ORDER

It runs beside the head's Ray and stays until that ends. Ray Serve LLM places the replicas,
batches, and restarts what dies.
"""

from __future__ import annotations

import json
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hpcscientist.errors import ServingError
from hpcscientist.files.atomic import write_atomic, write_text
from hpcscientist.models.serving import secrets
from hpcscientist.models.serving.order import Endpoint, Order, ServedModel
from hpcscientist.models.serving.paths import ServingPaths

_POLL_S = 0.5
_APPLICATION = "models"
_BROKEN_S = 60.0  # an engine that is healthy, but fails at every request, does not mend
_QUIET = {"enable_access_log": False}  # three lines a request, in files that nobody reads
_ASK_S = 120.0  # for the first token, which may have to compile something first


def main(arguments: Sequence[str]) -> int:
    """Deploy, publish the endpoint, and stay."""
    order = Order.model_validate_json(Path(arguments[0]).read_bytes())
    paths = ServingPaths(order.folder)
    try:
        endpoint = _deploy(order, paths)
    except ServingError as error:
        write_text(paths.state, f"failed: {error}\n")
        print(error, flush=True)
        return 1
    write_atomic(paths.endpoint, endpoint.model_dump_json(indent=2).encode() + b"\n")
    write_text(paths.state, "ready\n")
    while True:
        time.sleep(3600)


def _deploy(order: Order, paths: ServingPaths) -> Endpoint:
    import ray  # noqa: PLC0415 (heavy)
    from ray import serve  # noqa: PLC0415

    address = f"{order.head}:{order.ports.gcs}"
    until = time.monotonic() + order.ready_s
    ray.init(address=address, namespace="hpcsci", log_to_driver=False)
    _await_nodes(order, paths, until, lambda: sum(node["Alive"] for node in ray.nodes()))
    # Each node's proxy listens on that node's own loopback address, so that nothing that is said
    # to the endpoint is on any network in the clear; between nodes Ray carries it.
    serve.start(
        proxy_location="EveryNode",
        http_options={"host": "127.0.0.1", "port": order.ports.http},
        logging_config=_QUIET,
    )
    _run(order, paths, until)
    url = f"http://127.0.0.1:{order.ports.http}/v1"
    for model in order.models:
        write_text(paths.state, f"first answer of {model.name}\n")
        _ask(url, secrets.read(paths.key), model.name, until)
    return Endpoint(
        nonce=order.nonce,
        url=url,
        models=tuple(model.name for model in order.models),
        nodes=order.nodes,
        head=order.nodes[0],
        ray_address=address,
        contexts={m.name: int(m.engine.get("max_model_len", 0)) for m in order.models},
        started=time.time(),
    )


def _await_nodes(order: Order, paths: ServingPaths, until: float, alive: Any) -> None:
    while (found := alive()) < len(order.nodes):
        write_text(paths.state, f"{found} of {len(order.nodes)} nodes have joined\n")
        if time.monotonic() > until:
            raise ServingError(f"only {found} of {len(order.nodes)} nodes joined in time")
        time.sleep(_POLL_S)


def _run(order: Order, paths: ServingPaths, until: float) -> None:
    """Deploy the models and wait until all replicas are healthy. Raises ServingError."""
    from ray import serve  # noqa: PLC0415

    problem: list[BaseException] = []

    def run() -> None:
        try:
            serve.run(
                _application(order, paths),
                name=_APPLICATION,
                route_prefix="/",
                logging_config=_QUIET,
            )
        except BaseException as error:  # noqa: BLE001 (told below, in one line)
            problem.append(error)

    thread = threading.Thread(target=run, daemon=True, name="deploy")
    thread.start()
    told = ""
    while True:
        state, message, healthy = _progress(len(order.nodes))
        if healthy and not thread.is_alive() and not problem:
            return
        if problem or state == "DEPLOY_FAILED":
            reason = message or str(problem[0] if problem else "")
            raise ServingError(f"the models could not be deployed: {_last_lines(reason)}")
        if time.monotonic() > until:
            raise ServingError(
                f"the models were not ready after {order.ready_s:g} s ({state}: "
                f"{_last_lines(message)}); give serving.ready_s more, or see {paths.logs}"
            )
        now = f"deploying: {state or 'STARTING'}"
        if now != told:
            write_text(paths.state, now + "\n")
            told = now
        time.sleep(_POLL_S)


def _progress(nodes: int) -> tuple[str, str, bool]:
    """The application's state, what Ray Serve says of it, and whether all of it is healthy.

    So many nodes' proxies are part of it: requests go by each node's own.
    """
    from ray import serve  # noqa: PLC0415

    status = serve.status()
    found = status.applications.get(_APPLICATION)
    if found is None:
        return "", "", False
    said = [found.message, *(d.message for d in found.deployments.values())]
    proxies = sum(_value(proxy) == "HEALTHY" for proxy in status.proxies.values())
    if proxies < nodes:
        said.append(f"{proxies} of {nodes} nodes answer requests")
    healthy = (
        proxies >= nodes
        and _value(found.status) == "RUNNING"
        and all(_value(d.status) == "HEALTHY" for d in found.deployments.values())
    )
    return _value(found.status), "\n".join(filter(None, said)), healthy


def _value(status: Any) -> str:
    return str(getattr(status, "value", status))


def _application(order: Order, paths: ServingPaths) -> Any:
    """The application: engines, and before them an ingress behind the gate."""
    from ray import serve  # noqa: PLC0415
    from ray.llm._internal.serve.core.ingress.ingress import (  # noqa: PLC0415
        init as fastapi_of_ray,  # its error replies in OpenAI's form; there is no public name
    )
    from ray.serve.llm import LLMConfig, build_llm_deployment  # noqa: PLC0415
    from ray.serve.llm.ingress import OpenAiIngress, make_fastapi_ingress  # noqa: PLC0415

    from hpcscientist.models.serving.nodes.gate import Gate  # noqa: PLC0415

    configs = [LLMConfig(**config(model)) for model in order.models]
    behind = fastapi_of_ray()
    behind.add_middleware(Gate, key=str(paths.key))  # the last one added comes first
    ingress = make_fastapi_ingress(OpenAiIngress, app=behind)
    options = {
        "name": "ingress",
        "num_replicas": len(order.nodes),
        # A node without any replica has no proxy, and each node's own is asked.
        "max_replicas_per_node": 1,
        "max_ongoing_requests": 1000,
        "ray_actor_options": {"num_cpus": 0},
    }
    return serve.deployment(ingress, **options).bind(
        llm_deployments={c.model_id: build_llm_deployment(c) for c in configs},
        model_cards={c.model_id: _card(c) for c in configs},
    )


def _card(config: Any) -> Any:
    from ray.llm._internal.serve.core.configs.openai_api_models import (  # noqa: PLC0415
        to_model_metadata,
    )

    return to_model_metadata(config.model_id, config)


def config(model: ServedModel) -> dict[str, Any]:
    """Return Ray Serve LLM's configuration of a model."""
    strategy = "STRICT_PACK" if model.within_node else "PACK"
    return {
        "model_loading_config": {"model_id": model.name, "model_source": model.folder},
        "engine_kwargs": dict(model.engine),
        "placement_group_config": {"bundle_per_worker": model.bundle, "strategy": strategy},
        "deployment_config": {
            "num_replicas": model.replicas,
            "max_ongoing_requests": 1000,  # vLLM batches them; more would only wait elsewhere
        },
        "runtime_env": {"env_vars": model.variables},
        "log_engine_metrics": False,
        "server_cls": "hpcscientist.models.serving.nodes.replica:Replica",
    }


def _ask(url: str, key: str, name: str, until: float) -> None:
    """Have one token made, so that the first real request finds everything in place."""
    body = {"model": name, "messages": [{"role": "user", "content": "a"}], "max_tokens": 1}
    said, since = "", time.monotonic()
    while time.monotonic() < until:
        secrets.require_own(url)
        request = urllib.request.Request(
            f"{url}/chat/completions",
            data=json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {key}", "Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=_ASK_S) as reply:
                reply.read()
            return
        except urllib.error.HTTPError as error:
            text = error.read().decode("utf-8", "replace").replace("\\n", "\n")
            said = f"HTTP {error.code}: {_last_lines(text, 2)}"
            refused = error.code < 500 and error.code not in {404, 408, 429}
            if refused or time.monotonic() - since > _BROKEN_S:
                raise ServingError(f"{name} does not answer: {said}") from error
        except OSError as error:
            said = str(error)
        time.sleep(_POLL_S)
    raise ServingError(f"{name} did not answer in time: {said}")


def _last_lines(text: str, count: int = 6) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " | ".join(lines[-count:])[-1500:]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
