"""The process that has Ray place a plane's replicas, and publishes where they answer.

    python -m hpcscientist.models.serving.nodes.application ORDER

It runs beside the head's Ray and stays until that ends.
"""

from __future__ import annotations

import datetime
import json
import os
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from hpcscientist.errors import ServingError
from hpcscientist.files.atomic import write_atomic, write_text
from hpcscientist.models.serving import secrets
from hpcscientist.models.serving.nodes.replica import Replica, ReplicaState
from hpcscientist.models.serving.order import Address, Endpoint, Order, ServedModel, ServingPaths

# The certificate that a plane of several nodes creates for itself, anew at each start.
#
# Only the plane's servers have its private key. Another user's program at one of their ports lacks
# it, so it gets neither the API key nor a prompt. Traffic between nodes is encrypted.

_LASTS = datetime.timedelta(days=365)  # longer than any job
_CLOCKS = datetime.timedelta(days=1)  # the most that nodes' clocks may differ


def make(paths: ServingPaths) -> None:
    """Write certificate and key, replacing those of an earlier start. Raises OSError."""
    from cryptography import x509  # noqa: PLC0415 (comes with the engine, not with us)
    from cryptography.hazmat.primitives import hashes, serialization  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "hpcscientist model plane")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCKS)
        .not_valid_after(now + _LASTS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    plain = serialization.NoEncryption()
    form, pem = serialization.PrivateFormat.PKCS8, serialization.Encoding.PEM
    paths.certificate_key.unlink(missing_ok=True)
    descriptor = os.open(paths.certificate_key, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(key.private_bytes(pem, form, plain))
    paths.certificate.write_bytes(certificate.public_bytes(pem))


_POLL_S = 0.5
_ASK_S = 120.0  # for the first token, which may need compilation first


def main(arguments: Sequence[str]) -> int:
    """Have all models served, publish their addresses, and keep these up to date."""
    order = Order.model_validate_json(Path(arguments[0]).read_bytes())
    paths = ServingPaths(order.folder)

    def tell(text: str) -> None:
        write_text(paths.state, f"{text}\n", durable=False)

    try:
        placed = _place(order, paths, tell)
        _await_answers(order, paths, placed, tell)
    except ServingError as error:
        tell(f"failed: {error}")
        print(error, flush=True)
        return 1
    tell("ready")
    published: Endpoint | None = None
    while True:
        endpoint = _endpoint(order, placed, published.started if published else time.time())
        if endpoint != published:
            write_atomic(paths.endpoint, endpoint.model_dump_json(indent=2).encode() + b"\n")
            published = endpoint
        placed.look()


class PlacedReplicas:
    """The replicas requested from Ray. `states`: the last known state of each."""

    def __init__(self) -> None:
        self._actors: list[Any] = []
        self._asked: dict[int, Any] = {}
        self.models: list[ServedModel] = []
        self.states: list[ReplicaState] = []

    def add(self, model: ServedModel, actor: Any) -> None:
        """Add a replica."""
        self._actors.append(actor)
        self.models.append(model)
        self.states.append(ReplicaState(phase=f"{model.name} waits for a place"))

    def look(self) -> None:
        """Ask each replica for its state, for a moment; a lost replica does not answer."""
        import ray  # noqa: PLC0415 (heavy)

        for number, actor in enumerate(self._actors):
            if number not in self._asked:
                self._asked[number] = actor.state.remote()
        ray.wait(list(self._asked.values()), num_returns=len(self._asked), timeout=_POLL_S)
        for number, asked in list(self._asked.items()):
            try:
                self.states[number] = ray.get(asked, timeout=0)
            except ray.exceptions.GetTimeoutError:
                continue
            except ray.exceptions.RayError as error:
                name = type(error).__name__
                self.states[number] = ReplicaState(
                    phase=f"{self.models[number].name} is lost ({name})"
                )
            del self._asked[number]
        time.sleep(_POLL_S)

    def addresses(self) -> tuple[Address, ...]:
        """Return the addresses of the replicas that answer."""
        both = zip(self.models, self.states, strict=True)
        return tuple(Address(model=model.name, url=state.url) for model, state in both if state.url)


def _place(order: Order, paths: ServingPaths, tell: Callable[[str], None]) -> PlacedReplicas:
    """Have Ray start an actor for each replica. Raises ServingError."""
    import ray  # noqa: PLC0415

    until, placed = time.monotonic() + order.ready_s, PlacedReplicas()
    ray.init(address=f"{order.head}:{order.ports.gcs}", namespace="hpcsci", log_to_driver=False)
    nodes = len(order.nodes)
    while (found := sum(node["Alive"] for node in ray.nodes())) < nodes:
        tell(f"{found} of {nodes} nodes have joined")
        if time.monotonic() > until:
            raise ServingError(f"only {found} of {nodes} nodes joined in time")
        time.sleep(_POLL_S)
    if nodes > 1:
        make(paths)
    actor = ray.remote(Replica)
    for place, model in enumerate(order.models):
        for number in range(model.replicas):
            given = {"max_restarts": -1, "max_concurrency": 4, **resources(model)}
            placed.add(model, actor.options(**given).remote(str(paths.order), place, number))
        # Later models need less of a node: place all of these first.
        while any("waits" in state.phase for state in placed.states):
            placed.look()
            if time.monotonic() > until:
                raise ServingError(
                    f"Ray found no place for {model.replicas} replicas of {model.name} "
                    f"({model.bundle} for each of {model.workers} workers); see {paths.logs}"
                )
    return placed


def resources(model: ServedModel) -> dict[str, Any]:
    """Return the resources that Ray reserves for a replica's actor.

    An engine whose workers are on several nodes has Ray place them itself.
    """
    if not model.within_node:
        return {"num_cpus": 1}
    taken = {name: amount * model.workers for name, amount in model.bundle.items()}
    given = {"num_cpus": taken.pop("CPU", 0), "num_gpus": taken.pop("GPU", 0)}
    return given | ({"resources": taken} if taken else {})


def _await_answers(
    order: Order, paths: ServingPaths, placed: PlacedReplicas, tell: Callable[[str], None]
) -> None:
    """Wait until all replicas answer, and have each generate one token. Raises ServingError."""
    until = time.monotonic() + order.ready_s
    while waiting := [state for state in placed.states if not state.url]:
        if faults := [state.fault for state in waiting if state.fault]:
            raise ServingError(faults[0])
        tell(waiting[0].phase + (f"; {len(waiting)} replicas to go" if waiting[1:] else ""))
        if time.monotonic() > until:
            raise ServingError(
                f"the models were not ready after {order.ready_s:g} s ({waiting[0].phase}); give "
                "serving.ready_s more"
            )
        placed.look()
    tell("the first token of each replica")
    with ThreadPoolExecutor(len(placed.states)) as pool:
        for asked in [pool.submit(_ask, paths, address) for address in placed.addresses()]:
            asked.result()


def _ask(paths: ServingPaths, address: Address) -> None:
    """Have one token generated, so that the first real request finds everything ready.

    Raises ServingError.
    """
    body = {"model": address.model, "messages": [{"role": "user", "content": "a"}], "max_tokens": 1}
    request = urllib.request.Request(
        f"{address.url}/chat/completions",
        data=json.dumps(body).encode(),
        headers={
            "Authorization": f"Bearer {secrets.read(paths.key)}",
            "Content-Type": "application/json",
        },
    )
    context = secrets.believed(paths) if address.url.startswith("https:") else None
    try:
        with urllib.request.urlopen(request, timeout=_ASK_S, context=context) as reply:
            reply.read()
    except urllib.error.HTTPError as error:
        said = error.read().decode("utf-8", "replace").replace("\\n", "\n")
        why = f"HTTP {error.code}: {' | '.join(said.strip().splitlines()[-2:])[-600:]}"
        raise ServingError(f"{address.model} does not answer: {why}") from error
    except OSError as error:
        raise ServingError(f"{address.model} does not answer: {error}; see {paths.logs}") from error


def _endpoint(order: Order, placed: PlacedReplicas, started: float) -> Endpoint:
    """Return where models answer now."""
    return Endpoint(
        nonce=order.nonce,
        url=f"http://127.0.0.1:{order.ports.http}/v1",
        replicas=placed.addresses(),
        models=tuple(model.name for model in order.models),
        nodes=order.nodes,
        head=order.nodes[0],
        contexts=order.contexts,
        started=started,
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
