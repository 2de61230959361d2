"""One replica of a model: a Ray actor that runs the engine's own server beside it.

Ray chooses the node and the GPUs, and restarts the actor if its process or its node is lost.
Requests go to the server by HTTP and touch neither Ray nor this process.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

from hpcscientist.files.atomic import read_tail, write_text
from hpcscientist.files.text import one_line, printable
from hpcscientist.models.serving import secrets
from hpcscientist.models.serving.nodes import caches, server
from hpcscientist.models.serving.order import Order, ServingPaths
from hpcscientist.records.base import Record

_POLL_S = 0.2
_ASK_S = 10.0
_TAIL = 64 * 1024
_PAUSE_S = 10.0  # before another start, if the last one failed
# What vLLM's log says during the start, in that order, and what vLLM does from there on.
_PHASES = (
    (r"non-default args", "starts the engine"),
    (r"Starting to load model", "reads weights"),
    (r"Loading weights took|Model loading took", "compiles"),
    (r"Capturing CUDA graphs", "captures graphs"),
    (r"init engine .*took", "starts the server"),
)


class ReplicaState(Record):
    """The state of a replica.

    `url`: where it answers, "" while it does not. `phase`: what it does until then. `fault`: why it
    never will, "" while it may.
    """

    url: str = ""
    phase: str = ""
    fault: str = ""


class Replica:
    """The Ray actor of one replica."""

    def __init__(self, order: str, model: int, number: int) -> None:
        """Start the server of replica `number` of the order's model at index `model`."""
        self._order = Order.model_validate_json(Path(order).read_bytes())
        self._model = self._order.models[model]
        self._paths = ServingPaths(self._order.folder)
        self._log = self._paths.log(f"{self._model.name}-{number}")
        self._folder = Path(tempfile.mkdtemp(prefix="r-", dir=os.environ.get(caches.FOLDER)))
        self._state = ReplicaState()
        self._archive = caches.archive(self._model, os.environ)
        # One replica of a model keeps the archive for all: they compile the same files.
        self._keeps, self._unpacked = number == 0, caches.unpack(self._archive, self._folder)
        self._server = self._start()
        threading.Thread(target=self._watch, daemon=True).start()

    def state(self) -> ReplicaState:
        """Return the current state."""
        if self._state.url or self._state.fault:
            return self._state
        said = read_tail(self._log, _TAIL)
        phases = [does for pattern, does in _PHASES if re.search(pattern, said)]
        does = phases[-1] if phases else "imports the engine"
        return ReplicaState(phase=f"{self._model.name} {does}; its log is {self._log}")

    def _start(self) -> subprocess.Popen[bytes]:
        is_alone = len(self._order.nodes) == 1
        given = server.ServerSpec(
            model=self._model,
            host="127.0.0.1" if is_alone else os.environ["VLLM_HOST_IP"],
            address=self._folder / "address",
            certificate="" if is_alone else str(self._paths.certificate),
            certificate_key="" if is_alone else str(self._paths.certificate_key),
        )
        file = self._folder / "server.json"
        write_text(file, given.model_dump_json(indent=2), durable=False)
        environment = os.environ | caches.variables(self._folder) | self._model.variables
        # Connections are idle between a campaign's requests; a server that closes one may hit a
        # request that was just sent.
        environment["VLLM_HTTP_TIMEOUT_KEEP_ALIVE"] = "86400"
        # For engines whose workers vLLM has Ray place on several nodes.
        environment["RAY_ADDRESS"] = f"{self._order.head}:{self._order.ports.gcs}"
        with self._log.open("wb") as log:
            return subprocess.Popen(
                [sys.executable, "-P", "-m", server.__name__, str(file)],
                env=environment,
                stdin=subprocess.PIPE,  # closed when this process ends, which ends the server
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _watch(self) -> None:
        """Notice when the server answers, and end when it ends: Ray then starts another replica."""
        while (status := self._server.poll()) is None:
            if not self._state.url and (url := self._answers()):
                self._state = ReplicaState(url=url)
                if self._keeps:
                    caches.keep(self._archive, self._folder, self._unpacked)
            time.sleep(_POLL_S)
        if not self._state.url:
            why = f"{self._model.name}: its engine ended with status {status}: {self._last_words()}"
            self._state = ReplicaState(fault=f"{why}; see {self._log}")
            time.sleep(_PAUSE_S)
        os._exit(1)

    def _answers(self) -> str:
        """Return where the server answers, "" while it does not."""
        try:
            url = (self._folder / "address").read_text().strip()
            key = secrets.read(self._paths.key)
            asked = urllib.request.Request(
                f"{url.removesuffix('/v1')}/health", headers={"Authorization": f"Bearer {key}"}
            )
            context = secrets.believed(self._paths) if url.startswith("https:") else None
            with urllib.request.urlopen(asked, timeout=_ASK_S, context=context):
                return url
        except OSError:  # includes HTTP errors
            return ""

    def _last_words(self) -> str:
        return one_line(printable(last_words(read_tail(self._log, _TAIL))), 600)


def last_words(log: str) -> str:
    """Return the last error in an engine's log, or else the last line."""
    lines = [line for line in log.splitlines() if line.strip()]
    errors = [line for line in lines if re.search(r"\w(Error|Exception)\b.*: ", line)]
    # The server's own last error only says that its engine had one.
    causes = [line for line in errors if "See root cause above" not in line]
    return (causes or errors or lines or ["it said nothing"])[-1]
